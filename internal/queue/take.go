package queue

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"path"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// takeAlone claims items without a place in the line, if there are more than consumers that wait
// there. done is false where it needs a place.
func (t *takerPool) takeAlone() (done bool, err error) {
	s, err := t.c.Live(t.ctx)
	if err != nil {
		return false, err
	}
	scan := t.newScanner(s)
	for range zkconn.MaxTries {
		want := t.wanted()
		if want == 0 {
			return true, nil
		}
		spread := scan.queue.choice()
		line, _ := s.StartGet(t.q.consumers.Abs())
		items, err := scan.free(t.ctx, want+spread)
		waiting := t.waitingIn(line)
		if err == nil && len(items) <= waiting {
			items, err = scan.free(t.ctx, want+spread+waiting)
		}
		switch {
		case errors.Is(err, queuelog.ErrStale):
			continue
		case err != nil:
			return false, err
		case len(items) <= waiting:
			return false, nil
		}
		done, err = t.claimFor(t.ctx, scan, items[:len(items)-waiting], nil)
		if !errors.Is(err, queuelog.ErrStale) && (done || err != nil) {
			return done, err
		}
	}
	return false, nil
}

// waitingIn returns how many wait in the line, as a reading of it tells.
func (t *takerPool) waitingIn(line *zkconn.Reading) int {
	if line == nil {
		return 0
	}
	select {
	case <-line.Done():
	case <-t.ctx.Done():
		return 0
	}
	_, stat, err := line.Data()
	if err != nil { // mostly nobody has ever waited
		return 0
	}
	return int(stat.NumChildren)
}

// claimFor claims some of the items for the takers. p is the place whose turn ends with that, or
// nil. queuelog.ErrStale: nothing was claimed, because somebody was quicker.
func (t *takerPool) claimFor(ctx context.Context, scan *scanner, items []string, p *line.Place) (done bool, err error) {
	n := t.beginClaim(t.fitting(scan.s, items, p))
	if n == 0 {
		return false, nil
	}
	a, err := scan.sendClaim(ctx, items, n, t.q, p)
	if err != nil {
		t.hand(nil, nil)
		return false, err
	}
	t.hand(a.items, a.errs)
	return true, nil
}

// fitting returns how many of the items one request, and the session, have room to claim. p
// is the place that the claim deletes, or nil.
func (t *takerPool) fitting(s *session.Session, items []string, p *line.Place) int {
	acl, identity := s.ACL(), []byte(t.c.Identity)
	flag := items[0] + "." + queuelog.NewMark()
	one := zkconn.CreateSize(flag, identity, acl) + zkconn.CreateSize(items[0]+queuelog.ClaimName, []byte(flag), acl) + 32
	rest := len(identity) + 4*len(flag) + 1000 // what leaves the line, or checks it
	load := s.Load()
	room := max(0, load.Bound-load.Bytes)
	if p != nil {
		room += zkconn.Weight(p.Path, false)
	}
	room /= zkconn.Weight(flag, false) + zkconn.Weight(items[0]+queuelog.ClaimName, false)
	return max(1, min(len(items), (zkconn.MaxRequest(t.c.MaxBuffer)-rest)/one, room))
}

// takenTooOften reports whether an item belongs to the dead letters.
func (q *Queue) takenTooOften(it *Item) bool {
	return q.Opts.MaxAttempts >= 0 && it.Claim.Attempt > q.Opts.MaxAttempts
}

// moveUnacked moves an item that was taken too often.
func (q *Queue) moveUnacked(ctx context.Context, it *Item) error {
	return q.moveToDeadLetters(ctx, it, it.data, it.Claim.Attempt-1, NeverAcked)
}

// Take waits for items, and takes at least one and at most n. A claim may end before it is Seen.
func (q *Queue) Take(ctx context.Context, n int) ([]*Item, error) {
	ctx, done := q.Client.BindWait(ctx)
	defer done()
	return q.takeN(ctx, min(n, maxBatch))
}

// maxQuicker is how often TryTake looks again because others were quicker, before it says
// that there is no item to be had.
const maxQuicker = 8

// TakeNow claims a free item, even if others wait.
func (q *Queue) TakeNow(ctx context.Context) (*Item, error) {
	ctx, done := q.Client.BindWait(ctx)
	defer done()
	for stale := 0; stale < maxQuicker; {
		s, err := q.Client.Live(ctx)
		if err != nil {
			return nil, err
		}
		it, err := q.takeNowIn(ctx, s)
		switch {
		case errors.Is(err, ErrLostAtOnce), errors.Is(err, zkconn.ErrSessionOver):
			continue
		case errors.Is(err, queuelog.ErrStale):
			stale++
			continue
		case err != nil:
			return nil, err
		case !q.takenTooOften(it):
			return it, nil
		}
		if err := q.moveUnacked(ctx, it); err != nil {
			return nil, err
		}
	}
	return nil, ErrEmpty
}

func (q *Queue) takeNowIn(ctx context.Context, s *session.Session) (*Item, error) {
	scan := newScanner(s, q.Client, q.Path)
	items, err := scan.free(ctx, 1+scan.queue.choice())
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return nil, ErrEmpty
	}
	a, err := scan.sendClaim(ctx, items, 1, q, nil)
	if err != nil {
		return nil, err
	}
	if a.items[0] == nil {
		return nil, cmp.Or(a.errs[0], ErrLostAtOnce)
	}
	return a.items[0], nil
}

// scanner is a consumer's view of the queue.
type scanner struct {
	c       *session.Client
	s       *session.Session
	path    string
	queue   *queueState
	watches []*zkconn.Watch // one of them fires when an item becomes free
}

func newScanner(s *session.Session, c *session.Client, path string) *scanner {
	return &scanner{c: c, s: s, path: path, queue: QueueIn(s, c.Abs(path))}
}

func (t *takerPool) newScanner(s *session.Session) *scanner { return newScanner(s, t.c, t.q.Path) }

// free scans the segments from the oldest to the open one until it has found enough free
// items, and returns the paths of what it has found.
// Where it finds fewer, it has a watch on every segment (Q5).
func (s *scanner) free(ctx context.Context, enough int) (items []string, err error) {
	s.watches = nil
	err = s.queue.Scan(ctx, func(number int64, seg *zkconn.Watch) bool {
		for _, e := range queuelog.Entries(seg.Children) {
			if e.Claimed {
				continue
			}
			path := s.queue.Segment(number) + "/" + e.Name
			if w := s.queue.blockedBy(path); w != nil {
				s.watches = append(s.watches, w)
			} else {
				items = append(items, path)
			}
		}
		switch {
		case len(items) >= enough:
			return false
		case queuelog.IsSealed(&seg.Stat) && seg.Stat.NumChildren == 0:
			s.queue.Delete(ctx, number, &seg.Stat)
		default:
			s.watches = append(s.watches, seg)
		}
		return true
	})
	return items, err
}

// sendClaim claims n of the items that a scan has found: the first ones while items are few, and a
// choice otherwise. queuelog.ErrStale: nothing was claimed, because somebody was quicker.
func (s *scanner) sendClaim(ctx context.Context, items []string, n int, q *Queue, p *line.Place) (*claimTransaction, error) {
	at := 0
	if choice := s.queue.choice(); len(items) >= n+choice {
		at = rand.IntN(choice + 1)
	}
	a := &claimTransaction{s: s.s, p: p}
	for _, item := range items[at : at+n] {
		a.claims = append(a.claims, q.NewClaim(s.s, item))
	}
	done, err := a.run(ctx)
	if done {
		s.queue.noteClaim()
		return a, nil
	}
	if u := (*unclaimable)(nil); errors.As(err, &u) {
		s.queue.noteLate(u.taken)
	}
	return nil, cmp.Or(s.notClaimed(ctx, err), queuelog.ErrStale)
}

// notClaimed is for a claim that has failed. If somebody was quicker, it returns nil once
// the next scan shows it.
func (s *scanner) notClaimed(ctx context.Context, err error) error {
	var u *unclaimable
	if !errors.As(err, &u) {
		return err
	}
	if u.taken {
		return s.block(ctx, u.item)
	}
	return s.s.Sync(ctx, u.item) // what was listed is old, and this server may lag
}

// block watches what stands in the way of an item that looks free, and passes over the item until that
// goes: a claim that the listing did not show, or whose flag somebody has deleted. If nothing is there
// any more, the item can be claimed: the refusal's reply has brought the server up to date.
func (s *scanner) block(ctx context.Context, item string) error {
	exclusion := item + queuelog.ClaimName
	w, err := s.s.Watch(ctx, exclusion)
	if errors.Is(err, zk.ErrNoAuth) { // somebody else's; the item's children tell when it goes
		w, err = s.s.WatchChildren(ctx, item)
		if err == nil && !slices.Contains(w.Children, queuelog.ClaimName[1:]) {
			return nil
		}
	}
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil
	case err != nil:
		return err
	}
	s.queue.block(item, w)
	if w.Stat.EphemeralOwner == 0 && s.isListedFree(ctx, item) { // no claim: it may stay for ever
		s.c.Log(slog.LevelError, "an item cannot be claimed until somebody deletes the znode below it",
			"queue", s.path, "znode", exclusion)
	}
	return nil
}

// isListedFree reports whether a listing shows an item that neither is done nor has a flag.
func (s *scanner) isListedFree(ctx context.Context, item string) bool {
	segment, name := path.Split(item)
	w, err := s.s.WatchChildren(ctx, strings.TrimSuffix(segment, "/"))
	return err == nil && slices.ContainsFunc(queuelog.Entries(w.Children), func(e queuelog.Entry) bool { return e.Name == name && !e.Claimed })
}
