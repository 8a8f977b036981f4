package main

import (
	"io"
	"testing"

	"github.com/zkrecipes/zkrecipes/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

func TestAHolderThatStoodStillIsRefusedByTheService(t *testing.T) {
	demotest.Succeed(t, `^no old holder wrote: \d+ entries of \d+ holders, in the order of their tokens$`,
		`(?s)worker ([A-C]) is stopped after 3 writes\n.*worker [A-C]: its write under token \d+ is refused, 412\n`)
}

func TestAnInterruptedRunLeavesNothingBehind(t *testing.T) {
	demotest.Interrupt(t, "fence", "is stopped", "no old holder wrote")
}

func TestTheAccountIsSettledByTokens(t *testing.T) {
	for name, test := range map[string]struct {
		entries  []entry
		complete bool
		problem  string
	}{
		"in order":            {[]entry{{5, "A"}, {5, "A"}, {8, "B"}}, false, ""},
		"an old holder wrote": {[]entry{{8, "B"}, {5, "A"}}, false, "OLD HOLDER"},
		"nobody was refused":  {[]entry{{5, "A"}, {8, "B"}}, true, "was not refused"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBoard(io.Discard, 2, 100)
			verdict, err := b.settle(test.entries, test.complete)
			demotest.Settle(t, verdict, err, "no old holder wrote", test.problem)
		})
	}
}
