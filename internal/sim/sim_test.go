// Package sim runs the library against zktest in simulated time, under random
// faults, and judges what it did.
package sim

import (
	"flag"
	"testing"
	"testing/synctest"
	"time"
)

var (
	seeds = flag.Int("seeds", 200, "how many seeds to run")
	first = flag.Uint64("first", 1, "the first seed")
)

// A run of each seed, with everything that can befall a lock.
func TestMutexSimulation(t *testing.T) { simulate(t, mutex) }

// The same with readers, writers, and writers that become readers.
func TestRWLockSimulation(t *testing.T) { simulate(t, rwLock) }

func simulate(t *testing.T, r recipe) {
	began := time.Now()
	befell := newTally(r.befalls...)
	for seed := *first; seed < *first+uint64(*seeds); seed++ {
		w := run(t, r, seed)
		befell.addAll(w.plan.Fired())
		befell.addAll(w.befell.n)
		err := w.h.problem()
		if err == nil {
			continue
		}
		const again = 20
		failed := 0
		for range again {
			if run(t, r, seed).h.problem() != nil {
				failed++
			}
		}
		t.Errorf("seed %d: %v\n(failed %d times of %d when run again)\n%+v\nplan:\n%s\nhistory:\n%s", seed, err, failed, again, w.scenario, w.plan, w.h)
		break
	}
	t.Logf("%d seeds in %v; what befell: %s", *seeds, time.Since(began).Round(time.Millisecond), befell)
	if *seeds >= 200 && !t.Failed() {
		for what, n := range befell.n {
			if n == 0 {
				t.Errorf("never happened: %s", what)
			}
		}
	}
}

func run(t *testing.T, r recipe, seed uint64) (w *world) {
	w = &world{recipe: r, scenario: newScenario(seed, r)}
	synctest.Test(t, func(*testing.T) { w.simulate() })
	return w
}
