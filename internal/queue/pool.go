package queue

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/placename"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// All calls of a Client that wait for items of one queue, its takers, are served
// together, by one goroutine that has one place in the consumers' line. So a process
// with many workers stands in the line once, and claims for all of them at once.

// taker is a call that waits for items.
type taker struct {
	q   *Queue
	ctx context.Context
	n   int
	// done is closed when items or err is set, or when neither will be.
	done  chan struct{}
	items []*Item
	err   error
	// left: the caller is gone, and what was claimed for it goes to others.
	left bool
}

// takerPool serves the takers of a Client and a queue. takerPools.mu guards its fields.
type takerPool struct {
	pools     *takerPools
	c         *session.Client
	path      string
	consumers *line.Line
	// ctx is that of the goroutine. It ends when nobody has waited for linger.
	ctx     context.Context
	cancel  context.CancelCauseFunc
	changed chan struct{}

	waiting []*taker
	// spare was claimed for callers that had left by then. The next takers get it.
	spare []*Item
	// claiming is for how many takers a claim is under way.
	claiming int
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
	t.handSpare()
	t.noteChange()
	pools.Mu.Unlock()
	select {
	case <-k.done:
	case <-ctx.Done():
		if !t.quit(k) {
			return nil, c.ContextErr(ctx)
		}
	}
	switch {
	case len(k.items) > 0: // others may have failed, and were given back
		return k.items, nil
	case k.err != nil:
		return nil, k.err
	}
	return nil, c.ContextErr(ctx)
}

// quit is called by a taker whose context has ended. served: the call is over; if it is not,
// what is claimed for it goes to others, so the taker must not look again.
func (t *takerPool) quit(k *taker) (served bool) {
	t.pools.Mu.Lock()
	defer t.pools.Mu.Unlock()
	t.drop(k)
	k.left = !k.served()
	return !k.left
}

// served reports whether the call is over.
func (k *taker) served() bool {
	select {
	case <-k.done:
		return true
	default:
		return false
	}
}

// takerPools are what serves the takers of a Client's queues, by path.
type takerPools struct {
	Mu  sync.Mutex
	All map[string]*takerPool
}

func PoolsOf(c *session.Client) *takerPools {
	return session.Attached(c, func() *takerPools { return &takerPools{All: map[string]*takerPool{}} })
}

// pool returns what serves the queue's takers, and starts it. takerPools.mu must be held.
func (q *Queue) pool() *takerPool {
	c, path, pools := q.Client, q.Path, PoolsOf(q.Client)
	if t := pools.All[path]; t != nil {
		return t
	}
	t := &takerPool{pools: pools, c: c, path: path, consumers: q.consumers, changed: make(chan struct{}, 1)}
	t.ctx, t.cancel = context.WithCancelCause(line.WithWaiter(c.Closing, t))
	pools.All[path] = t
	c.Tasks.Start(t.run)
	return t
}

// noteChange tells the goroutine that there are more or fewer takers. takerPools.mu must be held.
func (t *takerPool) noteChange() {
	if t.idle != nil {
		t.idle.Stop()
		t.idle = nil
	}
	if len(t.waiting) == 0 && t.claiming == 0 {
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
	if len(t.waiting) == 0 && t.claiming == 0 && t.pools.All[t.path] == t {
		delete(t.pools.All, t.path)
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

// share is what a taker gets of a claim.
type share struct {
	*taker
	n int
}

// pick takes out the takers that share n items.
func (t *takerPool) pick(n int) (picked []share) {
	t.pools.Mu.Lock()
	defer t.pools.Mu.Unlock()
	for n > 0 && len(t.waiting) > 0 {
		k := t.waiting[0]
		t.waiting = t.waiting[1:]
		picked = append(picked, share{k, min(k.n, n)})
		n -= min(k.n, n)
	}
	t.claiming += len(picked)
	t.noteChange()
	return picked
}

// hand ends a claim for the takers that were picked. Those that have neither items nor an
// error wait again, at the front, unless their contexts have ended.
func (t *takerPool) hand(picked []share) {
	t.pools.Mu.Lock()
	defer t.pools.Mu.Unlock()
	t.claiming -= len(picked)
	var again []*taker
	for _, k := range picked {
		if len(k.items) == 0 && k.err == nil && k.ctx.Err() == nil {
			again = append(again, k.taker)
			continue
		}
		close(k.done)
		if k.left {
			t.spare = append(t.spare, k.items...)
		}
	}
	t.waiting = slices.Concat(again, t.waiting)
	t.handSpare()
	t.noteChange()
}

// handSpare gives the items that are spare to takers that wait. takerPools.mu must be held.
func (t *takerPool) handSpare() {
	for len(t.spare) > 0 && len(t.waiting) > 0 {
		k := t.waiting[0]
		for len(t.spare) > 0 && len(k.items) < k.n {
			it := t.spare[0]
			t.spare = t.spare[1:]
			switch {
			case it.err() != nil: // it was lost
			case k.q.takenTooOften(it): // its options differ
				giveBack(it)
			default:
				it.Queue, it.Claim.q = k.q, k.q
				k.items = append(k.items, it)
			}
		}
		if len(k.items) > 0 {
			t.waiting = t.waiting[1:]
			close(k.done)
		}
	}
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
	for _, k := range t.waiting {
		k.err = err
		close(k.done)
	}
	t.waiting = nil
	t.noteChange()
}

// Queued notifies the waiting takers that their place waits.
func (t *takerPool) Queued(p *line.Place, ahead int) {
	t.pools.Mu.Lock()
	defer t.pools.Mu.Unlock()
	for _, k := range t.waiting {
		if waiter := line.WaiterIn(k.ctx); waiter != nil {
			waiter.Queued(p, ahead)
		}
	}
}

// drop removes a waiting taker, and ends its call. takerPools.mu must be held.
func (t *takerPool) drop(k *taker) {
	if i := slices.Index(t.waiting, k); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
		close(k.done)
		t.noteChange()
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
	if t.pools.All[t.path] == t { // the Client is closing
		delete(t.pools.All, t.path)
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
		err = t.consumers.WithPlace(t.ctx, placename.KindLock, t.takeInLine)
	}
	if errors.Is(err, ErrLostAtOnce) || errors.Is(err, zkconn.ErrSessionOver) {
		return nil // the next turn is another try
	}
	return err
}
