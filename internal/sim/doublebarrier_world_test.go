package sim

import (
	"strings"
	"sync"

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
			"multi(delete)", "getData", "getChildren2", "exists", "sync",
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
