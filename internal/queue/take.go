package queue

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// takeAlone claims items without a place in the line, where nobody waits there: the
// transaction fails if somebody has joined since. done is false where others wait, and
// where no item is free.
func (t *takerPool) takeAlone() (done bool, err error) {
	s, err := t.c.Live(t.ctx)
	if err != nil {
		return false, err
	}
	if _, err := t.consumers.Ensure(t.ctx, s); err != nil {
		return false, err
	}
	scan := t.newScanner(s)
	hints := &scan.queue.Hints
	for tries := 0; tries < zkconn.MaxTries; tries++ {
		want := t.wanted()
		switch {
		case want == 0:
			return true, nil
		case hints.areOthers() && !hints.ample.Load():
			return false, nil
		case hints.areOthers():
			done, err = t.takeAnywhere(scan, want)
		default:
			done, err = t.takeUnlessJoined(scan, want)
		}
		if errors.Is(err, errNeedsPlace) {
			break
		}
		if done || err != nil {
			return done, err
		}
	}
	hints.Queued.Store(true)
	return false, nil
}

// errNeedsPlace: others wait in the consumers' line, or no item is free.
var errNeedsPlace = errors.New("a place in the consumers' line is needed")

// takeUnlessJoined claims items without a place in the line, if nobody waits there.
// errNeedsPlace is returned if somebody does, or if no item is free. done is false where
// another try may find something else: what was read is out of date, or the takers have gone.
func (t *takerPool) takeUnlessJoined(scan *scanner, want int) (done bool, err error) {
	ahead := t.takeAhead(scan.s)
	scan.ahead = ahead != nil
	var line *zkconn.Reading
	if ahead != nil {
		line = ahead.line
	}
	if line == nil {
		line, _ = scan.s.StartGet(t.consumers.Abs())
	}
	items, err := scan.freeNow(t.ctx, want)
	if errors.Is(err, queuelog.ErrStale) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	check := t.nobodyWaits(line)
	switch {
	case check == nil && ahead != nil: // the place may be gone by now
		return false, nil
	case check == nil || len(items) == 0:
		return false, errNeedsPlace
	}
	done, err = t.claimFor(t.ctx, scan, items, nil, check)
	hints := &scan.queue.Hints
	switch joined := errors.Is(err, errJoined); {
	case joined && ahead != nil: // the place may be gone by now
		return false, nil
	case joined:
		hints.noteCollision()
	case !errors.Is(err, queuelog.ErrStale): // not done, and no error: the takers may be gone by now
		return done, err
	}
	hints.Queued.Store(true)
	hints.ample.Store(hints.plenty.Load())
	return false, nil
}

// takeAnywhere claims items without a place in the line, even if others wait there, while
// items are ample. done is false where they are not, or where others were quicker.
func (t *takerPool) takeAnywhere(scan *scanner, want int) (done bool, err error) {
	items, err := scan.freeNow(t.ctx, want)
	if err == nil && scan.queue.Hints.ample.Load() {
		done, err = t.claimFor(t.ctx, scan, items, nil, nil)
	}
	if errors.Is(err, queuelog.ErrStale) {
		err = nil
	}
	return done, err
}

// nobodyWaits returns what fails when somebody has joined the line since it was read, nil
// if somebody stands there.
func (t *takerPool) nobodyWaits(line *zkconn.Reading) *zk.CheckVersionRequest {
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
	return &zk.CheckVersionRequest{Path: t.consumers.Abs(), Version: stat.Version}
}

// claimFor claims some of the items for the takers, who get them in the order in which they
// came. p is the place whose turn ends with that, or check fails where the line must be empty.
// queuelog.ErrStale: nothing was claimed, because somebody was quicker.
func (t *takerPool) claimFor(ctx context.Context, scan *scanner, items []string, p *line.Place, check *zk.CheckVersionRequest) (done bool, err error) {
	picked := t.pick(t.fitting(scan.s, items, p))
	if len(picked) == 0 {
		return false, nil
	}
	var wanted []*Queue // whose options count, for each item
	for _, k := range picked {
		wanted = append(wanted, slices.Repeat([]*Queue{k.q}, k.n)...)
	}
	a, err := scan.sendClaim(ctx, items, wanted, p, check)
	if err != nil {
		t.hand(picked, false)
		return false, err
	}
	t.deliver(ctx, picked, a)
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

// deliver hands out the items of a claim. Those that were taken too often come last,
// because it takes time to move them.
func (t *takerPool) deliver(ctx context.Context, picked []share, a *claimTransaction) {
	var served, rest []share
	tooOften := map[*taker][]*Item{}
	i := 0
	for _, k := range picked {
		for range k.n {
			switch it := a.items[i]; {
			case it == nil:
				k.err = cmp.Or(k.err, a.errs[i])
			case k.q.takenTooOften(it):
				tooOften[k.taker] = append(tooOften[k.taker], it)
			default:
				k.items = append(k.items, it)
			}
			i++
		}
		if len(tooOften[k.taker]) == 0 {
			served = append(served, k)
		} else {
			rest = append(rest, k)
		}
	}
	t.hand(served, true)
	for _, k := range rest {
		for _, it := range tooOften[k.taker] {
			k.err = cmp.Or(k.err, k.q.moveUnacked(ctx, it))
		}
		t.hand([]share{k}, true)
	}
}

// takenTooOften reports whether an item belongs to the dead letters.
func (q *Queue) takenTooOften(it *Item) bool {
	return q.Opts.MaxAttempts >= 0 && it.Claim.Attempt > q.Opts.MaxAttempts
}

// moveUnacked moves an item that was taken too often.
func (q *Queue) moveUnacked(ctx context.Context, it *Item) error {
	return q.moveToDeadLetters(ctx, it, it.data, it.Claim.Attempt-1, NeverAcked)
}

// Take waits for items, and takes at least one and at most n.
func (q *Queue) Take(ctx context.Context, n int) ([]*Item, error) {
	ctx, done := q.Client.BindWait(ctx)
	defer done()
	return q.takeN(ctx, min(n, maxBatch))
}

// TakeNow claims a free item, even if others wait.
func (q *Queue) TakeNow(ctx context.Context) (*Item, error) {
	ctx, done := q.Client.BindWait(ctx)
	defer done()
	it, err := q.tryTake(ctx)
	if err == nil && it == nil {
		err = ErrEmpty
	}
	return it, err
}

// maxQuicker is how often TryTake looks again because others were quicker, before it says
// that there is no item to be had.
const maxQuicker = 8

// tryTake claims a free item, even if others wait. nil: there is none.
func (q *Queue) tryTake(ctx context.Context) (*Item, error) {
	for stale := 0; stale < maxQuicker; {
		s, err := q.Client.Live(ctx)
		if err != nil {
			return nil, err
		}
		it, err := q.tryTakeIn(ctx, s)
		switch {
		case errors.Is(err, ErrLostAtOnce), errors.Is(err, zkconn.ErrSessionOver):
			continue
		case errors.Is(err, queuelog.ErrStale):
			stale++
			continue
		case err != nil || it == nil:
			return nil, err
		}
		if !q.takenTooOften(it) {
			return it, nil
		}
		if err := q.moveUnacked(ctx, it); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func (q *Queue) tryTakeIn(ctx context.Context, s *session.Session) (*Item, error) {
	scan := newScanner(s, q.Client, q.Path)
	items, err := scan.freeNow(ctx, 1)
	if err != nil || len(items) == 0 {
		return nil, err
	}
	a, err := scan.sendClaim(ctx, items, []*Queue{q}, nil, nil)
	if err == nil && a.items[0] == nil {
		err = cmp.Or(a.errs[0], ErrLostAtOnce)
	}
	if err != nil {
		return nil, err
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
	// held has the items that turned out to be claimed although no flag shows it, with
	// a watch that fires when the claim goes. The watch is nil where that happened once,
	// which a listing that is a moment old explains.
	held map[string]*zkconn.Watch
	// ahead: a lookAhead has set the first watch.
	ahead bool
}

func newScanner(s *session.Session, c *session.Client, path string) *scanner {
	return &scanner{c: c, s: s, path: path, queue: QueueIn(s, c.Abs(path)), held: map[string]*zkconn.Watch{}}
}

func (t *takerPool) newScanner(s *session.Session) *scanner { return newScanner(s, t.c, t.path) }

// free scans the segments from the oldest to the open one and returns the paths of the
// first n items that are free, or of as many as there are.
//
// Where it returns none, it keeps a watch on every segment: a watch on the open segment
// alone would never fire for an item that comes back in an older one.
func (s *scanner) free(ctx context.Context, n int) (items []string, err error) {
	return s.scan(ctx, 0, n, n, true)
}

// freeNow is like free for a consumer that claims what it finds. While there are many
// items it sets no watch, which its own claim would only fire. It returns more than n, as
// many as others may claim meanwhile.
func (s *scanner) freeNow(ctx context.Context, n int) (items []string, err error) {
	enough, most := s.queue.Hints.bounds(n)
	defer func() {
		switch hints := &s.queue.Hints; {
		case err == nil:
			hints.noteFound(len(items) - n)
		case errors.Is(err, queuelog.ErrStale): // others may have emptied the segments
			hints.noteStale()
		}
	}()
	if s.queue.Hints.plenty.Load() && !s.ahead {
		if items, err = s.scan(ctx, s.queue.Hints.skip(), enough, most, false); err != nil || len(items) > 0 {
			return items, err
		}
	}
	return s.scan(ctx, 0, enough, most, true)
}

// scan lists segments until it has found enough, and returns at most so many.
func (s *scanner) scan(ctx context.Context, skip, enough, most int, watch bool) (items []string, err error) {
	s.watches = s.watches[:0]
	s.queue.unblock()
	err = s.queue.Scan(ctx, skip, watch, func(number int64, segment *queuelog.Listing) bool {
		if segment.Unchanged {
			s.watches = append(s.watches, segment.Watch)
			return true
		}
		rests := segment.IsSealed()
		for _, e := range queuelog.Entries(segment.Children) {
			path := s.queue.Segment(number) + "/" + e.Name
			if e.Claimed {
				continue
			}
			rests = false
			if s.isHeld(path) {
				continue
			}
			if len(items) == most {
				return false
			}
			items = append(items, path)
		}
		if len(items) >= enough {
			return false
		}
		switch {
		case segment.IsSealed() && segment.Stat.NumChildren == 0:
			s.queue.Delete(ctx, number, segment)
			return true
		case segment.Watch != nil:
			s.watches = append(s.watches, segment.Watch)
		}
		if rests {
			s.queue.Rest(number, segment)
		}
		return true
	})
	return items, err
}

// sendClaim claims some of the items that a scan has found, one for each in wanted.
// queuelog.ErrStale: nothing was claimed, because somebody was quicker.
func (s *scanner) sendClaim(ctx context.Context, items []string, wanted []*Queue, p *line.Place, check *zk.CheckVersionRequest) (*claimTransaction, error) {
	for tries := 0; ; tries++ {
		a := &claimTransaction{s: s.s, p: p, check: check}
		at := s.queue.Hints.choose(len(items) - len(wanted))
		for i, q := range wanted {
			a.claims = append(a.claims, q.NewClaim(s.s, items[at+i]))
		}
		done, err := a.run(ctx)
		if done {
			s.queue.Hints.noteClaim()
			return a, nil
		}
		var u *unclaimable
		if errors.As(err, &u) {
			s.queue.Hints.noteCollision()
			items = slices.DeleteFunc(items, func(item string) bool { return item == u.item })
			if tries < maxClaimTries && len(items) >= len(wanted)+MinSpread {
				continue
			}
		}
		return nil, cmp.Or(s.notClaimed(ctx, err), queuelog.ErrStale)
	}
}

// isHeld reports whether the claim itself has shown that the item is not free.
func (s *scanner) isHeld(item string) bool {
	w := s.held[item]
	if blocked, ok := s.queue.Blocked.Load(item); ok {
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
		s.queue.Blocked.Store(item, w)
		s.c.Log(slog.LevelError, "an item cannot be claimed until somebody deletes the znode below it",
			"queue", s.path, "znode", exclusion)
	}
	return nil
}
