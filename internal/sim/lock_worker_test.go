package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/judge"
)

// grant is a Lease, and what its worker knows of it.
type grant struct {
	worker          int
	lease           *zkrecipes.Lease
	lock            anyLock
	called          int64           // when Lock was called
	token           zkrecipes.Token // at the grant, like place
	place           string
	held            *held
	reading         *held         // what it is if it has become a reader; nil before downgradeCalled
	downgradeCalled time.Duration // when Downgrade was first called, 0 if never
	downgraded      bool          // Downgrade has returned nil
}

// work locks, holds and releases, a few times.
func (w *lockWorld) work(p *process, j int) {
	for _, by := range w.turns(p, j, w.rounds, 3*time.Second) {
		r := by.r
		m := w.newLock(by.c, w.paths[r.IntN(len(w.paths))], r)
		ctx, cancel, get, reads := w.drawCall(r, m)
		g, err := w.acquire(ctx, by.number, m, get, reads)
		if err != nil {
			cancel()
			w.check(ctx, by, err)
			if w.ctx.Err() != nil {
				return
			}
			continue
		}
		w.hold(r, g)
		if w.canDowngrade(g) && r.IntN(2) == 0 {
			w.downgrade(r, g)
			w.hold(r, g)
		}
		w.release(r, g)
		cancel()
	}
}

// drawCall draws how a worker acquires a lock: with which context, with which
// method, and whether as a reader.
func (w *lockWorld) drawCall(r *rand.Rand, m anyLock) (ctx context.Context, cancel context.CancelFunc, get lockFunc, reads bool) {
	ctx, cancel = w.ctx, func() {}
	how := r.IntN(10)
	switch {
	case how < 2:
		ctx, cancel = context.WithTimeout(w.ctx, time.Duration(r.Int64N(int64(4*time.Second))))
	case how < 3:
		ctx, cancel = context.WithTimeout(w.ctx, time.Duration(r.Int64N(int64(2*time.Millisecond))))
	}
	reads = m.rlock != nil && r.IntN(2) == 0
	get = m.lock
	switch {
	case reads && how == 9:
		get = m.tryRLock
	case reads:
		get = m.rlock
	case how == 9:
		get = m.tryLock
	}
	return ctx, cancel, get, reads
}

func (w *lockWorld) isExpected(ctx context.Context, _ life, err error) bool {
	switch {
	case ctx.Err() != nil && errors.Is(err, ctx.Err()),
		errors.Is(err, zkrecipes.ErrLocked),
		w.operator && errors.Is(err, zkrecipes.ErrEvicted),
		errors.Is(err, zkrecipes.ErrExhausted) && slices.Contains(w.foreignPrefixes, noPlace):
		return true
	}
	return false
}

// acquire acquires a lock, and checks what must be true at that moment.
func (w *lockWorld) acquire(ctx context.Context, worker int, m anyLock, get lockFunc, reads bool) (*grant, error) {
	called := w.log.tick()
	w.calling[m.path].Add(1)
	l, err := get(ctx)
	w.calling[m.path].Add(-1)
	if err != nil {
		return nil, err
	}
	g := &grant{worker: worker, lease: l, lock: m, called: called, token: l.Token(), place: l.Check().Path}
	w.log.note("worker %d: granted %s 0x%x reads=%v", worker, m.path, int64(g.token), reads)
	g.called = w.beginUse(g)
	w.checkGranted(worker, g.place, reads)
	if w.delays && w.observer.exists(g.place) {
		w.delay.onGrant(w, worker, m.path, g.place)
	}
	if err := l.Err(); err != nil && strings.Contains(err.Error(), textNoAnswer) {
		w.log.violation("worker %d: granted 0x%x after the session's timeout: %v", worker, int64(g.token), err)
	}
	var beside bool
	g.held, beside = w.holds.granted(worker, g.called, l, judge.Event{Key: m.path, Token: int64(g.token), Shared: reads})
	if beside && reads {
		w.events.add("readers together")
	}
	return g, nil
}

// hold does what holders do: sleep, write under the lock, re-enter.
func (w *lockWorld) hold(r *rand.Rand, g *grant) {
	for range r.IntN(3) {
		switch r.IntN(5) {
		case 0:
			time.Sleep(time.Duration(r.Int64N(int64(10 * time.Millisecond))))
		case 1:
			time.Sleep(time.Duration(r.Int64N(int64(2 * w.timeout))))
		case 2, 3:
			w.commitWrite(g)
		case 4:
			w.reenter(r, g)
		}
	}
}

// commitWrite writes with Lease.Commit, which must fail if the lock is not held.
func (w *lockWorld) commitWrite(g *grant) {
	err := w.holds.commit(g.worker, g.lock.path, g.lease, func() bool { return !g.fromWriter() || g.downgradeCalled > 0 })
	if errors.Is(err, zkrecipes.ErrLost) && g.lease.Err() == nil {
		w.log.violation("worker %d: Commit returned %v, and 0x%x is held", g.worker, err, int64(g.token))
	}
}

// fromWriter reports whether the lock was granted to a writer. It may have become a
// reader since.
func (g *grant) fromWriter() bool { return !strings.Contains(g.place, "__READ__") }

// reenter enters again, and checks that this succeeds only if the grant allows it.
func (w *lockWorld) reenter(r *rand.Rand, g *grant) {
	enter, upgrade := g.lock.lock, g.downgraded || !g.fromWriter()
	if g.lock.rlock != nil && r.IntN(2) == 0 {
		enter, upgrade = g.lock.rlock, false
	}
	lost := g.lease.Err() != nil
	again, err := enter(g.lease.Reentrant(w.ctx))
	switch {
	case err == nil && lost:
		w.log.violation("worker %d: re-entered on a lost lease", g.worker)
	case err == nil && upgrade:
		w.log.violation("worker %d: a reader became a writer", g.worker)
	case upgrade && errors.Is(err, zkrecipes.ErrUpgrade):
	case g.downgradeCalled > 0 && !g.downgraded && errors.Is(err, zkrecipes.ErrUpgrade): // about to become a reader
	case err == nil:
		if again.Token() != g.token {
			w.log.violation("worker %d: re-entered 0x%x with token 0x%x", g.worker, int64(g.token), int64(again.Token()))
		}
		if err := again.Release(); err != nil && g.lease.Err() == nil {
			w.log.violation("worker %d: release of a re-entry: %v", g.worker, err)
		}
	case g.lease.Err() == nil:
		w.log.violation("worker %d: cannot re-enter: %v", g.worker, err)
	}

	// With a context of the lease, to wait for the lock would be to wait forever.
	if _, err = enter(g.lease.Context(w.ctx)); g.lease.Err() == nil && !errors.Is(err, zkrecipes.ErrDeadlock) && !errors.Is(err, zkrecipes.ErrUpgrade) {
		w.log.violation("worker %d: waits for itself: %v", g.worker, err)
	}
	if g.fromWriter() || r.IntN(2) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(g.lease.Context(w.ctx), w.timeout)
	defer cancel()
	other, err := w.acquire(ctx, g.worker, g.lock, g.lock.tryRLock, true)
	if err == nil {
		w.release(r, other)
	} else if !w.isExpected(ctx, life{}, err) && g.lease.Err() == nil {
		w.log.violation("worker %d: cannot read twice: %v", g.worker, err)
	}
}

func (w *lockWorld) release(r *rand.Rand, g *grant) {
	releasing := w.holds.releasing(g.held, g.reading)
	twice, late := r.IntN(8) == 0, w.canDowngrade(g) && r.IntN(6) == 0
	var other error
	var wg sync.WaitGroup
	if late {
		w.events.add("downgrade beside a release")
		w.markDowngrading(g)
		wg.Go(func() { w.checkDowngrade(w.ctx, g, g.lease.Downgrade(w.ctx), true) })
	}
	if twice {
		wg.Go(func() { other = g.lease.Release() })
	}
	if g.lock.keepFor > 0 && r.IntN(3) == 0 {
		w.events.add("commit beside a release")
		wg.Go(func() { w.commitWrite(g) })
	}
	err := g.lease.Release()
	wg.Wait()
	w.log.note("worker %d: release of 0x%x: %v", g.worker, int64(g.token), err)
	switch {
	case twice && !errors.Is(other, err) && other != err:
		w.log.violation("worker %d: the second Release returned %v, the first %v", g.worker, other, err)
	case g.lease.Err() == nil:
		w.log.violation("worker %d: still held after its release", g.worker)
	case err != nil && !errors.Is(err, zkrecipes.ErrLost):
		w.log.violation("worker %d: release: %v", g.worker, err)
	}
	w.checkNotDeleted(err)
	w.endUse(g)
	w.report(g, releasing, err)
}

// report reports what was held until its release, which returned err.
func (w *lockWorld) report(g *grant, releasing time.Duration, err error) {
	done := g.downgraded
	if g.reading != nil {
		w.holds.released(g.reading, releasing, err)
		if !done && w.observer.hasExisted(readerPlace(g.place)) {
			w.events.add("downgrade canceled, but done")
			done = true
		}
	}
	if done {
		w.holds.lasted(g.held, g.downgradeCalled)
	} else {
		w.holds.released(g.held, releasing, err)
	}
}

// placeUses is what the workers of one process did with a place. A kept one is granted
// several times.
type placeUses struct {
	called int64 // when the first of them called Lock
	number int   // of the last grant and release, counted together
}

// beginUse notes a grant, and returns from when on it may have come, by logical time. A
// process can give a kept place to the next worker although the server has just deleted
// it, with a token that belongs before that moment.
func (w *lockWorld) beginUse(g *grant) (called int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	u := w.uses[g.place]
	if u == nil {
		u = &placeUses{called: g.called}
		w.uses[g.place] = u
	} else if g.lock.keepFor > 0 {
		w.events.add("kept lock taken again")
	}
	u.number++
	if w.forcedExpiry && g.lock.keepFor > 0 {
		return u.called
	}
	return g.called
}

// endUse notes a release, and checks that the place is not kept for too long. A client
// that is disconnected keeps it until it is connected again, or its session expires.
func (w *lockWorld) endUse(g *grant) {
	if g.lock.keepFor == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	u := w.uses[g.place]
	u.number++
	number := u.number
	time.AfterFunc(g.lock.keepFor+4*w.timeout, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		switch {
		case u.number != number:
		case w.observer.exists(g.place):
			w.log.violation("%s is kept for longer than %v", g.place, g.lock.keepFor)
		default:
			w.events.add("kept lock left")
		}
	})
}
