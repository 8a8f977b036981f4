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
	seeds = flag.Int("seeds", defaultSeeds(), "number of seeds to run")
	first = flag.Uint64("first", 1, "first seed")
)

// defaultSeeds returns the default of -seeds. With the race detector, seeds are
// slow, and a process that runs many of them fails a check in the detector's own
// run time (ThreadSanitizer: CHECK failed: tsan_rtl.cpp).
func defaultSeeds() int {
	if raceEnabled {
		return 20
	}
	return 200
}

// A run of each seed, with everything that can befall a lock.
func TestMutexSimulation(t *testing.T) { simulate(t, mutex.befalls, locksOf(mutex)) }

// The same with readers, writers, and writers that become readers.
func TestRWLockSimulation(t *testing.T) { simulate(t, rwLock.befalls, locksOf(rwLock)) }

// Rounds of a Barrier, whose members die, cancel, expire and come back at every
// step.
func TestBarrierSimulation(t *testing.T) { simulate(t, roundBefalls, newRoundWorld) }

// The same at a DoubleBarrier: who has entered leaves, or dies inside.
func TestDoubleBarrierSimulation(t *testing.T) { simulate(t, visitBefalls, newVisitWorld) }

// Items of a Queue, whose producers and consumers die, cancel and expire at every
// step, and are moved to servers that lag.
func TestQueueSimulation(t *testing.T) { simulate(t, queueBefalls, newQueueWorld) }

// A Gate that is shut and opened under those who wait at it.
func TestGateSimulation(t *testing.T) { simulate(t, gateBefalls, newGateWorld) }

// simulate runs the seeds in worlds of a kind. befalls are what must happen in a
// few hundred runs, beside the plans' faults.
func simulate(t *testing.T, befalls []string, newWorld func(seed uint64) *world) {
	began := time.Now()
	befell := newTally(befalls...)
	run := func(seed uint64) *world {
		w := newWorld(seed)
		synctest.Test(t, func(*testing.T) { w.simulate() })
		return w
	}
	for seed := *first; seed < *first+uint64(*seeds); seed++ {
		w := run(seed)
		befell.addAll(w.plan.Fired())
		befell.addAll(w.befell.n)
		err := w.h.problem()
		if err == nil {
			continue
		}
		const again = 20
		failed := 0
		for range again {
			if run(seed).h.problem() != nil {
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
