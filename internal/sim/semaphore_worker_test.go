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

// slotGrant is a SlotLease, and what its worker knows of it.
type slotGrant struct {
	worker int
	path   string
	lease  *zkrecipes.SlotLease
	held   *held
}

// uuid returns that of the acquisition.
func (g *slotGrant) uuid() string {
	at := g.lease.Checks()[0].Path
	_, uuid, _ := strings.Cut(at[strings.LastIndexByte(at, '/')+1:], "-")
	return uuid
}

// work takes slots and gives them back, a few times. It mostly uses a Semaphore again,
// which then relies on what it remembers.
func (w *semaphoreWorld) work(p *process, j int) {
	defer w.workerDone()
	r := rand.New(rand.NewPCG(w.seed, uint64(100+10*p.i+j)))
	type user struct {
		life int
		path string
	}
	made := map[user]*slotUser{}
	for i := range 2 * w.rounds {
		if w.idles && i == w.rounds { // nobody uses the paths for a while
			time.Sleep(time.Until(w.idleUntil))
		}
		time.Sleep(time.Duration(r.Int64N(int64(w.pause()))))
		path := w.paths[r.IntN(len(w.paths))]
		c, life := p.current()
		x := made[user{life, path}]
		n := w.size(path)
		if x == nil || r.IntN(6) == 0 {
			x = &slotUser{Semaphore: zkrecipes.NewSemaphore(c, path, n), n: n}
			made[user{life, path}] = x
		}
		worker := 10*p.i + j
		if !w.runCancelable(r, path, func(ctx context.Context) {
			if w.resizes && r.IntN(8) == 0 {
				w.resize(ctx, r, p, life, path, x)
				return
			}
			k := w.slots(r, n)
			began := time.Now()
			err := w.callAcquire(ctx, r, worker, x.Semaphore, path, k)
			switch {
			case err == nil:
				x.agreed = true
			case errors.Is(err, zkrecipes.ErrSize):
				w.log.note("worker %d: %v", worker, err)
				if !w.isSizeError(x, path, began, k) {
					w.log.violation("worker %d: %v", worker, err)
				}
				if !x.agreed {
					delete(made, user{life, path})
				}
			default:
				w.log.note("worker %d: %v", worker, err)
				if !w.isExpected(ctx, p, life, err) {
					w.log.violation("worker %d: %v", worker, err)
				}
			}
		}) {
			return
		}
	}
}

// pause returns for how long a worker rests between its calls, at most.
func (w *semaphoreWorld) pause() time.Duration {
	if w.crowded {
		return 50 * time.Millisecond
	}
	return 2 * time.Second
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

// slotUser is a Semaphore of a worker.
type slotUser struct {
	*zkrecipes.Semaphore
	n      int  // with which it was made
	agreed bool // it has had slots, or has changed n, so it follows the path
}

// isSizeError reports whether ErrSize was right: at some time since the call began there
// were fewer slots than it wanted, or others than the value was made for, which had not
// agreed with the path yet.
func (w *semaphoreWorld) isSizeError(x *slotUser, path string, began time.Time, k int) bool {
	if w.observer.hadSize(path, began, func(n int) bool { return k > n }) {
		w.events.add("too many")
		return true
	}
	return !x.agreed && w.observer.hadSize(path, began, func(n int) bool { return n != x.n })
}

func (w *semaphoreWorld) resize(ctx context.Context, r *rand.Rand, p *process, life int, path string, x *slotUser) {
	n := 1 + r.IntN(4)
	err := x.Resize(ctx, n)
	w.log.note("resize of %s to %d: %v", path, n, err)
	switch {
	case err == nil:
		x.agreed = true
		w.setSize(path, n)
		w.events.add("resized")
	case errors.Is(err, zkrecipes.ErrUncertain):
		w.setSize(path, n)
	case !w.waitWorld.isExpected(ctx, p, life, err):
		w.log.violation("resize: %v", err)
	}
}

// isExpected reports whether a worker has to expect an error.
func (w *semaphoreWorld) isExpected(ctx context.Context, p *process, life int, err error) bool {
	switch {
	case errors.Is(err, zkrecipes.ErrLocked):
		w.events.add("locked")
		return true
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		w.events.add("canceled")
		return true
	case errors.Is(err, zkrecipes.ErrEvicted):
		w.events.add("evicted")
		return w.operator
	}
	return errors.Is(err, zkrecipes.ErrClosed) && p.ended(life)
}

func (w *semaphoreWorld) callAcquire(ctx context.Context, r *rand.Rand, worker int, x *zkrecipes.Semaphore, path string, k int) error {
	get := x.AcquireN
	if r.IntN(5) == 0 {
		get = x.TryAcquireN
	}
	called := w.log.tick()
	l, err := get(ctx, k)
	if err != nil {
		return err
	}
	g := &slotGrant{worker: worker, path: path, lease: l}
	w.granted(g, k, called)
	for range r.IntN(3) {
		if r.IntN(2) == 0 {
			long := 2 * w.timeout
			if w.crowded {
				long = w.pause()
			}
			time.Sleep(time.Duration(r.Int64N(int64([]time.Duration{10 * time.Millisecond, long}[r.IntN(2)]))))
		} else {
			w.commitUnder(ctx, g)
		}
	}
	releasing := w.holds.releasing(g.held)
	err = l.Release()
	w.holds.released(g.held, releasing, err)
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
func (w *semaphoreWorld) granted(g *slotGrant, k int, called int64) {
	l := g.lease
	w.log.note("worker %d: granted %v of %s by 0x%x", g.worker, l.Slots(), g.path, int64(l.Token()))
	czxid, allowed, inTurn := w.observer.taken(l.Checks()[0].Path)
	if !allowed {
		w.log.violation("worker %d: granted %s, which must not have been taken", g.worker, l.Checks()[0].Path)
	}
	if len(l.Slots()) != k || int64(l.Token())>>8 != czxid {
		w.log.violation("worker %d: granted %v with token 0x%x; %s was created by 0x%x", g.worker, l.Slots(), int64(l.Token()), l.Checks()[0].Path, czxid)
	}
	if err := l.Err(); err != nil && strings.Contains(err.Error(), textNoAnswer) {
		w.log.violation("worker %d: granted after the session's timeout: %v", g.worker, err)
	}
	w.events.add(map[bool]string{true: "acquired in turn", false: "acquired at once"}[inTurn])
	if k > 1 {
		w.events.add("acquired several")
	}
	var beside bool
	g.held, beside = w.holds.granted(g.worker, called, l, judge.Event{Key: g.path, Token: int64(l.Token()), Slots: l.Slots()})
	if beside {
		w.events.add("held together")
	}
}

// commitUnder writes under the lease, which must fail if a slot of it is gone.
func (w *semaphoreWorld) commitUnder(ctx context.Context, g *slotGrant) {
	path := "/data" + strconv.Itoa(g.worker)
	_, err := g.lease.Commit(ctx, zkrecipes.OpCreate(path, []byte(g.uuid()), 0, nil), zkrecipes.OpDelete(path, -1))
	w.log.note("worker %d: commit: %v", g.worker, err)
	switch {
	case err == nil:
		w.events.add("committed")
	case errors.Is(err, zkrecipes.ErrLost) && g.lease.Err() == nil:
		w.log.violation("worker %d: Commit returned %v, and it is held", g.worker, err)
	}
}
