package sim

import (
	"math"
	"sync"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// lockWorld is a world of locks.
type lockWorld struct {
	*world
	lockRecipe
	foreignPrefixes []string // other libraries' places in the lines
	history         *lockHistory
	observer        *lineObserver

	mu      sync.Mutex
	holders map[*grant]struct{} // out, and not being released
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
			if !w.skipACL { // else anybody can
				w.log.violation("a signal of %s, which is not for it to give", path)
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

// begin has the lines made, and then moves their counters near their end.
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
			w.log.note("%v", err) // reaped by now
		}
	}
}

func (w *lockWorld) startFaults(weather *sync.WaitGroup, calm <-chan struct{}) {
	for i, prefix := range w.foreignPrefixes {
		weather.Go(func() { w.runForeignClient(i, prefix, calm) })
	}
	if w.operator || w.skipACL {
		weather.Go(func() { w.runOperator(calm) })
	}
}

func (w *lockWorld) unblock() {}

func (w *lockWorld) checkAtRest() {
	for _, path := range w.paths {
		w.checkEmpty(path)
	}
	w.history.check(w.log)
}
