package main

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

func TestAKilledHolderIsSurvivedAndNothingIsLost(t *testing.T) {
	demotest.Anywhere(t, func(t *testing.T, servers []string) {
		stdout, stderr, exit := demotest.Start(t, servers, "-workers", "3", "-rounds", "2").End()
		require.Zero(t, exit, stderr)
		lines := strings.Split(strings.TrimSpace(stdout), "\n")
		assert.Regexp(t, `^nothing was lost: \d+ additions were told of, \d+ in all, and the counter is \d+`, lines[len(lines)-1])
		_, after, killed := strings.Cut(stdout, "worker B is killed")
		require.True(t, killed)
		assert.Contains(t, after, " + ", "others add after the kill")
	})
}

func TestAnInterruptedRunLeavesNothingBehind(t *testing.T) {
	demotest.Anywhere(t, func(t *testing.T, servers []string) {
		rest := demotest.Interrupt(t, "mutex", servers, " + ", "-rounds", "100")
		assert.Contains(t, rest, "nothing was lost")
	})
}

func TestTheAccountIsSettledToTheLastAddition(t *testing.T) {
	play := func(reports ...report) *board {
		b := newBoard(io.Discard, 2)
		for _, r := range reports {
			b.take(r)
		}
		return b
	}
	told := []report{
		{Worker: 1, What: holds, Token: 5, Add: 3}, {Worker: 1, What: added, Token: 5, Add: 3},
		{Worker: 2, What: holds, Token: 8, Sum: 3, Add: 4},
	}
	for name, test := range map[string]struct {
		reports []report
		end     counter
		ok      bool
	}{
		"killed before it was added": {told, counter{3, 5}, true},
		"killed after it was added":  {told, counter{7, 8}, true},
		"one lost":                   {told, counter{4, 8}, false},
		"one made twice":             {told, counter{6, 5}, false},
		"the token fell":             {told, counter{3, 4}, false},
		"added although kept back":   {append(told[:2:2], told[2], report{Worker: 2, What: kept, Token: 8}), counter{7, 8}, false},
	} {
		t.Run(name, func(t *testing.T) {
			verdict, err := play(test.reports...).settle(test.end)
			assert.Equal(t, test.ok, err == nil, "%s%v", verdict, err)
		})
	}
}
