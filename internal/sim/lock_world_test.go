package sim

import (
	"math"
	"sync"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// lockWorld is the workload of Mutex and RWLock: one or two locks, with an operator
// and other libraries' clients in their lines.
type lockWorld struct {
	*world
	lockRecipe
	foreignPrefixes []string // names of other libraries' places, without the number
	history         *lockHistory
	observer        *lineObserver

	mu      sync.Mutex
	holders map[*grant]struct{} // granted, and not yet being released
}

func newLockWorld(of lockRecipe) func(seed uint64) *world {
	return func(seed uint64) *world {
		sc, r := newScenario(seed)
		w := &lockWorld{
			world: &world{scenario: sc}, lockRecipe: of,
			history: newLockHistory(), holders: map[*grant]struct{}{},
		}
		w.workload = w
		w.observer = newLineObserver(func(path string) {
			if !w.skipACL { // else the operator can
				w.log.violation("%s signals its successor, and could never hold", path)
			}
		})
		w.paths = []string{"/app/locks/a", "/app/locks/b"}[:1+r.IntN(2)]
		if r.IntN(4) == 0 {
			w.foreignPrefixes = of.foreignPlaces[r.IntN(len(of.foreignPlaces))]
		}
		return w.world
	}
}

func (w *lockWorld) onChange(c zktest.Change) { w.observer.onChange(c) }

func (w *lockWorld) trace(i int) *zkrecipes.Trace {
	t := w.logTrace(i)
	told := t.Lost
	t.Lost = func(e zkrecipes.TraceEvent) {
		told(e)
		w.checkNotDeleted(e.Err)
	}
	return t
}

// begin creates the lines, and moves their sequence numbers near the limit.
func (w *lockWorld) begin() {
	if !w.nearLimit {
		return
	}
	for i, path := range w.paths {
		l, err := w.newLock(w.processes[0].client(), path).lock(w.ctx)
		if err == nil {
			err = l.Release()
		}
		if err != nil {
			w.log.violation("first use: %v", err)
		}
		at := []int32{math.MaxInt32 - 1_000_000 - 3, math.MaxInt32 - 2}[i%2]
		if err := w.srv.SetCounter(path, at); err != nil {
			w.log.note("%v", err) // the server has deleted the empty container
		}
	}
}

func (w *lockWorld) startFaults(faults *sync.WaitGroup, stop <-chan struct{}) {
	for i, prefix := range w.foreignPrefixes {
		faults.Go(func() { w.runForeignClient(i, prefix, stop) })
	}
	if w.operator || w.skipACL {
		faults.Go(func() { w.runOperator(stop) })
	}
}

func (w *lockWorld) unblock() {}

func (w *lockWorld) checkAtRest() {
	for _, path := range w.paths {
		w.checkEmpty(path)
	}
	w.history.check(w.log)
}
