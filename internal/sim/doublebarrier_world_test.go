package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// doubleBarrierWorld is the workload of DoubleBarrier.
type doubleBarrierWorld struct {
	*waitWorld
	observer *visitObserver

	mu    sync.Mutex
	calls []*enterCall
}

var doubleBarrierEvents = []string{
	"partition", "client paused", "client closed", "client killed", "session expired", "canceled at a step", "member deleted",
	"opened", "opened after members had gone", "entered", "left", "leave canceled", "leave retried", "lost", "path remade", "another size",
}

func newDoubleBarrierWorld(seed uint64) *world {
	g, _ := newWaitWorld(seed, func(n int) []string {
		return []string{
			"multi(create,setData)", "multi(delete,create,setData)", "multi(check,delete)", "multi(check,delete,delete)",
			"delete", "getData", "getChildren2", "exists", "sync",
		}
	}, "/app/visits/a", "/app/visits/b")
	w := &doubleBarrierWorld{waitWorld: g}
	w.workload, w.observer = w, newVisitObserver(g)
	return w.world
}

func (w *doubleBarrierWorld) onChange(c zktest.Change) {
	for _, path := range w.paths {
		if below, ok := strings.CutPrefix(c.Path, path+"/"); ok {
			w.observer.onChange(path, below, c)
			w.faultAtStep(c)
		}
	}
}

func (w *doubleBarrierWorld) startFaults(faults *sync.WaitGroup, stop <-chan struct{}) {
	w.waitWorld.startFaults(faults, stop)
	if w.operator {
		faults.Go(func() { w.evictMembers(stop, "") })
		faults.Go(func() { w.remakePaths(stop, func(int) []byte { return nil }) })
	}
}

// enterCall is a call of Enter that succeeded, as its caller saw it.
type enterCall struct {
	worker      int
	path        string
	client      string
	n           int // of the members that it waited for
	called, ret int64
}

// work enters and leaves, a few times.
func (w *doubleBarrierWorld) work(p *process, j int) {
	defer w.workerDone()
	r := rand.New(rand.NewPCG(w.seed, uint64(100+10*p.i+j)))
	doubles := map[string]*sizedDouble{}
	of := -1 // the life that they belong to
	for range w.rounds {
		time.Sleep(time.Duration(r.Int64N(int64(2 * time.Second))))
		path := w.paths[r.IntN(len(w.paths))]
		c, life := p.current()
		if life != of {
			of, doubles = life, map[string]*sizedDouble{}
		}
		if doubles[path] == nil || r.IntN(3) == 0 {
			n := w.size(path)
			doubles[path] = &sizedDouble{zkrecipes.NewDoubleBarrier(c, path, n), n}
		}
		d := doubles[path]
		var v *zkrecipes.Visit
		var e *enterCall
		if !w.runCancelableOf(r, path, d.n, func(ctx context.Context) {
			var err error
			if v, e, err = w.enter(ctx, p, life, 10*p.i+j, d, path); err != nil && !errors.Is(err, zkrecipes.ErrLost) && !w.isExpected(ctx, p, life, err) {
				w.log.violation("worker %d: %v", 10*p.i+j, err)
			}
		}) {
			return
		}
		if v != nil {
			w.remainInside(r, v)
			w.leave(r, p, life, v, e)
		}
	}
}

// sizedDouble is a DoubleBarrier with its n, for which others may no longer wait.
type sizedDouble struct {
	*zkrecipes.DoubleBarrier
	n int
}

func (w *doubleBarrierWorld) enter(ctx context.Context, p *process, life, worker int, d *sizedDouble, path string) (*zkrecipes.Visit, *enterCall, error) {
	e := &enterCall{worker: worker, path: path, client: identity(p.i, life), n: d.n, called: w.log.tick()}
	v, err := d.Enter(ctx)
	e.ret = w.log.tick()
	w.log.note("worker %d of %s: entered from %d at %s: %v", worker, e.client, e.called, path, err)
	if errors.Is(err, zkrecipes.ErrSize) {
		w.events.add("another size")
	}
	if err != nil {
		return nil, nil, err
	}
	w.events.add("entered")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, e)
	return v, e, nil
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
func (w *doubleBarrierWorld) leave(r *rand.Rand, p *process, life int, v *zkrecipes.Visit, e *enterCall) {
	for tries := 0; ; tries++ {
		ctx, cancel := w.ctx, context.CancelFunc(func() {})
		switch r.IntN(6) {
		case 0:
			ctx, cancel = context.WithTimeout(ctx, time.Duration(r.Int64N(int64(4*time.Second))))
		case 1:
			ctx, cancel = context.WithTimeout(ctx, time.Duration(r.Int64N(int64(2*time.Millisecond+8*w.latency))))
		}
		lost := v.Err()
		err := v.Leave(ctx)
		w.log.note("worker %d: Leave, after Enter called at %d: %v", e.worker, e.called, err)
		canceled := ctx.Err() != nil && errors.Is(err, ctx.Err())
		cancel()
		switch {
		case v.Err() == nil:
			w.log.violation("worker %d: still inside after Leave", e.worker)
		case err == nil && lost != nil && tries == 0:
			w.log.violation("worker %d: Leave returned nil, and the visit had been lost: %v", e.worker, lost)
		case err == nil:
			w.events.add("left")
			w.checkLeave(e)
			return
		case errors.Is(err, zkrecipes.ErrLost):
			w.events.add("lost")
			return
		case errors.Is(err, zkrecipes.ErrClosed) && p.ended(life):
			return
		case !canceled:
			w.log.violation("worker %d: leave: %v", e.worker, err)
			return
		}
		w.events.add("leave canceled")
		if r.IntN(2) == 0 {
			return
		}
		w.events.add("leave retried")
	}
}
