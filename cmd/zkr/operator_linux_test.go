package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOutputThatCannotBeWrittenIsAnError(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	succeed(t, srv.Addr(), "queue", "put", "/jobs", "data")
	for _, args := range [][]string{{"ls"}, {"ls", "-o", "json"}, {"who", "/jobs"}, {"queue", "peek", "/jobs"}, {"graph", "--format", "dot"}, {"version"}, {"describe", "/jobs"}, {"who", "--watch", "/jobs"}} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		require.NoError(t, err)
		p := prepare(t, srv.Addr(), args...)
		p.cmd.Stdout = full
		code := p.start().wait()
		full.Close()
		require.Equal(t, 74, code, "%v: %s", args, p.stderr.String())
		require.Contains(t, p.stderr.String(), "no space left", args)
	}
}

func TestNoHeaderComesBeforeAnError(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	code, stdout, stderr := zkr(t, srv.Addr(), "ls", "/nothing")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "/nothing")
	require.Empty(t, stdout)
	require.Contains(t, succeed(t, srv.Addr(), "ls"), "RECIPE", "if there is nothing, it says of what")
}

// As an operator has it at hand: from a log, a ps, or zkr who.
func TestAPlaceIsEvictedByWhateverNamesIt(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	holder := start(t, srv.Addr(), "lock", "/a", "-c", `echo "held $ZKR_PLACE."; sleep 600`)
	holder.await(".")
	for _, name := range []string{"identity", "session", "number", "nested"} {
		waiting := prepare(t, srv.Addr(), "lock", "/a", "--identity", "stuck:1", "--", "true")
		if name == "nested" {
			waiting.cmd.Env = append(waiting.cmd.Env, "ZKR_SESSION=0x123") // zkr who shows "stuck:1 in 0x123"
		}
		waiter := waiting.start()
		awaitLine(t, srv, "/a", 2)
		fields := strings.Fields(strings.Split(succeed(t, srv.Addr(), "who", "/a"), "\n")[2])
		require.Equal(t, "stuck:1", fields[1])
		place := map[string]string{"identity": fields[1], "session": fields[3], "number": "2", "nested": "stuck:1"}[name]
		succeed(t, srv.Addr(), "evict", "--yes", "/a", place)
		require.Equal(t, 75, waiter.wait(), name)
	}
	for range 2 {
		start(t, srv.Addr(), "lock", "/a", "--identity", "twin:1", "--", "true")
	}
	awaitLine(t, srv, "/a", 3)
	code, _, stderr := zkr(t, srv.Addr(), "evict", "--yes", "/a", "twin:1")
	require.NotZero(t, code)
	require.Contains(t, stderr, "2 places")
	place := strings.TrimSuffix(strings.Fields(holder.stdout.String())[1], ".")
	succeed(t, srv.Addr(), "evict", "--yes", "--holder", "/a", place)
	require.Equal(t, 76, holder.wait())
}
