// Package sim runs the library against zktest in simulated time, under random
// faults, and judges what it did.
package sim

import (
	"flag"
	"testing"
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
func TestMutexSimulation(t *testing.T) { simulate(t, mutexRecipe.mustSee, newLockWorld(mutexRecipe)) }

// The same with readers, writers, and writers that become readers.
func TestRWLockSimulation(t *testing.T) {
	simulate(t, rwLockRecipe.mustSee, newLockWorld(rwLockRecipe))
}

// Rounds of a Barrier, whose members die, cancel, expire and come back at every
// step.
func TestBarrierSimulation(t *testing.T) { simulate(t, barrierEvents, newBarrierWorld) }

// The same at a DoubleBarrier: who has entered leaves, or dies inside.
func TestDoubleBarrierSimulation(t *testing.T) {
	simulate(t, doubleBarrierEvents, newDoubleBarrierWorld)
}

// Items of a Queue, whose producers and consumers die, cancel and expire at every
// step, and are moved to servers that lag.
func TestQueueSimulation(t *testing.T) { simulate(t, queueEvents, newQueueWorld) }

// A Gate that is shut and opened under those who wait at it.
func TestGateSimulation(t *testing.T) { simulate(t, gateEvents, newGateWorld) }
