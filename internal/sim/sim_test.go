package sim

import (
	"flag"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/assert"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

var (
	seeds = flag.Int("seeds", defaultSeeds(), "number of seeds to run")
	first = flag.Uint64("first", 1, "first seed")
)

// running is the seed that runs. A violated invariant ends the process.
var running atomic.Uint64

func init() {
	assert.Failed = func(invariant string) {
		panic(fmt.Sprintf("seed %d: invariant violated: %s", running.Load(), invariant))
	}
	assert.SimulatedTime = true
}

// defaultSeeds returns the default of -seeds. With the race detector, seeds are
// slow, and a process that runs many of them fails a check in the detector's own
// run time (ThreadSanitizer: CHECK failed: tsan_rtl.cpp).
func defaultSeeds() int {
	if recipetest.HasRaceDetector() {
		return 20
	}
	return 50
}

// Workers lock, commit, re-enter and release.
func TestMutexSimulation(t *testing.T) {
	simulate(t, mutexRecipe.mustSee, newLockWorld(mutexRecipe))
}

// As with the mutex, and most processes keep it between their workers' holds.
func TestKeptLockSimulation(t *testing.T) {
	simulate(t, keptMutexRecipe.mustSee, newLockWorld(keptMutexRecipe))
}

// As with the mutex, and nothing is granted for a while if the last holder has died.
func TestLockDelaySimulation(t *testing.T) {
	simulate(t, delayedMutexRecipe.mustSee, newLockWorld(delayedMutexRecipe))
}

// As with the mutex, with readers, writers, and writers that become readers.
func TestRWLockSimulation(t *testing.T) {
	simulate(t, rwLockRecipe.mustSee, newLockWorld(rwLockRecipe))
}

// Members of a Barrier's rounds crash, cancel, expire and come back at every step.
func TestBarrierSimulation(t *testing.T) { simulateWaits(t, barrierEvents, newBarrierWorld) }

// As with the Barrier, and members that have entered leave, or crash inside.
func TestDoubleBarrierSimulation(t *testing.T) {
	simulateWaits(t, doubleBarrierEvents, newDoubleBarrierWorld)
}

// A Queue's producers and consumers crash, cancel and expire at every step, and
// are moved to servers that lag.
func TestQueueSimulation(t *testing.T) { simulateWaits(t, queueEvents, newQueueWorld) }

// Slots of a Semaphore are taken, one or several at a time, while n changes.
func TestSemaphoreSimulation(t *testing.T) { simulateWaits(t, semaphoreEvents, newSemaphoreWorld) }

// A Gate is shut and opened while workers wait at it.
func TestGateSimulation(t *testing.T) { simulateWaits(t, gateEvents, newGateWorld) }

// Candidates campaign and lead, and each process observes.
func TestElectionSimulation(t *testing.T) { simulateWaits(t, electionEvents, newElectionWorld) }

// Znodes change while each process watches them.
func TestWatchSimulation(t *testing.T) { simulateWaits(t, watchEvents, newWatchWorld) }

// Members of a Group come, leave and are updated, while each process watches them.
func TestGroupSimulation(t *testing.T) { simulateWaits(t, groupEvents, newGroupWorld) }

// Counters are added to, set, swapped and read.
func TestCounterSimulation(t *testing.T) { simulateWaits(t, counterEvents, newCounterWorld) }

// Processes serve Shards, leave, fail and hang, while the number of shards changes.
func TestShardsSimulation(t *testing.T) { simulateWaits(t, shardsEvents, newShardsWorld) }

// simulateWaits is simulate for a waitWorld, whose processes have faults of their own.
func simulateWaits(t *testing.T, mustSee []string, newWorld func(seed uint64) *world) {
	simulate(t, append(mustSee, "partition", "client paused", "client closed", "client killed", "session expired"), newWorld)
}

// simulate runs the seeds, each in a world made by newWorld, and stops at the first
// that fails. The events in mustSee have to happen at least once in a few hundred
// seeds.
//
// Seeds share nothing but the processors, and still run one after the other. Side
// by side they are twice as fast, but the goroutines of one seed then seldom run at
// the same moment, and races inside it become half as frequent.
func simulate(t *testing.T, mustSee []string, newWorld func(seed uint64) *world) {
	began := time.Now()
	events := newEventCounts(mustSee...)
	run := func(seed uint64) *world {
		running.Store(seed)
		w := newWorld(seed)
		synctest.Test(t, func(*testing.T) { w.run() })
		return w
	}
	for seed := *first; seed < *first+uint64(*seeds); seed++ {
		w := run(seed)
		events.addAll(w.plan.Fired())
		events.addAll(w.events.counts)
		err := w.log.err()
		if err == nil {
			continue
		}
		const again = 20
		failed := 0
		for range again {
			if run(seed).log.err() != nil {
				failed++
			}
		}
		t.Errorf("seed %d: %v\n(%d of %d further runs of this seed failed)\n%+v\nplan:\n%s\nlog:\n%s",
			seed, err, failed, again, w.scenario, w.plan, w.log)
		break
	}
	t.Logf("%d seeds in %v; events: %s", *seeds, time.Since(began).Round(time.Millisecond), events)
	if *seeds >= 200 && !t.Failed() {
		for what, n := range events.counts {
			if n == 0 {
				t.Errorf("never happened: %s", what)
			}
		}
	}
}
