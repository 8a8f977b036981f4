//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// object is a line of JSON output.
type object map[string]any

func objects(t *testing.T, text string) (list []object) {
	t.Helper()
	for line := range strings.Lines(text) {
		var o object
		require.NoError(t, json.Unmarshal([]byte(line), &o), line)
		list = append(list, o)
	}
	return list
}

// places returns what zkr who lists: "holds" or "waits", by place.
func places(t *testing.T, server, path string) (names []string, states map[string]string) {
	t.Helper()
	var l struct {
		Recipe string
		Places []struct {
			Place, Session string
			Held           bool
		}
	}
	require.NoError(t, json.Unmarshal([]byte(succeed(t, server, "who", path, "-o", "json")), &l))
	states = map[string]string{}
	for _, p := range l.Places {
		require.True(t, strings.HasPrefix(p.Session, "0x"))
		names = append(names, p.Place)
		states[p.Place] = "waits"
		if p.Held {
			states[p.Place] = "holds"
		}
	}
	return names, states
}

func TestEvict(t *testing.T) {
	srv := newServer(t)
	holder := hold(t, srv.Addr(), "/a", "--lost-exit-code", "3")
	waiter := start(t, srv.Addr(), "lock", "/a", "--", "echo", "ran")
	awaitLine(t, srv, "/a", 2)
	names, states := places(t, srv.Addr(), "/a")
	require.Equal(t, map[string]string{names[0]: "holds", names[1]: "waits"}, states)

	evict := func(answer string, args ...string) (int, string) {
		p := prepare(t, srv.Addr(), append([]string{"evict", "/a"}, args...)...)
		p.cmd.Stdin = strings.NewReader(answer)
		return p.start().wait(), p.stderr.String()
	}
	for _, answer := range []string{"", "n\n", "maybe\n"} {
		code, stderr := evict(answer, names[1])
		require.Equal(t, 1, code)
		require.Contains(t, stderr, "waits for /a, session 0x", "it asks")
	}
	code, stderr := evict("y\n", names[0])
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "--holder")
	awaitLine(t, srv, "/a", 2) // nothing was done so far

	code, stderr = evict("y\n", names[1])
	require.Zero(t, code, stderr)
	require.Equal(t, 75, waiter.wait(), waiter.stderr.String())
	require.Empty(t, waiter.stdout.String())

	code, stderr = evict("", names[0], "--holder", "--yes")
	require.Zero(t, code, stderr)
	require.Equal(t, 3, holder.wait(), holder.stderr.String())
	code, stderr = evict("", names[0], "--holder", "--yes")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "has no place")
}

func TestQueue(t *testing.T) {
	srv := newServer(t)
	run := func(args ...string) string { return succeed(t, srv.Addr(), append([]string{"queue"}, args...)...) }
	id := strings.TrimSpace(run("put", "/q", "first"))
	p := prepare(t, srv.Addr(), "queue", "put", "/q", "--lines", "-o", "json")
	p.cmd.Stdin = strings.NewReader("second\nthird\n")
	require.Zero(t, p.start().wait(), p.stderr.String())
	require.Len(t, objects(t, p.stdout.String()), 2)
	p = prepare(t, srv.Addr(), "queue", "put", "/q")
	p.cmd.Stdin = strings.NewReader("\xff\x00")
	require.Zero(t, p.start().wait(), p.stderr.String())

	q := zkrecipes.NewQueue(dial(t, srv, ""), "/q", nil)
	taken := recipetest.TakeOn(t, q)
	require.Equal(t, "first", string(taken.Data))

	items := objects(t, run("ls", "/q", "-o", "json"))
	require.Len(t, items, 4)
	require.Equal(t, id, items[0]["id"])
	require.NotEmpty(t, items[0]["consumer"])
	require.Equal(t, "second", items[1]["data"])
	require.NotContains(t, items[1], "consumer")
	require.Equal(t, "/wA=", items[3]["binary"])
	require.Equal(t, "second", run("peek", "/q"))
	require.Equal(t, "third", run("peek", "/q", items[2]["id"].(string)))
	require.Contains(t, refused(t, 1, srv.Addr(), "queue", "peek", "/q", "none"), "no such item")
	_, states := places(t, srv.Addr(), "/q")
	require.Equal(t, map[string]string{id: "holds"}, states)

	require.Contains(t, refused(t, 1, srv.Addr(), "queue", "remove", "/q", id), "taken")
	require.Equal(t, "removed 1\n", run("remove", "/q", items[1]["id"].(string)))
	require.Equal(t, "third", run("peek", "/q"))
	refused(t, 1, srv.Addr(), "queue", "purge", "/q") // nobody has answered
	require.Equal(t, "removed 2\n", run("purge", "/q", "--yes"))
	require.Len(t, objects(t, run("ls", "/q", "-o", "json")), 1, "the one that is taken stays")

	require.Equal(t, "buried 1\n", run("bury", "/q", id))
	require.Empty(t, objects(t, run("ls", "/q", "-o", "json")))
	failure := objects(t, run("ls", "/q", "--dead", "-o", "json"))[0]["failure"].(map[string]any)
	require.Contains(t, failure["text"], fmt.Sprintf("while %v had it", items[0]["consumer"]))
	require.ErrorIs(t, taken.Ack(t.Context()), zkrecipes.ErrItemGone)
	code, stdout, stderr := zkr(t, srv.Addr(), "queue", "bury", "/q", "none")
	require.Equal(t, 1, code)
	require.Equal(t, "buried 0\n", stdout)
	require.Contains(t, stderr, "none: zkrecipes: bury an item of /q: no such item")
	require.Equal(t, "buried 1\n", run("bury", "--dead-letter", "/letters", "/q", strings.TrimSpace(run("put", "/q", "last"))))
	require.Equal(t, "last", run("peek", "/q", "--dead", "--dead-letter", "/letters"))
}

func TestDeadLettersAreRedriven(t *testing.T) {
	srv := newServer(t)
	dead := func() []object {
		return objects(t, succeed(t, srv.Addr(), "queue", "ls", "/q", "--dead", "-o", "json"))
	}
	recipetest.PutOn(t, zkrecipes.NewQueue(dial(t, srv, ""), "/q", nil).DeadLetters(), "one", "two")
	require.Len(t, dead(), 2)
	require.Equal(t, "moved 1\n", succeed(t, srv.Addr(), "queue", "redrive", "/q", "-n", "1"))
	require.Equal(t, "one", succeed(t, srv.Addr(), "queue", "peek", "/q"))
	require.JSONEq(t, `{"moved":1}`, succeed(t, srv.Addr(), "queue", "redrive", "/q", "-o", "json"))
	require.Empty(t, dead())
}

func TestAGateInAScript(t *testing.T) {
	srv := newServer(t)
	require.Equal(t, "/g is open\n", succeed(t, srv.Addr(), "gate", "show", "/g"))
	require.JSONEq(t, `{"path":"/g","open":false}`, succeed(t, srv.Addr(), "gate", "shut", "/g", "-o", "json"))
	code, stdout, stderr := zkr(t, srv.Addr(), "gate", "show", "/g")
	require.Equal(t, 75, code)
	require.Equal(t, "/g is shut\n", stdout)
	require.Empty(t, stderr)
	refused(t, 75, srv.Addr(), "gate", "wait", "-w", "1", "/g")
	refused(t, 64, srv.Addr(), "gate", "wait", "-w", "0", "/g")
	patient, bounded := start(t, srv.Addr(), "gate", "wait", "/g"), start(t, srv.Addr(), "gate", "wait", "-w", "1h", "/g")
	require.Equal(t, "/g is open\n", succeed(t, srv.Addr(), "gate", "open", "/g"))
	require.Zero(t, patient.wait())
	require.Zero(t, bounded.wait())
}

func TestASemaphoreIsResized(t *testing.T) {
	srv := newServer(t)
	hold(t, srv.Addr(), "/s", "-k", "1")
	second := start(t, srv.Addr(), "lock", "/s", "-k", "1", "-c", "echo held; sleep 600")
	eventually(t, "the second waits", func() bool { return len(srv.Children("/s/line")) == 1 })
	_, states := places(t, srv.Addr(), "/s")
	require.Len(t, states, 2)
	require.Equal(t, "/s has 2 slots\n", succeed(t, srv.Addr(), "sem", "resize", "/s", "2"))
	second.await("held")
	require.Equal(t, "/s has 1 slot\n", succeed(t, srv.Addr(), "sem", "resize", "/s", "1"))
	refused(t, 64, srv.Addr(), "sem", "resize", "/s", "none")
}

// As an operator has it at hand: from a log, a ps, or zkr who.
func TestAPlaceIsEvictedByWhateverNamesIt(t *testing.T) {
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
	require.Contains(t, refused(t, 1, srv.Addr(), "evict", "--yes", "/a", "twin:1"), "2 places")
	place := strings.TrimSuffix(strings.Fields(holder.stdout.String())[1], ".")
	succeed(t, srv.Addr(), "evict", "--yes", "--holder", "/a", place)
	require.Equal(t, 76, holder.wait())
}
