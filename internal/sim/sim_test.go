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
func TestMutexSimulation(t *testing.T) {
	began := time.Now()
	for seed := *first; seed < *first+uint64(*seeds); seed++ {
		w := run(t, seed)
		for what, n := range w.plan.Fired() {
			fired.addN(what, n)
		}
		err := w.h.problem()
		if err == nil {
			continue
		}
		const again = 20
		failed := 0
		for range again {
			if run(t, seed).h.problem() != nil {
				failed++
			}
		}
		t.Errorf("seed %d: %v\n(failed %d times of %d when run again)\n%+v\nplan:\n%s\nhistory:\n%s", seed, err, failed, again, w.scenario, w.plan, w.h)
		break
	}
	t.Logf("%d seeds in %v; what befell: %s", *seeds, time.Since(began).Round(time.Millisecond), fired)
	if *seeds >= 200 && !t.Failed() {
		for what, n := range fired.n {
			if n == 0 {
				t.Errorf("never happened: %s", what)
			}
		}
	}
}

func run(t *testing.T, seed uint64) (w *world) {
	w = &world{scenario: newScenario(seed)}
	synctest.Test(t, func(*testing.T) { w.simulate() })
	return w
}
