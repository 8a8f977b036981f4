//go:build unix

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLsShowsWhatIsInUse(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	holder := start(t, srv.Addr(), "lock", "/locks/a", "-c", "echo held; sleep 60")
	holder.await("held")
	start(t, srv.Addr(), "lock", "/locks/a", "--", "true")
	awaitLine(t, srv, "/locks/a", 2)
	succeed(t, srv.Addr(), "queue", "put", "/jobs", "data")

	list := objects(t, succeed(t, srv.Addr(), "ls", "-o", "json"))
	require.Len(t, list, 2)
	require.Equal(t, "/jobs", list[0]["path"])
	require.Equal(t, 1.0, list[0]["len"])
	require.Equal(t, "/locks/a", list[1]["path"])
	require.Equal(t, "mutex", list[1]["recipe"])
	require.Equal(t, []any{1.0, 1.0}, []any{list[1]["holders"], list[1]["waiters"]})
	require.Len(t, objects(t, succeed(t, srv.Addr(), "ls", "/locks", "-o", "json")), 1)
	text := succeed(t, srv.Addr(), "ls")
	require.Regexp(t, `(?m)^/locks/a +mutex +1 +1 `, text)

	code, _, stderr := zkr(t, srv.Addr(), "ls", "/nothing")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "/nothing")
	code, _, stderr = zkr(t, srv.Addr(), "who", "/nothing")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "/nothing")
}

func TestLsWatchesUntilASignal(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	succeed(t, srv.Addr(), "queue", "put", "/jobs", "data")
	p := start(t, srv.Addr(), "ls", "--watch", "--interval", "100ms", "-o", "json")
	p.await(`"len":1`)
	succeed(t, srv.Addr(), "queue", "put", "/jobs", "data")
	p.await(`"len":2`)
	p.signal(syscall.SIGINT)
	require.Equal(t, 130, p.wait())
}

// Two programs each hold a lock and wait for the other's.
func TestGraphNamesADeadlockOfTwoPrograms(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	begin := filepath.Join(t.TempDir(), "begin")
	programs := map[string]*program{}
	for outer, inner := range map[string]string{"/a": "/b", "/b": "/a", "/c": "/a"} { // /c's waits for them
		p := start(t, srv.Addr(), "lock", outer, "-c", "echo held; while [ ! -e "+begin+" ]; do sleep 0.01; done; exec "+
			os.Args[0]+" lock "+inner+" -- true")
		p.await("held")
		programs[outer] = p
	}
	var g struct{ Deadlocks [][]string }
	graph := func() int {
		require.NoError(t, json.Unmarshal([]byte(succeed(t, srv.Addr(), "graph", "-o", "json")), &g))
		return len(g.Deadlocks)
	}
	require.Zero(t, graph())
	require.NoError(t, os.WriteFile(begin, nil, 0o600))
	awaitLine(t, srv, "/a", 3)
	awaitLine(t, srv, "/b", 2)
	require.Equal(t, 1, graph())
	require.Len(t, g.Deadlocks[0], 2)
	text := succeed(t, srv.Addr(), "graph")
	require.Equal(t, 1, strings.Count(text, "DEADLOCK"))
	require.Regexp(t, `DEADLOCK: .* waits for /[ab], which .* holds; .* waits for /[ab], which .* holds`, text)
	require.Equal(t, 2, strings.Count(succeed(t, srv.Addr(), "graph", "--format", "dot"), "color=red"))

	programs["/a"].signal(syscall.SIGTERM)
	require.Equal(t, 143, programs["/a"].wait())
	for _, outer := range []string{"/b", "/c"} {
		require.Zero(t, programs[outer].wait(), "the others go on")
	}
	require.Zero(t, graph())
}
