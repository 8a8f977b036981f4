package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// An item hangs each consumer that takes it.
func TestTheRunbookBuriesAnItemThatHangsItsConsumer(t *testing.T) {
	srv := newServer(t)
	q := zkrecipes.NewQueue(dial(t, srv, "mailer:1"), "/jobs/mail", nil)
	recipetest.PutOn(t, q, "poison", "mail")
	hangs, handled := make(chan struct{}), make(chan string, 9)
	recipetest.ServeLater(t, q, func(ctx context.Context, it *zkrecipes.Item) error {
		if string(it.Data) == "poison" && it.Attempt == 1 {
			close(hangs)
			<-ctx.Done() // until the item is taken from it
			return context.Cause(ctx)
		}
		handled <- string(it.Data)
		return nil
	})
	<-hangs
	lines := runbook(t, "jobs are stuck", 10)
	here := operator(t, srv.Addr(), "ssh", "exit 1")
	redrive := len(lines) - 2
	require.Contains(t, lines[redrive], "redrive")
	out := follow(t, here, lines[:redrive], "")
	require.Regexp(t, `(?m)^holds +mailer:1 `, out)
	require.Contains(t, out, "zkr queue bury /jobs/mail ID")
	require.Contains(t, out, "buried 1\n")
	require.Contains(t, out, "poison", "it is among the dead letters")
	require.Equal(t, "mail", <-handled)
	out = follow(t, here, append(lines[:1:1], lines[redrive:]...), "")
	require.Contains(t, out, "moved 1\n")
	require.Equal(t, "poison", <-handled, "mended")
}

// The leader has resigned, and the next candidate's process is stopped.
func TestTheRunbookEvictsACandidateThatHangs(t *testing.T) {
	t.Parallel()
	srv := zktest.NewServer(t, zktest.TickTime(time.Second), zktest.SessionTimeouts(time.Second, time.Hour))
	candidate := func(n int, name string) *program {
		p := start(t, srv.Addr(), "elect", "/apps/scheduler", "--session-timeout", "10m", "--identity", name, "--value", name, "-c", "echo leads; sleep 600")
		eventually(t, name+" is a candidate", func() bool {
			return objects(t, succeed(t, srv.Addr(), "ls", "/apps/scheduler", "-o", "json"))[0]["waiters"] == float64(n)
		})
		return p
	}
	leader := start(t, srv.Addr(), "elect", "/apps/scheduler", "--session-timeout", "10m", "--value", "one", "-c", "echo leads; sleep 600")
	leader.await("leads")
	hung, next := candidate(1, "hung:1"), candidate(2, "next:1")
	hung.signal(syscall.SIGSTOP)
	leader.signal(syscall.SIGTERM)
	require.Equal(t, 143, leader.wait())

	lines := runbook(t, "nobody is leader", 10)
	here := operator(t, srv.Addr(), "ssh", "exit 1")
	last := len(lines) - 1
	out := follow(t, here, lines[:last], "y\n")
	require.Regexp(t, `(?m)^waits +hung:1 `, out)
	require.NotRegexp(t, `(?m)^holds`, out)
	require.Contains(t, out, "evicted\n")
	next.await("leads")
	require.Contains(t, follow(t, here, []string{lines[0], lines[last]}, ""), "value of the leader: next:1\n")
}

func TestTheRunbookStartsAMemberThatIsGone(t *testing.T) {
	srv := newServer(t)
	member := func(id string) *zkrecipes.Client {
		c := dial(t, srv, id)
		_, err := zkrecipes.NewGroup(c, "/services/search").Join(t.Context(), nil, zkrecipes.MemberID(id))
		require.NoError(t, err)
		return c
	}
	member("search-1")
	gone := member("search-2")
	member("search-3")
	require.NoError(t, gone.Close())
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "expected"), []byte("search-3\nsearch-2\nsearch-1\n"), 0o600))
	restarted := filepath.Join(dir, "restarted")
	here := operator(t, srv.Addr(), "ssh", `echo "$@" > `+restarted+`; while [ -e `+restarted+` ]; do sleep 0.1; done`)
	go func() {
		for range time.NewTicker(50 * time.Millisecond).C {
			if text, _ := os.ReadFile(restarted); len(text) > 0 || t.Context().Err() != nil {
				break
			}
		}
		member("search-2")
		_ = os.Remove(restarted)
	}()
	lines := append([]string{"cd " + dir}, runbook(t, "a member is gone", 10)...)
	require.Regexp(t, `(?m)^member .* search-2$`, follow(t, here, lines, ""))
}

// The servers are empty, and the database has tokens of those before.
func TestTheRunbookResetsFencesOfServersThatHaveLostData(t *testing.T) {
	srv := newServer(t)
	lines := runbook(t, "the servers have lost data", 10)
	fence := filepath.Join(t.TempDir(), "fence")
	here := operator(t, srv.Addr(), "psql", `case "$*" in *DELETE*) echo 0 > `+fence+`;; *) cat `+fence+`;; esac`)
	for range 5 {
		succeed(t, srv.Addr(), "lock", "/locks/orders", "-c", `echo "$ZKR_TOKEN" > `+fence)
	}
	token := func() string { text, _ := os.ReadFile(fence); return strings.TrimSpace(string(text)) }
	before := token()
	require.Contains(t, follow(t, here, lines, ""), "/locks/orders")
	require.Equal(t, before, token(), "nothing is lost")
	addr := srv.Addr()
	srv.Close()
	zktest.NewServer(t, zktest.TickTime(time.Second), zktest.Listen(addr))
	require.NotContains(t, follow(t, here, lines, ""), "/locks/orders")
	require.Equal(t, "0", token())
}
