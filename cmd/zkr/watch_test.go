//go:build unix

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// eventsSeen returns the events that zkr events has printed, as "event identity".
func eventsSeen(t *testing.T, text string) (seen []string) {
	t.Helper()
	for _, o := range objects(t, text[:strings.LastIndex(text, "\n")+1]) {
		identity, _ := o["identity"].(string)
		seen = append(seen, strings.TrimSpace(o["event"].(string)+" "+identity))
	}
	return seen
}

func TestEventsTellWhoComesHoldsAndGoes(t *testing.T) {
	srv := newServer(t)
	first, second := dial(t, srv, "first"), dial(t, srv, "second")
	l := recipetest.LockOn(t, zkrecipes.NewMutex(first, "/a"))
	watch := start(t, srv.Addr(), "events", "/a")
	watch.await(`"holds"`)
	granted := recipetest.LockLater(t, zkrecipes.NewMutex(second, "/a"))
	watch.await(`"joined"`)
	require.NoError(t, l.Release())
	watch.await(`"granted"`)
	require.NoError(t, granted.Get().Release())
	eventually(t, "all is told", func() bool { return strings.Count(watch.stdout.String(), `"released"`) == 2 })
	require.Equal(t, []string{"holds first", "joined second", "released first", "granted second", "released second"}, eventsSeen(t, watch.stdout.String()))
}

func TestEventsTellOfADeadlockAndOfMembers(t *testing.T) {
	srv := newServer(t)
	watch := start(t, srv.Addr(), "events", "/a", "--deadlocks", "/", "--every", "1s")
	one, two := dial(t, srv, "one"), dial(t, srv, "two")
	for path, c := range map[string]*zkrecipes.Client{"/a": one, "/b": two} {
		recipetest.LockOn(t, zkrecipes.NewMutex(c, path))
	}
	for path, c := range map[string]*zkrecipes.Client{"/b": one, "/a": two} {
		recipetest.LockLater(t, zkrecipes.NewMutex(c, path))
	}
	watch.await(`"deadlock"`)
	require.Contains(t, watch.stdout.String(), "waits for /a, which one (0x")

	join := func(id string) *zkrecipes.Membership {
		m, err := zkrecipes.NewGroup(one, "/g").Join(t.Context(), []byte(id), zkrecipes.MemberID(id))
		require.NoError(t, err)
		return m
	}
	first := join("web-1")
	group := start(t, srv.Addr(), "events", "/g")
	group.await(`"member"`)
	join("web-2")
	group.await(`"joined"`)
	require.NoError(t, first.Leave())
	group.await(`"left"`)
	require.Equal(t, []string{"member web-1", "joined web-2", "left web-1"}, eventsSeen(t, group.stdout.String()))
}

func TestWhoListsAgainAfterEachChange(t *testing.T) {
	srv := newServer(t)
	watch := start(t, srv.Addr(), "who", "/a", "--watch")
	watch.await("STATE")
	l := recipetest.LockOn(t, zkrecipes.NewMutex(dial(t, srv, "first"), "/a"))
	watch.await("holds  first")
	before := strings.Count(watch.stdout.String(), "STATE")
	require.NoError(t, l.Release())
	eventually(t, "it lists again", func() bool { return strings.Count(watch.stdout.String(), "STATE") > before })

	succeed(t, srv.Addr(), "queue", "put", "/q", "data")
	queue := start(t, srv.Addr(), "who", "/q", "--watch", "-o", "json") // it looks every 2 s
	queue.await(`"len":1`)
	looks := srv.Counts()
	eventually(t, "it looks again", func() bool { return srv.Counts().Sub(looks).Requests["getChildren2"] > 8 })
	succeed(t, srv.Addr(), "queue", "put", "/q", "data")
	queue.await(`"len":2`)
	require.Len(t, objects(t, queue.stdout.String()), 2, "and not without one")
}

func TestDescribe(t *testing.T) {
	srv := newServer(t)
	recipetest.LockOn(t, zkrecipes.NewMutex(dial(t, srv, "first"), "/a"))
	second := dial(t, srv, "second")
	recipetest.LockLater(t, zkrecipes.NewMutex(second, "/a"))
	awaitLine(t, srv, "/a", 2)
	text := succeed(t, srv.Addr(), "describe", "/a")
	for _, want := range []string{`(?m)^holds +first `, `(?m)^waits +second `, `(?m)^znode +version \d+, created 2`, `(?m)^data +\d+ bytes: zkrecipes/1 mutex`, `(?m)^acl +world:anyone:rwcda$`, `(?m)^advice .*zkr evict --holder /a PLACE$`} {
		require.Regexp(t, want, text)
	}
	var d map[string]any
	require.NoError(t, json.Unmarshal([]byte(succeed(t, srv.Addr(), "describe", "/a", "-o", "json")), &d))
	require.Equal(t, []any{"world:anyone:rwcda"}, d["acl"])
	require.Len(t, d["places"], 2)
	require.Contains(t, succeed(t, srv.Addr(), "describe", "/"), "used by no recipe")
	recipetest.PutOn(t, zkrecipes.NewQueue(second, "/jobs", nil), "job")
	text = succeed(t, srv.Addr(), "describe", "/jobs")
	require.Contains(t, text, "/jobs  queue, 1 item, 0 consumers wait for one\n")
	require.Contains(t, text, "1 item is free, and no consumer waits for one: ")
	require.Contains(t, refused(t, 1, srv.Addr(), "describe", "/none"), "/none")
}
