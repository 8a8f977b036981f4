package queue

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/placename"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
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
	// waiter is notified when the call waits in the line. It may be nil.
	waiter line.Waiter
	since  time.Time
	n      int
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
	// atWork: the goroutine has a place, or tries without one.
	atWork bool
	// joining is closed when an ack has taken a place along, and nil without one.
	joining chan struct{}
	// place is what an ack has taken along, and keep for how long it waits for a taker.
	place *line.Place
	keep  time.Duration
	idle  *time.Timer
	// failedAt is when this turn failed in the line.
	failedAt time.Time

	// acked is when an ack has ended after which no taker has come, and tookAck how long it
	// took.
	acked   time.Time
	tookAck time.Duration
	// Soon: the last taker came right after an ack.
	Soon  bool
	ahead *lookAhead
}

// linger is for how long a place in the line, and what was claimed, is kept when the Client's
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
	k := &taker{q: q, ctx: ctx, waiter: line.WaiterIn(ctx), since: time.Now(), n: n, done: make(chan struct{})}
	pools := PoolsOf(c)
	pools.Mu.Lock()
	t := q.pool()
	t.waiting = append(t.waiting, k)
	t.noteTaker()
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
	t.ctx, t.cancel = context.WithCancelCause(c.Closing)
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
	if len(t.waiting) == 0 && t.claiming == 0 && t.joining == nil {
		d := Linger
		if t.place != nil {
			d = t.keep
		}
		t.idle = time.AfterFunc(d, t.endIdle)
	}
	t.wake()
}

func (t *takerPool) wake() {
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
	if len(t.waiting) == 0 && t.claiming == 0 && t.joining == nil && t.pools.All[t.path] == t {
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

// hand ends a claim for the takers that were picked. done: it was made, and so the turn
// is over. Takers that have neither items nor an error wait again, at the front, unless
// their contexts have ended.
func (t *takerPool) hand(picked []share, done bool) {
	t.pools.Mu.Lock()
	defer t.pools.Mu.Unlock()
	t.claiming -= len(picked)
	if done {
		t.atWork = false // before an ack asks
	}
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

// fail ends the calls of the takers that a failed turn was for. Takers that have come
// since keep waiting.
func (t *takerPool) fail(err error) {
	t.pools.Mu.Lock()
	defer t.pools.Mu.Unlock()
	var later []*taker
	for _, k := range t.waiting {
		if !t.failedAt.IsZero() && k.since.After(t.failedAt) {
			later = append(later, k)
			continue
		}
		k.err = err
		close(k.done)
	}
	t.waiting = later
	t.noteChange()
}

// tellQueued reports to the waiting takers that their place waits.
func (t *takerPool) tellQueued(p *line.Place, ahead int) {
	t.pools.Mu.Lock()
	defer t.pools.Mu.Unlock()
	for _, k := range t.waiting {
		if k.waiter != nil {
			k.waiter.Queued(p, ahead)
		}
	}
}

func (t *takerPool) noteFailure() {
	t.pools.Mu.Lock()
	defer t.pools.Mu.Unlock()
	t.failedAt = time.Now()
}

// drop removes a waiting taker, and ends its call. takerPools.mu must be held.
func (t *takerPool) drop(k *taker) {
	if i := slices.Index(t.waiting, k); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
		close(k.done)
		t.noteChange()
	}
}

// reserve returns the turns for which an ack is to take a place in the line along, nil
// where the Client has one or is about to. The caller must call reserved. keep is for how
// long the place waits for a taker. Others may wait behind it.
func (q *Queue) reserve(keep time.Duration) *takerPool {
	pools := PoolsOf(q.Client)
	pools.Mu.Lock()
	defer pools.Mu.Unlock()
	t := q.pool()
	if t.atWork || len(t.waiting) > 0 || t.place != nil || t.joining != nil {
		return nil
	}
	t.joining, t.keep = make(chan struct{}), keep
	t.noteChange()
	return t
}

// reserved ends a reservation. p is nil where no place was taken.
func (t *takerPool) reserved(p *line.Place) {
	t.pools.Mu.Lock()
	defer t.pools.Mu.Unlock()
	close(t.joining)
	t.joining, t.place = nil, p
	t.noteChange()
}

// run is the goroutine.
func (t *takerPool) run() {
	for t.awaitTakers() {
		err := t.takeOnce()
		t.pools.Mu.Lock()
		t.atWork = false
		t.pools.Mu.Unlock()
		if err != nil && t.ctx.Err() == nil {
			t.fail(err)
		}
	}
	t.pools.Mu.Lock()
	p := t.place
	giveBack(t.spare...)
	if t.pools.All[t.path] == t { // the Client is closing
		delete(t.pools.All, t.path)
	}
	t.pools.Mu.Unlock()
	if p != nil {
		p.Withdraw()
	}
}

// awaitTakers returns false when there will be none.
func (t *takerPool) awaitTakers() bool {
	for {
		t.pools.Mu.Lock()
		joining := t.joining
		t.atWork = len(t.waiting) > 0 && joining == nil
		atWork := t.atWork
		t.pools.Mu.Unlock()
		switch {
		case joining != nil: // a place is on its way
			<-joining
			continue
		case t.ctx.Err() != nil:
			return false
		case atWork:
			return true
		}
		select {
		case <-t.changed:
		case <-t.ctx.Done():
		}
	}
}

// takeOnce claims items for the takers, once.
func (t *takerPool) takeOnce() error {
	t.pools.Mu.Lock()
	p := t.place
	t.place, t.failedAt = nil, time.Time{}
	t.pools.Mu.Unlock()
	done, err := false, error(nil)
	if p == nil {
		done, err = t.takeAlone()
	}
	if !done && err == nil {
		err = t.consumers.WithPlace(t.ctx, placename.KindLock, p, t.takeInLine)
	}
	if errors.Is(err, ErrLostAtOnce) || errors.Is(err, zkconn.ErrSessionOver) {
		return nil // the next turn is another try
	}
	return err
}

// queueHints is what a session remembers of the turns of a queue, also while nobody waits.
type queueHints struct {
	// queued: others wait in the line, or items are scarce. So a claim without a place
	// would fail, and is not tried.
	Queued atomic.Bool
	// plenty: the last scan found more items than were wanted.
	plenty atomic.Bool
	// ample: so many more that consumers need no turns.
	ample atomic.Bool

	mu       sync.Mutex
	spread   float64
	spreadAt time.Time
	// stuck are the last places that were first and left an item free for a grace. They
	// count no more among those ahead.
	stuck []string
}

// Where others take, too, and items are ample, consumers take no turns: each claims an item
// of its choice among the first ones, and another one if somebody was quicker. A turn costs
// two round trips of its consumer, and everybody waits for the farthest. The choice is
// as wide as collisions make it, see noteCollision and noteClaim. A consumer that is alone
// never collides, and claims in order.
const (
	MinSpread = 4
	maxSpread = 10 * queuelog.SegmentSize
	// spreadHalfLife is after how long without collisions the choice is half as wide. So
	// consumers that take slowly claim in order.
	spreadHalfLife = 500 * time.Millisecond
	// maxClaimTries is how often a claim chooses again before it scans again.
	maxClaimTries = 2
)

// width returns how wide the choice is now. t.mu must be held.
func (t *queueHints) width() int {
	now := time.Now()
	t.spread *= math.Exp2(-float64(now.Sub(t.spreadAt)) / float64(spreadHalfLife))
	t.spreadAt = now
	if t.spread < 1 {
		t.spread = 0
	}
	return int(t.spread)
}

// noteCollision widens the choice, because somebody was quicker.
func (t *queueHints) noteCollision() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.width()
	t.widen()
}

// widen makes the choice wider. t.mu must be held.
func (t *queueHints) widen() { t.spread = min(2*t.spread+MinSpread, maxSpread) }

// noteStale widens the choice, if others were quicker recently.
func (t *queueHints) noteStale() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.width() > 0 {
		t.widen()
	}
}

// noteClaim narrows the choice by a sixteenth, because a claim was made. So about one claim in
// sixteen collides.
func (t *queueHints) noteClaim() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.spread -= t.spread / 16
	if t.width() == 0 && t.ample.Load() { // nobody else takes
		t.Queued.Store(false)
	}
}

// areOthers reports whether others take, too, as far as the session knows.
func (t *queueHints) areOthers() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.width() > 0 || t.Queued.Load()
}

// bounds returns how many items a consumer that wants n looks for. Where others take, too,
// it lists another segment if there would be nothing to choose from.
func (t *queueHints) bounds(n int) (enough, most int) {
	enough = n
	if t.areOthers() {
		enough += MinSpread
	}
	return enough, n + queuelog.SegmentSize
}

// skip returns how many segments a consumer leaves to others.
func (t *queueHints) skip() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return rand.IntN(t.width()+1) / queuelog.SegmentSize
}

// noteFound notes how many items more than it wanted a consumer has found.
func (t *queueHints) noteFound(more int) {
	t.plenty.Store(more > 0)
	t.ample.Store(more >= MinSpread)
}

// choose returns how many of the first items a claim leaves to others, at most n. Where
// items are scarce, it is 0.
func (t *queueHints) choose(n int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n < MinSpread {
		return 0
	}
	return rand.IntN(min(n, t.width()) + 1)
}

// maxStuck bounds what is remembered of places.
const maxStuck = 8

func (t *queueHints) noteStuck(place string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stuck = append(t.stuck, place); len(t.stuck) > maxStuck {
		t.stuck = slices.Clone(t.stuck[1:])
	}
}

func (t *queueHints) stuckPlaces() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.stuck)
}
