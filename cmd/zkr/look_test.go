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

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

func TestLsShowsWhatIsInUse(t *testing.T) {
	srv := newServer(t)
	hold(t, srv.Addr(), "/locks/a")
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

	p := start(t, srv.Addr(), "ls", "--watch", "--interval", "100ms", "-o", "json")
	p.await(`"len":1`)
	succeed(t, srv.Addr(), "queue", "put", "/jobs", "data")
	p.await(`"len":2`)
	p.signal(syscall.SIGINT)
	require.Equal(t, 130, p.wait())
}

// Two programs each hold a lock and wait for the other's.
func TestGraphNamesADeadlockOfTwoPrograms(t *testing.T) {
	srv := newServer(t)
	begin := filepath.Join(t.TempDir(), "begin")
	var programs []*program
	for outer, inner := range map[string]string{"/a": "/b", "/b": "/a", "/c": "/a"} { // /c's waits for them
		p := start(t, srv.Addr(), "lock", outer, "-c", "echo held; while [ ! -e "+begin+" ]; do sleep 0.01; done; exec "+
			os.Args[0]+" lock "+inner+" -- true")
		p.await("held")
		programs = append(programs, p)
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
	for format, red := range map[string]string{"dot": "color=red", "svg": `stroke="red"`} {
		require.Equal(t, 2, strings.Count(succeed(t, srv.Addr(), "graph", "--format", format), red), format)
	}

	// An operator ends it by what the graph says: one of the waiters gets an error, and its program gives
	// back what it holds.
	_, command, found := strings.Cut(text, "\n  zkr evict -- ")
	require.True(t, found, text)
	words := strings.Fields(command)
	succeed(t, srv.Addr(), "evict", "--yes", "--", words[0], words[1])
	codes := map[int]int{}
	for _, p := range programs {
		codes[p.wait()]++
	}
	require.Equal(t, map[int]int{75: 1, 0: 2}, codes, "the others go on")
	require.Zero(t, graph())
}

func TestWhoTellsOfEachRecipe(t *testing.T) {
	srv := newServer(t)
	client := dial(t, srv, "")
	who := func(path string) string { return succeed(t, srv.Addr(), "who", path) }

	recipetest.Count(t, zkrecipes.NewCounter(client, "/counter"), -5)
	require.Contains(t, who("/counter"), "/counter  counter, value -5\n")

	group := zkrecipes.NewGroup(client, "/group")
	for _, id := range []string{"two", "one"} {
		_, err := group.Join(t.Context(), []byte("address of "+id), zkrecipes.MemberID(id))
		require.NoError(t, err)
	}
	require.Regexp(t, `(?s)STATE.*member +address of one +\S+ +0x\w+ +- +one\n.*member +address of two `, who("/group"))
	require.Regexp(t, `(?m)^/group +group +2 +0 +[\d.]+m?s `, succeed(t, srv.Addr(), "ls"))
	require.Regexp(t, `(?m)^/group +group\n +member +address of one \(0x`, succeed(t, srv.Addr(), "graph"))
	var l struct {
		Recipe string
		Places []struct{ Place, Identity string }
	}
	require.NoError(t, json.Unmarshal([]byte(succeed(t, srv.Addr(), "who", "/group", "-o", "json")), &l))
	require.Equal(t, "group", l.Recipe)
	require.Len(t, l.Places, 2)
	require.Equal(t, "one", l.Places[0].Place)
	require.Contains(t, refused(t, 1, srv.Addr(), "evict", "/group", "one", "--yes", "--holder"), "back at once")

	gate := zkrecipes.NewGate(client, "/gate")
	require.NoError(t, gate.Shut(t.Context()))
	require.Contains(t, who("/gate"), "/gate  gate, shut\n")

	recipetest.PutOn(t, zkrecipes.NewQueue(client, "/queue", nil), "1", "2")
	require.Contains(t, who("/queue"), "/queue  queue, 2 items, 0 consumers wait for one\n")

	rw := zkrecipes.NewRWLock(client, "/rw")
	lease := recipetest.Held(t, rw.RLock)
	require.Contains(t, who("/rw"), "holds (shared)")
	require.NoError(t, lease.Release())

	visit := start(t, srv.Addr(), "elect", "/leader", "--value", "one:80", "-c", "echo leads; sleep 600")
	visit.await("leads")
	require.Contains(t, who("/leader"), "holds")
	require.Contains(t, who("/leader"), "value of the leader: one:80\n")
	require.Contains(t, succeed(t, srv.Addr(), "who", "/leader", "-o", "json"), `"leader":"one:80"`)

	for path, want := range map[string]string{"/nothing": "does not exist", "/zookeeper": "nobody uses"} {
		stderr := refused(t, 1, srv.Addr(), "who", path)
		require.Contains(t, stderr, path)
		require.Contains(t, stderr, want)
	}
}

func TestNoHeaderComesBeforeAnError(t *testing.T) {
	srv := newServer(t)
	code, stdout, stderr := zkr(t, srv.Addr(), "ls", "/nothing")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "/nothing")
	require.Empty(t, stdout)
	require.Contains(t, succeed(t, srv.Addr(), "ls"), "RECIPE", "if there is nothing, it says of what")
}
