package main

import (
	"io"
	"testing"

	"github.com/zkrecipes/zkrecipes/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

func TestShardsAreTakenAndSharedOutAgain(t *testing.T) {
	demotest.Succeed(t, `^one owner at a time: \d+ writes to 10 shards; none was without an owner for longer than `,
		`(?s)worker B is killed\n.*worker C stands still\n.*worker C wakes up\n.*worker D is upgraded\n.*all have their shares\n`)
}

func TestAnInterruptedRunLeavesNothingBehind(t *testing.T) {
	demotest.Interrupt(t, "shards", "is killed", "one owner at a time")
}

func TestTheBoardFindsTwoOwners(t *testing.T) {
	for name, test := range map[string]struct {
		reports  []report
		complete bool
		problem  string
	}{
		"all well":               {[]report{{0, 0, 5, 1, false}, {0, 0, 5, 0, true}, {1, 0, 6, 2, false}}, false, ""},
		"reported late":          {[]report{{1, 0, 6, 2, false}, {0, 0, 5, 1, false}}, false, ""},
		"two owners":             {[]report{{0, 0, 5, 1, false}, {1, 0, 6, 2, false}, {0, 0, 5, 3, false}}, false, "TWO OWNERS"},
		"not shared out in time": {[]report{{0, 0, 5, 1, false}}, true, "were not shared out evenly"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBoard(io.Discard, 4, 2)
			for _, r := range test.reports {
				b.see(r)
			}
			verdict, err := b.settle(test.complete)
			demotest.Settle(t, verdict, err, "writes to 2 shards", test.problem)
		})
	}
}
