package sim

import (
	"testing"
	"testing/synctest"
	"time"
)

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
