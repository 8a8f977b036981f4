package queue

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// All calls of a Client that wait for items of one queue, its takers, are served
// together, by one goroutine, which has one place in the line and claims for all of them at once.

// taker is a call that waits for items.
type taker struct {
	q   *Queue
	ctx context.Context
	n   int
	// done is closed when items or err is set.
	done  chan struct{}
	items []*Item
	err   error
}

// takerPool serves the takers of a Client and a queue. takerPools.Mu guards its fields.
type takerPool struct {
	pools *takerPools
	c     *session.Client
	q     *Queue // one of those with its path, whose options may differ
	// ctx is that of the goroutine. It ends when nobody has waited for linger.
	ctx     context.Context
	cancel  context.CancelCauseFunc
	changed chan struct{}

	waiting []*taker
	// spare was claimed for callers that had left by then. The next takers get it.
	spare []*Item
	// claiming: a claim is under way.
	claiming bool
	idle     *time.Timer
}

// Linger is for how long a place in the line, and what was claimed, is kept when the Client's
// last taker has left. So a caller that takes again and again with short deadlines makes progress.
const Linger = 50 * time.Millisecond

// errUnwanted: nobody waits for items any more.
var errUnwanted = errors.New("no takers")

// takeN waits for items, and takes at least one and at most n. If ctx ends while a claim is
// under way, others get what it claims. It returns either items or an error.
func (q *Queue) takeN(ctx context.Context, n int) ([]*Item, error) {
	c := q.Client
	if ctx.Err() != nil {
		return nil, c.ContextErr(ctx)
	}
	k := &taker{q: q, ctx: ctx, n: n, done: make(chan struct{})}
	pools := PoolsOf(c)
	pools.Mu.Lock()
	t := q.pool()
	t.waiting = append(t.waiting, k)
	for _, e := range t.handOut() { // other options than the caller's that it was claimed for
		giveBack(e.it)
	}
	t.noteChange()
	pools.Mu.Unlock()
	select {
	case <-k.done:
	case <-ctx.Done():
		t.end(k, c.ContextErr(ctx))
	}
	if len(k.items) > 0 {
		return k.items, nil
	}
	return nil, k.err
}

// end ends the call of a taker, unless it has ended.
func (t *takerPool) end(k *taker, err error) {
	t.pools.Mu.Lock()
	defer t.pools.Mu.Unlock()
	if i := slices.Index(t.waiting, k); i >= 0 {
		t.endAt(i, err)
		t.noteChange()
	}
}

// endAt ends the call of the ith taker that waits. takerPools.Mu must be held.
func (t *takerPool) endAt(i int, err error) {
	k := t.waiting[i]
	t.waiting = slices.Delete(t.waiting, i, i+1)
	k.err = err
	close(k.done)
}

// takerPools are what serves the takers of a Client's queues, by path.
type takerPools struct {
	Mu  sync.Mutex
	All map[string]*takerPool
}

func PoolsOf(c *session.Client) *takerPools {
	return session.Attached(c, func() *takerPools { return &takerPools{All: map[string]*takerPool{}} })
}

// pool returns what serves the queue's takers, and starts it. takerPools.Mu must be held.
func (q *Queue) pool() *takerPool {
	c, path, pools := q.Client, q.Path, PoolsOf(q.Client)
	if t := pools.All[path]; t != nil {
		return t
	}
	t := &takerPool{pools: pools, c: c, q: q, changed: make(chan struct{}, 1)}
	t.ctx, t.cancel = context.WithCancelCause(line.WithQueuedHook(c.Closing, t))
	pools.All[path] = t
	c.Tasks.Start(t.run)
	return t
}

// noteChange tells the goroutine that there are more or fewer takers. takerPools.Mu must be held.
func (t *takerPool) noteChange() {
	if t.idle != nil {
		t.idle.Stop()
		t.idle = nil
	}
	if len(t.waiting) == 0 && !t.claiming {
		t.idle = time.AfterFunc(Linger, t.endIdle)
	}
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// endIdle has the queue's place in the line deleted, unless somebody waits.
func (q *Queue) endIdle() {
	pools := PoolsOf(q.Client)
	pools.Mu.Lock()
	t := pools.All[q.Path]
	pools.Mu.Unlock()
	if t != nil {
		t.endIdle()
	}
}

// endIdle ends the goroutine, unless somebody waits.
func (t *takerPool) endIdle() {
	t.pools.Mu.Lock()
	defer t.pools.Mu.Unlock()
	if len(t.waiting) == 0 && !t.claiming && t.pools.All[t.q.Path] == t {
		delete(t.pools.All, t.q.Path)
		t.cancel(errUnwanted)
	}
}

// wanted returns how many items the waiting takers want.
func (t *takerPool) wanted() (n int) {
	t.pools.Mu.Lock()
	defer t.pools.Mu.Unlock()
	for _, k := range t.waiting {
		n += k.n
	}
	return min(n, maxBatch)
}

// beginClaim returns how many items a claim is for, at most n, or 0 if nobody waits any more.
func (t *takerPool) beginClaim(n int) int {
	n = min(n, t.wanted())
	t.pools.Mu.Lock()
	defer t.pools.Mu.Unlock()
	t.claiming = n > 0
	return n
}

// hand ends a claim, of items and errs of which each has some nil, for the takers in the order in
// which they came. Then it moves the items that were taken too often, which takes time.
func (t *takerPool) hand(items []*Item, errs []error) {
	t.pools.Mu.Lock()
	t.claiming = false
	t.spare = append(t.spare, slices.DeleteFunc(items, func(it *Item) bool { return it == nil })...)
	exhausted := t.handOut()
	for _, err := range errs {
		if err != nil && len(t.waiting) > 0 {
			t.endAt(0, err)
		}
	}
	t.noteChange()
	t.pools.Mu.Unlock()
	for _, e := range exhausted {
		if err := e.k.q.moveUnacked(t.ctx, e.it); err != nil {
			t.end(e.k, err)
		}
	}
}

// exhausted is an item that was taken too often for a taker, who waits on.
type exhausted struct {
	k  *taker
	it *Item
}

// handOut gives the items that are spare to takers that wait. takerPools.Mu must be held.
func (t *takerPool) handOut() (all []exhausted) {
	for len(t.spare) > 0 && len(t.waiting) > 0 {
		k, it := t.waiting[0], t.spare[0]
		t.spare = t.spare[1:]
		if it.err() == nil { // else it was lost
			it.Queue, it.Claim.q = k.q, k.q
			if k.q.takenTooOften(it) {
				all = append(all, exhausted{k, it})
			} else {
				k.items = append(k.items, it)
			}
		}
		if len(k.items) == k.n || len(k.items) > 0 && len(t.spare) == 0 {
			t.endAt(0, nil)
		}
	}
	return all
}

// giveBack gives items back, in the background, that no consumer has got.
func giveBack(items ...*Item) {
	for _, it := range items {
		it.Queue.Client.Tasks.Start(func() { it.Handle.Release() })
	}
}

// fail ends the calls of the takers that wait.
func (t *takerPool) fail(err error) {
	t.pools.Mu.Lock()
	defer t.pools.Mu.Unlock()
	for len(t.waiting) > 0 {
		t.endAt(0, err)
	}
	t.noteChange()
}

// Queued notifies the waiting takers that their place waits.
func (t *takerPool) Queued(p *line.Place, ahead int) {
	t.pools.Mu.Lock()
	defer t.pools.Mu.Unlock()
	for _, k := range t.waiting {
		if hook := line.QueuedHookIn(k.ctx); hook != nil {
			hook.Queued(p, ahead)
		}
	}
}

// run is the goroutine.
func (t *takerPool) run() {
	for t.awaitTakers() {
		if err := t.takeOnce(); err != nil && t.ctx.Err() == nil {
			t.fail(err)
		}
	}
	t.pools.Mu.Lock()
	defer t.pools.Mu.Unlock()
	giveBack(t.spare...)
	if t.pools.All[t.q.Path] == t { // the Client is closing
		delete(t.pools.All, t.q.Path)
	}
}

// awaitTakers returns false when there will be none.
func (t *takerPool) awaitTakers() bool {
	for t.ctx.Err() == nil {
		if t.wanted() > 0 {
			return true
		}
		select {
		case <-t.changed:
		case <-t.ctx.Done():
		}
	}
	return false
}

// takeOnce claims items for the takers, once.
func (t *takerPool) takeOnce() error {
	done, err := t.takeAlone()
	if !done && err == nil {
		err = t.q.consumers.WithPlace(t.ctx, layout.KindLock, t.takeInLine)
	}
	if errors.Is(err, ErrLostAtOnce) || errors.Is(err, zkconn.ErrSessionOver) {
		return nil // the next turn is another try
	}
	return err
}
