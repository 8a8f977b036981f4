package sim

import (
	"strings"
	"sync"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// visitWorld is a world of double barriers.
type doubleBarrierWorld struct {
	*waitWorld
	observer *visitObserver

	mu    sync.Mutex
	calls []*enterCall
}

var doubleBarrierEvents = []string{
	"partition", "client asleep", "client closed", "client killed", "session expired", "cancelled at a step", "member deleted",
	"opened", "opened, and some had gone", "entered", "left", "left while others stay", "left again", "lost",
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

func (w *doubleBarrierWorld) startFaults(weather *sync.WaitGroup, calm <-chan struct{}) {
	w.waitWorld.startFaults(weather, calm)
	if w.operator {
		weather.Go(func() { w.evictMembers(calm, "") })
	}
}
