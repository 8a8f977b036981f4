package main

import (
	"io"
	"testing"

	"github.com/zkrecipes/zkrecipes/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

func TestAKilledHolderIsSurvivedAndNothingIsLost(t *testing.T) {
	demotest.Succeed(t, `^nothing was lost: \d+ reported additions make \d+, and the counter is \d+`,
		`(?s)worker B is killed.* \+ `,   // others add after the kill
		"-workers", "3", "-rounds", "12") // enough for the others to go on, should B start late
}

func TestAnInterruptedRunLeavesNothingBehind(t *testing.T) {
	demotest.Interrupt(t, "mutex", " + ", "nothing was lost", "-rounds", "100")
}

func TestTheAccountIsSettledToTheLastAddition(t *testing.T) {
	reports := []report{
		{Worker: 0, What: holds, Token: 5, Add: 3}, {Worker: 0, What: added, Token: 5, Add: 3},
		{Worker: 1, What: holds, Token: 8, Sum: 3, Add: 4},
	}
	for name, test := range map[string]struct {
		reports  []report
		end      counter
		complete bool
		problem  string
	}{
		"killed before it was added":  {reports, counter{3, 5}, false, ""},
		"killed after it was added":   {reports, counter{7, 8}, false, ""},
		"one lost":                    {reports, counter{4, 8}, false, "LOST"},
		"one made twice":              {reports, counter{6, 5}, false, "DOUBLED"},
		"the token fell":              {reports, counter{3, 4}, false, "bears token 4, and 5 was written before"},
		"added, and reported as not":  {append(reports[:3:3], report{Worker: 1, What: kept, Token: 8}), counter{7, 8}, false, "DOUBLED"},
		"uncertain, and added":        {reports, counter{7, 8}, true, ""},
		"one never made":              {reports[:2], counter{3, 5}, true, "worker B made 0 of 1"},
		"one not made when cut short": {reports[:2], counter{3, 5}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBoard(io.Discard, 2, 1)
			for _, r := range test.reports {
				b.take(r)
			}
			verdict, err := b.settle(test.end, test.complete)
			demotest.Settle(t, verdict, err, "nothing was lost", test.problem)
		})
	}
}
