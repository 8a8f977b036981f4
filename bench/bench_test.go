package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The tests check that the program works, on zktest unless ZK_HARNESS says
// otherwise. They assert nothing about time.

func quick(t *testing.T) context.Context {
	if os.Getenv("ZK_HARNESS") == "" {
		t.Setenv("ZK_HARNESS", "zktest")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// testLab returns a lab that is closed after the test.
func testLab(t *testing.T, ctx context.Context) *lab {
	lab, err := newLab(ctx)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, lab.close()) })
	return lab
}

func TestAShortRunWritesTheReportAndThePlot(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "docs")
	var stdout bytes.Buffer
	require.NoError(t, run(quick(t), config{short: true, out: dir}, &stdout))

	results, err := os.ReadFile(filepath.Join(dir, "results.txt"))
	require.NoError(t, err)
	require.Equal(t, stdout.String(), string(results))
	page, err := os.ReadFile(filepath.Join(dir, "README.md"))
	require.NoError(t, err)
	for _, sc := range scenarios(true) {
		require.Contains(t, stdout.String(), "| "+sc.name+" | zkrecipes | ")
		require.Equal(t, !slices.Contains(detail, sc.name), strings.Contains(string(page), "\n| "+sc.name+" | "), sc.name)
	}
	require.Contains(t, string(page), "Its figures mean little")
	require.Contains(t, stdout.String(), "Its figures mean little")
	require.Contains(t, stdout.String(), "with 1000 sessions, beside zk.Lock | at least 1.90 |  | not measured in this run |")
	svg, err := os.ReadFile(filepath.Join(dir, plotName))
	require.NoError(t, err)
	require.Contains(t, string(svg), "zkrecipes, a hand-over")
	for _, peer := range []string{curator, kazoo} {
		if measured := !strings.Contains(stdout.String(), "| "+peer+" | not measured: "); measured {
			require.Contains(t, stdout.String(), "| "+nameFree+" | "+peer+" | ")
			require.Contains(t, string(svg), peer+", an acquisition")
		} else {
			require.NotContains(t, string(svg), peer)
		}
	}
}

// The costs of a lock are known, so they show whether the program counts correctly.
func TestCountsAreWhatTheOperationsCost(t *testing.T) {
	ctx := quick(t)
	rep, err := testLab(t, ctx).report(ctx, config{short: true})
	require.NoError(t, err)

	for _, want := range []struct {
		scenario, side    string
		requests, commits float64
	}{
		{nameFree, raw, 2, 2},
		{nameFree, theirs, 3, 2},
		{nameFree, ours, 2, 2},
		{nameLocks, raw, 2, 2},
		{nameLocks, theirs, 3, 2},
		{nameLocks, ours, 2, 2},
		{nameTry, raw, 1, 0},
		{nameTry, ours, 1, 0},
	} {
		w := rep.find(want.scenario, want.side)
		require.NotNil(t, w)
		require.Equal(t, want.requests, w.Requests(), "%s, %s", want.scenario, want.side)
		require.Equal(t, want.commits, w.Commits(), "%s, %s", want.scenario, want.side)
	}
	raws := rep.find(nameTry, raw)
	require.LessOrEqual(t, rep.find(nameTry, ours).Received(), raws.Received()+50, "one small read: the line's data, or the listing")
	for _, h := range rep.HandOvers {
		require.Equal(t, 1.0, h.Ours.Requests(), "the release, and nothing else")
		require.Equal(t, int64(h.Waiters), h.Ours.pass.Commits)
		require.Equal(t, 2.0, h.Theirs.Requests(), "the delete, and a listing")
	}
}

func TestAScenarioEndsWithItsContext(t *testing.T) {
	lab := testLab(t, quick(t))
	ctx, cancel := context.WithCancel(t.Context())
	_, err := lab.measure(ctx, scenario{workers: 1, block: 1, rounds: 1, open: func(fx *fixture) ([]side, error) {
		var uncounted tally
		conns, err := fx.conns(2, &uncounted)
		if err != nil {
			return nil, err
		}
		if err := theirLock(conns[0], fx.path).lock(); err != nil {
			return nil, err
		}
		waits := theirLock(conns[1], fx.path)
		return []side{{theirs, &uncounted, func(int) error {
			time.AfterFunc(50*time.Millisecond, cancel)
			return waits.cycle() // a lock that is never released
		}}}, nil
	}})
	require.Error(t, err)
}
