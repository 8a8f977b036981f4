package zkrecipes

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// takeAlone claims items without a place in the line, where nobody waits there: the
// transaction fails if somebody has joined since. done is false where others wait, and
// where no item is free.
func (t *turns) takeAlone() (done bool, err error) {
	s, err := t.c.live(t.ctx)
	if err != nil {
		return false, err
	}
	state, err := t.consumers.ensure(t.ctx, s)
	if err != nil {
		return false, err
	}
	scan := t.newScanner(s)
	for tries := 0; tries < zkconn.MaxTries && !state.guest; tries++ {
		want := t.wanted()
		if want == 0 {
			return true, nil
		}
		line, _ := s.StartGet(t.consumers.abs())
		items, err := scan.free(t.ctx, want)
		if errors.Is(err, queuelog.ErrStale) {
			continue
		}
		if err != nil {
			return false, err
		}
		var check *zk.CheckVersionRequest
		if check = t.nobodyWaits(line); check == nil || len(items) == 0 {
			break
		}
		done, err := t.claim(t.ctx, scan, items, nil, check)
		if errors.Is(err, errJoined) {
			break
		}
		if done || err != nil {
			return done, err
		}
	}
	t.setQueued(true)
	return false, nil
}

// nobodyWaits returns what fails when somebody has joined the line since it was read, nil
// if somebody stands there.
func (t *turns) nobodyWaits(line *zkconn.Reading) *zk.CheckVersionRequest {
	if line == nil {
		return nil
	}
	select {
	case <-line.Done():
	case <-t.ctx.Done():
		return nil
	}
	_, stat, err := line.Data()
	if err != nil || stat.NumChildren > 0 {
		return nil
	}
	return &zk.CheckVersionRequest{Path: t.consumers.abs(), Version: stat.Version}
}

// claim claims items for the takers, who get them in the order in which they came. p is
// the place whose turn ends with that, or check fails where the line must be empty. done
// is false if nothing was claimed because somebody was quicker: then the caller must look
// again.
func (t *turns) claim(ctx context.Context, scan *scanner, items []string, p *place, check *zk.CheckVersionRequest) (done bool, err error) {
	picked := t.pick(len(items))
	if len(picked) == 0 {
		return false, nil
	}
	a := &claimTransaction{s: scan.s, p: p, check: check}
	for _, k := range picked {
		for range k.n {
			a.claims = append(a.claims, k.q.newClaim(scan.s, items[len(a.claims)]))
		}
	}
	done, err = a.run(ctx)
	claimed := a.items
	for _, k := range picked {
		if !done {
			break
		}
		for _, it := range claimed[:k.n] {
			ok := it != nil
			if ok && err == nil {
				ok, err = k.q.deliverable(ctx, it)
			}
			if ok {
				k.items = append(k.items, it)
			}
		}
		claimed = claimed[k.n:]
	}
	t.hand(picked, done)
	return done, scan.notClaimed(ctx, err)
}

// deliverable reports whether an item was not taken too often. Else it moves it to the
// dead letters.
func (q *Queue) deliverable(ctx context.Context, it *Item) (bool, error) {
	if q.opts.MaxAttempts < 0 || it.Attempt <= q.opts.MaxAttempts {
		return true, nil
	}
	return false, q.moveToDeadLetters(ctx, it, it.Data, it.Attempt-1, neverAcked)
}

// tryTake claims the first free item, whoever waits. nil: there is none.
func (q *Queue) tryTake(ctx context.Context) (*Item, error) {
	for {
		s, err := q.c.live(ctx)
		if err != nil {
			return nil, err
		}
		it, err := q.tryTakeIn(ctx, s)
		switch {
		case errors.Is(err, errLostAtOnce), errors.Is(err, zkconn.ErrSessionOver), errors.Is(err, queuelog.ErrStale):
			continue
		case err != nil || it == nil:
			return nil, err
		}
		if ok, err := q.deliverable(ctx, it); ok || err != nil {
			return it, err
		}
	}
}

func (q *Queue) tryTakeIn(ctx context.Context, s *session) (*Item, error) {
	scan := newScanner(s, q.c, q.path)
	for {
		items, err := scan.free(ctx, 1)
		if err != nil || len(items) == 0 {
			return nil, err
		}
		a := &claimTransaction{s: s, claims: []*claim{q.newClaim(s, items[0])}}
		done, err := a.run(ctx)
		if done && err == nil && a.items[0] == nil {
			err = errLostAtOnce
		}
		if done || err != nil {
			if err = scan.notClaimed(ctx, err); err != nil {
				return nil, err
			}
		}
		if done {
			return a.items[0], nil
		}
	}
}

// scanner is a consumer's view of the queue.
type scanner struct {
	c       *Client
	s       *session
	path    string // of the queue, as the user gave it
	queue   *queueState
	watches []*zkconn.Watch // one of them fires when an item becomes free
	// held has the items that turned out to be claimed although no flag shows it, with
	// a watch that fires when the claim goes. The watch is nil where that happened once,
	// which a listing that is a moment old explains.
	held map[string]*zkconn.Watch
}

func newScanner(s *session, c *Client, path string) *scanner {
	return &scanner{c: c, s: s, path: path, queue: s.queue(c.abs(path)), held: map[string]*zkconn.Watch{}}
}

func (t *turns) newScanner(s *session) *scanner { return newScanner(s, t.c, t.path) }

// free scans the segments from the oldest to the open one and returns the paths of the
// first n items that are free, or of as many as there are.
//
// Where it returns none, it keeps a watch on every segment: a watch on the open segment
// alone would never fire for an item that comes back in an older one.
func (s *scanner) free(ctx context.Context, n int) (items []string, err error) {
	s.watches = s.watches[:0]
	s.queue.unblock()
	err = s.queue.Scan(ctx, func(number int64, segment *zkconn.Watch) bool {
		for _, e := range queuelog.Entries(segment.Children) {
			path := s.queue.Segment(number) + "/" + e.Name
			if !e.Claimed && !s.isHeld(path) {
				if items = append(items, path); len(items) == n {
					return false
				}
			}
		}
		if queuelog.IsSealed(segment) && segment.Stat.NumChildren == 0 {
			s.queue.Delete(ctx, number, segment)
		} else {
			s.watches = append(s.watches, segment)
		}
		return true
	})
	return items, err
}

// isHeld reports whether the claim itself has shown that the item is not free.
func (s *scanner) isHeld(item string) bool {
	w := s.held[item]
	if blocked, ok := s.queue.blocked.Load(item); ok {
		w = blocked.(*zkconn.Watch)
	}
	if w == nil {
		return false
	}
	if w.HasFired() {
		delete(s.held, item)
		return false
	}
	s.watches = append(s.watches, w)
	return true
}

// notClaimed is for a claim that has failed. If somebody was quicker, it returns nil once
// the next scan shows it.
func (s *scanner) notClaimed(ctx context.Context, err error) error {
	var u *unclaimable
	if !errors.As(err, &u) {
		return err
	}
	err = nil
	if u.taken {
		err = s.taken(ctx, u.item)
	}
	if err == nil { // what was listed is old, and this server may lag
		err = s.s.Sync(ctx, u.item)
	}
	return err
}

// taken notes that an item that looks free is not: its claim exists, and the flag does
// not. Somebody has deleted the flag, or the listing is old.
func (s *scanner) taken(ctx context.Context, item string) error {
	if _, again := s.held[item]; !again {
		s.held[item] = nil
		return nil
	}
	exclusion := item + queuelog.ClaimName
	w, err := s.s.Watch(ctx, exclusion)
	if errors.Is(err, zk.ErrNoAuth) { // somebody else's; the item's children tell when it goes
		w, err = s.s.WatchChildren(ctx, item)
		if err == nil && !slices.Contains(w.Children, queuelog.ClaimName[1:]) {
			return nil
		}
	}
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	s.held[item] = w
	if w.Stat.EphemeralOwner == 0 { // no claim: it may stay for ever
		s.queue.blocked.Store(item, w)
		s.c.hooks.log(slog.LevelError, "an item cannot be claimed until somebody deletes the znode below it",
			"queue", s.path, "znode", exclusion)
	}
	return nil
}
