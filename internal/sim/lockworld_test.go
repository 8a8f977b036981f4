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
	recipe
	foreign []string // other libraries' places in the lines
	history *history
	lines   *lines

	mu      sync.Mutex
	holding map[*grant]struct{} // out, and not being released
}

func locksOf(of recipe) func(seed uint64) *world {
	return func(seed uint64) *world {
		sc, r := newScenario(seed)
		w := &lockWorld{
			world: &world{scenario: sc}, recipe: of,
			history: newHistory(), holding: map[*grant]struct{}{},
		}
		w.subject = w
		w.lines = newLines(func(path string) {
			if !w.skipACL { // else anybody can
				w.h.violation("a signal of %s, which is not for it to give", path)
			}
		})
		w.paths = []string{"/app/locks/a", "/app/locks/b"}[:1+r.IntN(2)]
		if r.IntN(4) == 0 {
			w.foreign = of.others[r.IntN(len(of.others))]
		}
		return w.world
	}
}

func (w *lockWorld) applied(c zktest.Change) { w.lines.applied(c) }

func (w *lockWorld) trace(i int) *zkrecipes.Trace {
	t := w.notes(i)
	told := t.Lost
	t.Lost = func(e zkrecipes.TraceEvent) {
		told(e)
		w.deletedByNobody(e.Err)
	}
	return t
}

// begin has the lines made, and then moves their counters near their end.
func (w *lockWorld) begin() {
	if !w.counter {
		return
	}
	for i, path := range w.paths {
		l, err := w.of(w.processes[0].client(), path).lock(w.ctx)
		if err == nil {
			err = l.Release()
		}
		if err != nil {
			w.h.violation("first use: %v", err)
		}
		at := []int32{math.MaxInt32 - 1_000_000 - 3, math.MaxInt32 - 2}[i%2]
		if err := w.srv.SetCounter(path, at); err != nil {
			w.h.note("%v", err) // reaped by now
		}
	}
}

func (w *lockWorld) befall(weather *sync.WaitGroup, calm <-chan struct{}) {
	for i, prefix := range w.foreign {
		weather.Go(func() { w.foreigner(i, prefix, calm) })
	}
	if w.operator || w.skipACL {
		weather.Go(func() { w.operate(calm) })
	}
}

func (w *lockWorld) settle() {}

func (w *lockWorld) rest() {
	for _, path := range w.paths {
		w.nothingLeft(path)
	}
	w.history.judge(w.h)
}
