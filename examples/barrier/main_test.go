package main

import (
	"io"
	"slices"
	"testing"

	"github.com/zkrecipes/zkrecipes/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

func TestAllWaitForAllAndTheSumsAreRight(t *testing.T) {
	demotest.Succeed(t, "^no worker went on early: 3 workers, 25997 primes in the first 300000 numbers, and the sums are right$",
		"round 1: 9592 primes", "-workers", "3", "-rounds", "3")
}

func TestAnInterruptedRunLeavesNothingBehind(t *testing.T) {
	demotest.Interrupt(t, "barrier", "round 1: ", "no worker went on early", "-rounds", "100")
}

func TestTheBoardFindsWhatABarrierMustPrevent(t *testing.T) {
	half := primes(0, size/2)
	good := []report{
		{Worker: 0, What: waits}, {Worker: 1, What: waits},
		{Worker: 1, What: computes, Part: 0}, {Worker: 0, What: computes, Part: 1},
		{Worker: 0, What: waits}, {Worker: 1, What: waits},
		{Worker: 1, What: merges}, {Worker: 1, What: merged, Sum: primes(0, size)},
		{Worker: 0, What: through}, {Worker: 1, What: through},
	}
	with := func(i int, r report) []report { return demotest.With(good, i, r) }
	for name, test := range map[string]struct {
		reports []report
		problem string
	}{
		"all well":            {good, ""},
		"one computes early":  {slices.Concat(good[:1], []report{{Worker: 0, What: computes, Part: 1}}, good[1:3], good[4:]), "EARLY"},
		"merged early":        {slices.Concat(good[:4], good[5:7], good[4:5], good[7:]), "EARLY"},
		"a part taken twice":  {with(3, report{Worker: 0, What: computes, Part: 0}), "parts [0 0]"},
		"a part missing":      {with(7, report{Worker: 1, What: merged, Sum: half}), "WRONG"},
		"merged by two":       {append(slices.Clone(good), good[7]), "twice"},
		"never merged at all": {slices.Delete(slices.Clone(good), 6, 8), "not merged"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBoard(io.Discard, 2)
			for _, r := range test.reports {
				b.take(r)
			}
			verdict, err := b.settle(1, true)
			demotest.Settle(t, verdict, err, "the sums are right", test.problem)
		})
	}
}
