package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// barrierWorld is the workload of Barrier.
type barrierWorld struct {
	*waitWorld
	observer *roundObserver

	mu    sync.Mutex
	calls []*waitCall
}

var barrierEvents = []string{
	"partition", "client paused", "client closed", "client killed", "session expired", "canceled at a step", "member deleted",
	"round opened", "signal raised", "signal deleted", "surplus member", "path remade", "another size", "canceled, but in the round", "outcome read by a later session",
	"canceled", "canceled while disconnected", "uncertain", "evicted", "expired",
}

func newBarrierWorld(seed uint64) *world {
	g, _ := newWaitWorld(seed, func(n int) []string {
		return []string{
			"multi(check,create,setData)", "multi(check,create,setData" + strings.Repeat(",check", 1+n) + ")",
			"multi(check,delete,setData" + strings.Repeat(",check", 1+n) + ")",
			"multi(delete,check,setData)", "multi(delete,setData)", "multi(create,create,create,create,setData)",
			"multi(check,delete,delete,delete,delete)", "multi(check,delete,delete,delete)", "multi(check,delete,delete)",
			"getData", "getChildren2", "sync",
		}
	}, "/app/barriers/a", "/app/barriers/b")
	w := &barrierWorld{waitWorld: g}
	w.workload, w.observer = w, newRoundObserver(g)
	return w.world
}

func (w *barrierWorld) onChange(c zktest.Change) {
	for _, path := range w.paths {
		if n, err := strconv.Atoi(string(c.Data)); c.Path == path && !c.Deleted && err == nil {
			w.setSize(path, n)
		}
		if below, ok := strings.CutPrefix(c.Path, path+"/"); ok {
			w.observer.onChange(path, below, c)
			w.faultAtStep(c)
		}
	}
}

func (w *barrierWorld) startFaults(faults *sync.WaitGroup, stop <-chan struct{}) {
	w.waitWorld.startFaults(faults, stop)
	if w.operator {
		faults.Go(func() { w.evictMembers(stop, "/round") })
		faults.Go(func() { w.remakePaths(stop, func(n int) []byte { return []byte(strconv.Itoa(n)) }) })
	}
}

// waitCall is a call of Barrier.Wait, as its caller saw it.
type waitCall struct {
	worker      int
	path        string
	client      string
	n           int // of the members that it waited for
	called, ret int64
	index       int
	err         error
}

// work waits at barriers, a few times.
func (w *barrierWorld) work(p *process, j int) {
	defer w.workerDone()
	r := rand.New(rand.NewPCG(w.seed, uint64(100+10*p.i+j)))
	barriers := map[string]*sizedBarrier{}
	of := -1 // the life that they belong to
	for range w.rounds {
		time.Sleep(time.Duration(r.Int64N(int64(2 * time.Second))))
		path := w.paths[r.IntN(len(w.paths))]
		c, life := p.current()
		if life != of {
			of, barriers = life, map[string]*sizedBarrier{}
		}
		if barriers[path] == nil || r.IntN(3) == 0 {
			n := w.size(path)
			barriers[path] = &sizedBarrier{zkrecipes.NewBarrier(c, path, n), n}
		}
		if !w.runCancelableOf(r, path, barriers[path].n, func(ctx context.Context) {
			a := w.callWait(ctx, p, life, 10*p.i+j, barriers[path], path)
			if a.err != nil && !w.isExpected(ctx, p, life, a.err) {
				w.log.violation("worker %d: %v", a.worker, a.err)
			}
		}) {
			return
		}
	}
}

// sizedBarrier is a Barrier with its n, which the path may no longer have.
type sizedBarrier struct {
	*zkrecipes.Barrier
	n int
}

// callWait takes part in a round.
func (w *barrierWorld) callWait(ctx context.Context, p *process, life, worker int, b *sizedBarrier, path string) *waitCall {
	a := &waitCall{worker: worker, path: path, client: identity(p.i, life), n: b.n, called: w.log.tick()}
	a.index, a.err = b.Wait(ctx)
	a.ret = w.log.tick()
	w.log.note("worker %d of %s: waited from %d at %s: %d %v", worker, a.client, a.called, path, a.index, a.err)
	w.countOutcome(ctx, a)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, a)
	return a
}

func (w *barrierWorld) countOutcome(ctx context.Context, a *waitCall) {
	switch {
	case a.err == nil && ctx.Err() != nil:
		w.events.add("canceled, but in the round")
	case a.abandoned():
		w.events.add("canceled while disconnected")
	case errors.Is(a.err, zkrecipes.ErrSize):
		w.events.add("another size")
	case errors.Is(a.err, zkrecipes.ErrUncertain):
		w.events.add("uncertain")
	case errors.Is(a.err, zkrecipes.ErrEvicted):
		w.events.add("evicted")
	case errors.Is(a.err, zk.ErrSessionExpired):
		w.events.add("expired")
	case a.err != nil && ctx.Err() != nil:
		w.events.add("canceled")
	}
}
