package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// doubleBarrierWorld is the workload of DoubleBarrier.
type doubleBarrierWorld struct {
	*membersWorld
	observer *visitObserver
}

var doubleBarrierEvents = []string{
	"canceled at a step", "member deleted", "opened", "opened after members had gone", "entered", "left", "leave canceled", "leave retried", "lost", "path remade", "another size",
}

func newDoubleBarrierWorld(seed uint64) *world {
	g, _ := newWaitWorld(seed, fixed(
		"multi(create,setData)", "multi(delete,create,setData)", "multi(check,delete)", "multi(check,delete,delete)",
		"delete", "getData", "getChildren2", "exists", "sync",
	), "/app/visits/a", "/app/visits/b")
	w := &doubleBarrierWorld{&membersWorld{waitWorld: g}, newVisitObserver(g)}
	w.operated(w.evictMembers(""), w.remakePaths(noData))
	return w.with(w)
}

func (w *doubleBarrierWorld) onChange(c zktest.Change) {
	w.changedBelow(c, w.observer.onChange)
}

// work enters and leaves, a few times.
func (w *doubleBarrierWorld) work(p *process, j int) {
	doubles := makers[*zkrecipes.DoubleBarrier]{}
	for _, by := range w.turns(p, j, w.rounds, 2*time.Second) {
		path := w.paths[by.r.IntN(len(w.paths))]
		d := doubles.use(w.waitWorld, by, path, 3, zkrecipes.NewDoubleBarrier)
		var v *zkrecipes.Visit
		var e *memberCall
		if !w.tryOf(by, path, d.n, func(ctx context.Context) error {
			v, e = w.enter(ctx, by, d.it, d.n, path)
			return e.err
		}) {
			return
		}
		if e.err == nil {
			w.remainInside(by.r, v)
			w.leave(v, e)
		}
	}
}

func (w *doubleBarrierWorld) isExpected(ctx context.Context, l life, err error) bool {
	return errors.Is(err, zkrecipes.ErrLost) || w.waitWorld.isExpected(ctx, l, err)
}

func (w *doubleBarrierWorld) enter(ctx context.Context, by *worker, d *zkrecipes.DoubleBarrier, n int, path string) (v *zkrecipes.Visit, e *memberCall) {
	e = w.call(by, path, n, func() (_ int, err error) {
		v, err = d.Enter(ctx)
		return 0, err
	})
	switch {
	case e.err == nil:
		w.events.add("entered")
	case errors.Is(e.err, zkrecipes.ErrSize):
		w.events.add("another size")
	}
	return v, e
}

// remainInside is what a worker does between Enter and Leave.
func (w *doubleBarrierWorld) remainInside(r *rand.Rand, v *zkrecipes.Visit) {
	switch r.IntN(3) {
	case 0:
		time.Sleep(time.Duration(r.Int64N(int64(10 * time.Millisecond))))
	case 1:
		select {
		case <-time.After(time.Duration(r.Int64N(int64(2 * w.timeout)))):
		case <-v.Context(w.ctx).Done():
		}
	}
}

// leave calls Leave. If the context was canceled, it may call it again.
func (w *doubleBarrierWorld) leave(v *zkrecipes.Visit, e *memberCall) {
	for tries := 0; ; tries++ {
		ctx, cancel := w.ctx, context.CancelFunc(func() {})
		switch e.r.IntN(6) {
		case 0:
			ctx, cancel = context.WithTimeout(ctx, time.Duration(e.r.Int64N(int64(4*time.Second))))
		case 1:
			ctx, cancel = context.WithTimeout(ctx, time.Duration(e.r.Int64N(int64(2*time.Millisecond+8*w.latency))))
		}
		lost := v.Err()
		err := v.Leave(ctx)
		w.log.note("worker %d: Leave, after Enter called at %d: %v", e.number, e.called, err)
		canceled := ctx.Err() != nil && errors.Is(err, ctx.Err())
		cancel()
		switch {
		case v.Err() == nil:
			w.log.violation("worker %d: still inside after Leave", e.number)
		case err == nil && lost != nil && tries == 0:
			w.log.violation("worker %d: Leave returned nil, and the visit had been lost: %v", e.number, lost)
		case err == nil:
			w.events.add("left")
			w.checkLeave(e)
			return
		case errors.Is(err, zkrecipes.ErrLost):
			w.events.add("lost")
			return
		case errors.Is(err, zkrecipes.ErrClosed) && e.ended():
			return
		case !canceled:
			w.log.violation("worker %d: leave: %v", e.number, err)
			return
		}
		w.events.add("leave canceled")
		if e.r.IntN(2) == 0 {
			return
		}
		w.events.add("leave retried")
	}
}

// checkLeave checks, after a Leave that returned nil, that all members that entered by the
// same ready or an earlier one have gone.
func (w *doubleBarrierWorld) checkLeave(e *memberCall) {
	w.observer.mu.Lock()
	defer w.observer.mu.Unlock()
	var stays *visitor
	for _, m := range w.observer.visitors[e.path] {
		if !w.matches(e, m) {
			continue
		}
		if stays = w.observer.blockedBy(e.path, m); stays == nil {
			return
		}
	}
	if stays != nil { // else checkCalls finds that the call matches no member
		w.log.violation("%s: worker %d has left, and %s is still there", e.path, e.number, stays.name)
	}
}

func (w *doubleBarrierWorld) checkAtRest() {
	for _, path := range w.paths {
		w.checkRest(path, "", func(ctx context.Context, by *worker, n int) error {
			v, e := w.enter(ctx, by, zkrecipes.NewDoubleBarrier(by.c, path, n), n, path)
			if e.err != nil {
				return e.err
			}
			err := v.Leave(ctx)
			if err == nil {
				w.checkLeave(e)
			}
			return err
		})
		w.checkCalls(path)
	}
}

// checkCalls checks that each Enter that returned nil belongs to a member of its own
// that was one of n.
func (w *doubleBarrierWorld) checkCalls(path string) {
	w.observer.mu.Lock()
	defer w.observer.mu.Unlock()
	_, calls := w.callsAt(path)
	came := w.observer.visitors[path]
	if i := match(len(calls), len(came), func(i, j int) bool { return w.matches(calls[i], came[j]) }); i >= 0 {
		w.log.violation("%s: worker %d has entered (called at %d), and was never one of %d", path, calls[i].number, calls[i].called, calls[i].of)
	}
}

// matches reports whether the member may belong to the call. The member must at
// some moment have been one of n that wait for n, or the operator
// must have deleted it before its client learned that.
func (w *doubleBarrierWorld) matches(e *memberCall, m *visitor) bool {
	if e.identity() != m.client || e.of != m.n || e.called > m.joinedAt {
		return false
	}
	return m.completeAt > 0 && m.completeAt < e.ret || m.deletedAt > 0 && m.deletedAt < e.ret && w.hasDeleted(e.path+"/"+m.name)
}
