package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEntryThatIsNotCompleteIsAnError(t *testing.T) {
	m := mutant{name: "m", what: "It breaks.", edits: []edit{{}}, test: "env ZK_HARNESS=zktest go test . -run TestLost"}
	require.NoError(t, m.check())
	require.Equal(t, strings.Fields("env ZK_HARNESS=zktest go test -v . -run TestLost"), withFlags(m.command(), "-v"))
	for _, spoil := range []func(*mutant){
		func(m *mutant) { m.name = "" },
		func(m *mutant) { m.what = "" },
		func(m *mutant) { m.edits = nil },
		func(m *mutant) { m.test = "" },
		func(m *mutant) { m.test = "make test" },
		func(m *mutant) { m.test = "go test ./internal/sim -seeds many" },
	} {
		m := m
		spoil(&m)
		require.Error(t, m.check(), "%+v", m)
	}
}

func TestFastIsWhatRunsFewSeedsOrNone(t *testing.T) {
	require.True(t, mutant{test: "env ZK_HARNESS=zktest go test . -run TestLost"}.fast())
	require.True(t, mutant{test: "go test ./internal/wire"}.fast())
	require.True(t, mutant{test: "go test ./internal/sim -run ^TestGate -seeds 200"}.fast())
	require.False(t, mutant{test: "go test ./internal/sim -run ^TestGate -seeds 201"}.fast())
	require.False(t, mutant{test: "go test ./internal/sim -run ^TestGate"}.fast())
}

func TestCommandsThatDifferInRunAreJoined(t *testing.T) {
	var mutants []mutant
	for _, command := range []string{
		"go test . -run TestA", "go test ./internal/sim -run A -seeds 20", "go test . -run TestB", "go test . -run TestA",
		"go test ./internal/wire", "go test ./internal/sim -run A -seeds 30", "go test ./internal/wire",
	} {
		mutants = append(mutants, mutant{test: command})
	}
	var got []string
	for _, g := range groupByRun(mutants) {
		got = append(got, g.String())
	}
	require.Equal(t, []string{
		"go test . -run TestA|TestB", "go test ./internal/sim -run A -seeds 20", "go test ./internal/wire",
		"go test ./internal/sim -run A -seeds 30",
	}, got)
	require.Equal(t, "go test . -run TestA", mutants[0].test)
}

func TestAPatternMatchesTestsAsGoTestDoes(t *testing.T) {
	tests := []string{"TestLostJoin", "TestGone"}
	require.True(t, matches("TestLost", tests))
	require.True(t, matches("Test(Gone|None)", tests))
	require.True(t, matches("^TestGone/sub", tests))
	require.False(t, matches("TestLostA", tests))
	require.False(t, matches("TestG(", tests))
}
