package sim

import (
	"testing"
	"testing/synctest"
	"time"
)

// simulate runs the seeds in worlds of a kind. befalls are what must happen in a
// few hundred runs, beside the plans' faults.
func simulate(t *testing.T, befalls []string, newWorld func(seed uint64) *world) {
	began := time.Now()
	befell := newEventCounts(befalls...)
	run := func(seed uint64) *world {
		w := newWorld(seed)
		synctest.Test(t, func(*testing.T) { w.run() })
		return w
	}
	for seed := *first; seed < *first+uint64(*seeds); seed++ {
		w := run(seed)
		befell.addAll(w.plan.Fired())
		befell.addAll(w.events.counts)
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
		t.Errorf("seed %d: %v\n(failed %d times of %d when run again)\n%+v\nplan:\n%s\nhistory:\n%s", seed, err, failed, again, w.scenario, w.plan, w.log)
		break
	}
	t.Logf("%d seeds in %v; what befell: %s", *seeds, time.Since(began).Round(time.Millisecond), befell)
	if *seeds >= 200 && !t.Failed() {
		for what, n := range befell.counts {
			if n == 0 {
				t.Errorf("never happened: %s", what)
			}
		}
	}
}
