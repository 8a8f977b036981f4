package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func header(t *testing.T, command string) mutant {
	t.Helper()
	m, err := parseHeader("What it breaks.\nFound by: " + command + "\n\ndiff --git a/x.go b/x.go\n")
	require.NoError(t, err)
	return m
}

func TestEveryPatchHasAHeader(t *testing.T) {
	mutants, err := read(".", nil)
	require.NoError(t, err)
	for _, m := range mutants {
		require.NotEmpty(t, m.what, m.name)
	}
}

func TestReadNamesAnUnknownMutant(t *testing.T) {
	mutants, err := read(".", []string{"gate-open"})
	require.NoError(t, err)
	require.Len(t, mutants, 1)
	_, err = read(".", []string{"gate-open", "gate-opne"})
	require.ErrorContains(t, err, `"gate-opne"`)
	_, err = read(t.TempDir(), nil)
	require.Error(t, err)
}

func TestHeaderThatIsNoGoTestIsAnError(t *testing.T) {
	m := header(t, "env ZK_HARNESS=zktest go test . -run TestB04")
	require.Equal(t, "What it breaks.", m.what)
	require.Equal(t, strings.Fields("env ZK_HARNESS=zktest go test . -run TestB04"), m.command)
	require.Equal(t, strings.Fields("env ZK_HARNESS=zktest go test -v . -run TestB04"), verbose(m.command))
	for _, patch := range []string{
		"", "What it breaks.\n", "What it breaks.\n\nFound by: go test .\n", "What it breaks.\nFound by: make test\n",
		"What it breaks.\nFound by: go test ./internal/sim -seeds many\n",
	} {
		_, err := parseHeader(patch)
		require.Error(t, err, "%q", patch)
	}
}

func TestFastIsWhatRunsFewSeedsOrNone(t *testing.T) {
	require.True(t, header(t, "env ZK_HARNESS=zktest go test . -run TestB04").fast())
	require.True(t, header(t, "go test ./internal/wire").fast())
	require.True(t, header(t, "go test ./internal/sim -run ^TestGate -seeds 200").fast())
	require.False(t, header(t, "go test ./internal/sim -run ^TestGate -seeds 201").fast())
	require.False(t, header(t, "go test ./internal/sim -run ^TestGate").fast())
}

func TestCommandsThatDifferInRunAreJoined(t *testing.T) {
	var mutants []mutant
	for _, command := range []string{
		"go test . -run TestA", "go test ./internal/sim -run A -seeds 20", "go test . -run TestB", "go test . -run TestA",
		"go test ./internal/wire", "go test ./internal/sim -run A -seeds 30", "go test ./internal/wire",
	} {
		mutants = append(mutants, header(t, command))
	}
	var got []string
	for _, g := range groupByRun(mutants) {
		got = append(got, g.String())
	}
	require.Equal(t, []string{
		"go test . -run TestA|TestB", "go test ./internal/sim -run A -seeds 20", "go test ./internal/wire",
		"go test ./internal/sim -run A -seeds 30",
	}, got)
	require.Equal(t, "go test . -run TestA", strings.Join(mutants[0].command, " "))
}

func TestAPatternMatchesTestsAsGoTestDoes(t *testing.T) {
	tests := []string{"TestB04Lost", "TestB21Gone"}
	require.True(t, matches("TestB04", tests))
	require.True(t, matches("TestB(21|49)", tests))
	require.True(t, matches("^TestB21/sub", tests))
	require.False(t, matches("TestB4", tests))
	require.False(t, matches("TestB(", tests))
}
