package main

import (
	"io"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/zkrecipes/zkrecipes/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

func TestAKilledConsumersItemIsDoneByAnother(t *testing.T) {
	demotest.Succeed(t, `^nothing was lost: 16 jobs were put, and 16 were done; A2, whose consumer was killed, was done by another; after the kill at most \S+ passed until a next job was taken$`,
		" is killed while it works on A2", "-items", "8")
}

func TestAnInterruptedRunLeavesNothingBehind(t *testing.T) {
	demotest.Interrupt(t, "queue", "is killed", "nothing was lost", "-items", "100")
}

func TestTheBoardFindsWhatAQueueMustPrevent(t *testing.T) {
	good := []report{
		{What: puts, Job: "A1"}, {What: puts, Job: "A2"}, {What: puts, Job: "A3"},
		{What: takes, Job: "A1", Attempt: 1}, {What: done, Job: "A1", Attempt: 1},
		{Worker: 1, What: takes, Job: "A2", Attempt: 1}, // and is killed
		{What: takes, Job: "A3", Attempt: 1}, {What: done, Job: "A3", Attempt: 1},
		{What: takes, Job: "A2", Attempt: 2}, {What: done, Job: "A2", Attempt: 2},
	}
	with := func(i int, r report) []report { return demotest.With(good, i, r) }
	for name, test := range map[string]struct {
		reports []report
		left    int
		problem string
	}{
		"all well":       {good, 0, ""},
		"one lost":       {good[:8], 0, "LOST: A2"},
		"one left":       {good, 1, "items left in the queue: 1"},
		"one never put":  {with(7, report{What: done, Job: "B1"}), 0, "never put"},
		"none killed":    {slices.Concat(good[:3], good[3:5], good[6:8]), 0, "no consumer was killed"},
		"not yet worked": {good[:3], 3, "LOST: A1"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBoard(io.Discard, 2, 3)
			clock := time.Now()
			b.now = func() time.Time {
				clock = clock.Add(time.Second)
				return clock
			}
			killed := 0
			for _, r := range test.reports {
				if b.take(r) {
					killed++
				}
			}
			assert.LessOrEqual(t, killed, 1)
			verdict, err := b.settle(test.left, true)
			demotest.Settle(t, verdict, err, "3 were done; A2, whose consumer was killed, was done by another; after the kill at most 1s passed", test.problem)
			if test.problem == "" {
				assert.True(t, b.complete())
			}
		})
	}
}
