package sim

import (
	"strconv"
	"strings"
	"sync"

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
			"multi(delete,check,setData)", "multi(delete,setData)", "multi(create,create,create)",
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
