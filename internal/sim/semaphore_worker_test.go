package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/judge"
)

// work takes slots and gives them back, a few times. It mostly uses a Semaphore again,
// which then relies on what it remembers.
func (w *semaphoreWorld) work(p *process, j int) {
	semaphores := makers[*zkrecipes.Semaphore]{}
	for i, by := range w.turns(p, j, 2*w.rounds, w.pause) {
		path := w.paths[by.r.IntN(len(w.paths))]
		n := w.size(path)
		x := semaphores.use(w.waitWorld, by, path, 6, zkrecipes.NewSemaphore)
		if !w.try(by, path, func(ctx context.Context) error {
			if w.resizes && by.r.IntN(8) == 0 {
				w.resize(ctx, by, path, x)
				return nil
			}
			k := w.slots(by.r, n)
			began := time.Now()
			err := w.callAcquire(ctx, by, x.it, path, k)
			x.agreed = x.agreed || err == nil
			if !errors.Is(err, zkrecipes.ErrSize) {
				return err
			}
			w.log.note("worker %d: %v", by.number, err)
			if !w.isSizeError(x, path, began, k) {
				w.log.violation("worker %d: %v", by.number, err)
			}
			if !x.agreed {
				delete(semaphores, madeAt{by.n, path})
			}
			return nil
		}) {
			return
		}
		if w.idles && i == w.rounds-1 { // nobody uses the paths for a while
			time.Sleep(time.Until(w.idleUntil))
		}
	}
}

// slots returns how many of n slots a call wants.
func (w *semaphoreWorld) slots(r *rand.Rand, n int) int {
	switch {
	case r.IntN(20) == 0:
		return n + 1
	case w.crowded && r.IntN(4) > 0:
		return 1
	}
	return 1 + r.IntN(n)
}

// isSizeError reports whether ErrSize was right: at some time since the call began there
// were fewer slots than it wanted, or others than the value was made for, which had not
// agreed with the path yet.
func (w *semaphoreWorld) isSizeError(x *made[*zkrecipes.Semaphore], path string, began time.Time, k int) bool {
	if w.observer.hadSize(path, began, func(n int) bool { return k > n }) {
		w.events.add("too many")
		return true
	}
	return !x.agreed && w.observer.hadSize(path, began, func(n int) bool { return n != x.n })
}

func (w *semaphoreWorld) resize(ctx context.Context, by *worker, path string, x *made[*zkrecipes.Semaphore]) {
	n := 1 + by.r.IntN(4)
	err := x.it.Resize(ctx, n)
	w.log.note("resize of %s to %d: %v", path, n, err)
	switch {
	case err == nil:
		x.agreed = true
		w.setSize(path, n)
		w.events.add("resized")
	case errors.Is(err, zkrecipes.ErrUncertain):
		w.setSize(path, n)
	case !w.waitWorld.isExpected(ctx, by.life, err):
		w.log.violation("resize: %v", err)
	}
}

func (w *semaphoreWorld) isExpected(ctx context.Context, l life, err error) bool {
	if errors.Is(err, zkrecipes.ErrLocked) {
		w.events.add("locked")
		return true
	}
	return w.isExplained(ctx, l, err)
}

func (w *semaphoreWorld) callAcquire(ctx context.Context, by *worker, x *zkrecipes.Semaphore, path string, k int) error {
	r, worker := by.r, by.number
	get := x.AcquireN
	if r.IntN(5) == 0 {
		get = x.TryAcquireN
	}
	called := w.log.tick()
	l, err := get(ctx, k)
	if err != nil {
		return err
	}
	held := w.granted(worker, path, l, k, called)
	for range r.IntN(3) {
		if r.IntN(2) == 0 {
			long := 2 * w.timeout
			if w.crowded {
				long = w.pause
			}
			time.Sleep(time.Duration(r.Int64N(int64([]time.Duration{10 * time.Millisecond, long}[r.IntN(2)]))))
		} else {
			w.commitUnder(ctx, worker, l)
		}
	}
	releasing := w.holds.releasing(held)
	err = l.Release()
	w.holds.released(held, releasing, err)
	w.log.note("worker %d: release of %v: %v", worker, l.Slots(), err)
	switch {
	case l.Err() == nil:
		w.log.violation("worker %d: still held after its release", worker)
	case errors.Is(err, zkrecipes.ErrLost):
		w.events.add("lost")
	case err != nil && !errors.Is(err, zkrecipes.ErrClosed):
		w.log.violation("worker %d: release: %v", worker, err)
	}
	return nil
}

// granted checks what must be so when slots are granted.
func (w *semaphoreWorld) granted(worker int, path string, l *zkrecipes.SlotLease, k int, called int64) *held {
	w.log.note("worker %d: granted %v of %s by 0x%x", worker, l.Slots(), path, int64(l.Token()))
	czxid, allowed, inTurn := w.observer.taken(l.Checks()[0].Path)
	if !allowed {
		w.log.violation("worker %d: granted %s, which must not have been taken", worker, l.Checks()[0].Path)
	}
	if len(l.Slots()) != k || int64(l.Token())>>8 != czxid {
		w.log.violation("worker %d: granted %v with token 0x%x; %s was created by 0x%x", worker, l.Slots(), int64(l.Token()), l.Checks()[0].Path, czxid)
	}
	if err := l.Err(); err != nil && strings.Contains(err.Error(), textNoAnswer) {
		w.log.violation("worker %d: granted after the session's timeout: %v", worker, err)
	}
	w.events.add(map[bool]string{true: "acquired in turn", false: "acquired at once"}[inTurn])
	if k > 1 {
		w.events.add("acquired several")
	}
	held, beside := w.holds.granted(worker, called, l, judge.Event{Key: path, Token: int64(l.Token()), Slots: l.Slots()})
	if beside {
		w.events.add("held together")
	}
	return held
}

// commitUnder writes under the lease, which must fail if a slot of it is gone.
func (w *semaphoreWorld) commitUnder(ctx context.Context, worker int, l *zkrecipes.SlotLease) {
	path := "/data" + strconv.Itoa(worker)
	_, err := l.Commit(ctx, zkrecipes.OpCreate(path, nil, 0, nil), zkrecipes.OpDelete(path, -1))
	w.log.note("worker %d: commit: %v", worker, err)
	switch {
	case err == nil:
		w.events.add("committed")
	case errors.Is(err, zkrecipes.ErrLost) && l.Err() == nil:
		w.log.violation("worker %d: Commit returned %v, and it is held", worker, err)
	}
}
