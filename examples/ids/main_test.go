package main

import (
	"io"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/zkrecipes/zkrecipes/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

func TestNoIDComesTwiceAndAnotherWorkerTakesTheKilledWorkersSlot(t *testing.T) {
	// Which one has slot 1 depends on the order in which they begin.
	demotest.Succeed(t, `^no id came twice: \d+ ids of 4 workers$`, "worker [A-D] is killed", "-rounds", "3")
}

func TestAnInterruptedRunLeavesNothingBehind(t *testing.T) {
	demotest.Interrupt(t, "ids", "is killed", "no id came twice", "-rounds", "1000")
}

func TestTheBoardFindsWhatIDsMustNotBe(t *testing.T) {
	good := []report{
		{Worker: 0, Slot: 0, IDs: []int64{1, 2}}, {Worker: 1, Slot: 1, IDs: []int64{3}}, {Worker: 1, Slot: 1, IDs: []int64{4}}, // and is killed
		{Worker: 0, Slot: 0, IDs: []int64{5}}, {Worker: 2, Slot: 1, IDs: []int64{6, 7}}, {Worker: 2, Slot: 1, IDs: []int64{8}},
	}
	with := func(i int, r report) []report { return demotest.With(good, i, r) }
	for name, test := range map[string]struct {
		reports []report
		problem string
	}{
		"all well":      {good, ""},
		"twice":         {with(5, report{Worker: 2, Slot: 1, IDs: []int64{4}}), "TWICE: 4"},
		"not growing":   {with(3, report{Worker: 0, Slot: 0, IDs: []int64{0}}), "NOT GROWING: 0 after 2"},
		"two holders":   {with(4, report{Worker: 2, Slot: 0, IDs: []int64{6, 7}}), "TWO HOLDERS: workers A and C"},
		"one that left": {slices.Insert(with(4, report{Worker: 2, Slot: 0, IDs: []int64{6, 7}})[:5:5], 4, report{Worker: 0, Left: true}), "nobody has got slot 1"},
		"none killed":   {[]report{good[0], good[3]}, "no worker was killed"},
		"another slot":  {slices.Concat(good[:4], []report{{Worker: 2, Slot: 2, IDs: []int64{9}}, {Worker: 2, Slot: 2, IDs: []int64{10}}}), "nobody has got slot 1, the killed worker's"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBoard(io.Discard, 3, 2)
			for _, r := range test.reports {
				b.take(r)
			}
			verdict, err := b.settle(true)
			demotest.Settle(t, verdict, err, "no id came twice: 8 ids of 3 workers", test.problem)
			if test.problem == "" {
				assert.True(t, b.complete())
			}
		})
	}
}
