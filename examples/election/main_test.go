package main

import (
	"io"
	"testing"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

func TestALeaderThatIsKilledOrStandsStillIsReplacedAndCannotWrite(t *testing.T) {
	demotest.Succeed(t, `^one leader at a time: \d+ writes of \d+ terms, in the order of their tokens$`,
		`(?s)is killed\n.*stands still\n.*wakes up, and its write under token \d+ is refused\n`)
}

func TestAnInterruptedRunLeavesNothingBehind(t *testing.T) {
	demotest.Interrupt(t, "election", "is killed", "one leader at a time", "-writes", "10")
}

func TestTheAccountIsSettledByVersionsAndTokens(t *testing.T) {
	wrote := func(candidate int, token zkrecipes.Token, version int32) report {
		return report{candidate, wrote, token, version}
	}
	for name, test := range map[string]struct {
		reports []report
		version int32
		problem string
	}{
		"in order":                  {[]report{wrote(0, 5, 1), wrote(1, 8, 2)}, 2, ""},
		"reported late":             {[]report{wrote(1, 8, 2), wrote(0, 5, 1)}, 2, ""},
		"an old leader wrote":       {[]report{wrote(1, 8, 1), wrote(0, 5, 2)}, 2, "OLD LEADER"},
		"two made the same write":   {[]report{wrote(0, 5, 1), wrote(1, 8, 1)}, 2, "two leaders"},
		"a write of nobody's":       {[]report{wrote(0, 5, 1)}, 2, "1 writes were reported, and there are 2"},
		"a write that was not made": {[]report{wrote(0, 5, 1), wrote(0, 5, 2)}, 1, "2 writes were reported, and there are 1"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBoard(io.Discard, 2, 100)
			for _, r := range test.reports {
				b.take(r)
			}
			verdict, err := b.settle(test.version, false)
			demotest.Settle(t, verdict, err, "one leader at a time", test.problem)
		})
	}
}
