//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
)

func TestElectRunsTheCommandWhileItLeads(t *testing.T) {
	srv := newServer(t)
	election := zkrecipes.NewElection(dial(t, srv, ""), "/e")
	first := start(t, srv.Addr(), "elect", "/e", "--value", "one:80", "-c", "echo leads; sleep 600")
	first.await("leads")
	leader, err := election.Leader(t.Context())
	require.NoError(t, err)
	require.Equal(t, "one:80", string(leader.Value))

	second := start(t, srv.Addr(), "elect", "/e", "--value", "two:80", "-c", "echo leads; exit 6")
	eventually(t, "the second waits", func() bool { return len(srv.Children("/e")) == 3 })
	require.Empty(t, second.stdout.String())
	third := start(t, srv.Addr(), "elect", "/e", "--", "echo", "leads")
	eventually(t, "the third waits", func() bool { return len(srv.Children("/e")) == 4 })
	third.signal(syscall.SIGINT)
	require.Equal(t, 130, third.wait(), third.stderr.String())
	require.Len(t, srv.Children("/e"), 3, "it has withdrawn")
	fourth := start(t, srv.Addr(), "elect", "/e", "--identity", "fourth", "--", "echo", "leads")
	eventually(t, "the fourth waits", func() bool { return len(srv.Children("/e")) == 4 })
	succeed(t, srv.Addr(), "evict", "--yes", "/e", "fourth")
	require.Equal(t, 75, fourth.wait(), fourth.stderr.String())
	require.Empty(t, third.stdout.String()+fourth.stdout.String())
	first.signal(syscall.SIGTERM)
	require.Equal(t, 143, first.wait())
	require.Equal(t, 6, second.wait(), second.stderr.String())
	require.Empty(t, srv.Children("/e"), "both have resigned")
}

// Also after a signal that the command survives, as a service that reads its configuration again after
// SIGHUP. SIGTERM is for zkr, too.
func TestElectCampaignsAgainAfterALoss(t *testing.T) {
	srv := newServer(t)
	p := start(t, srv.Addr(), "elect", "/e", "-c", `trap "echo got" HUP INT QUIT TERM; echo "leads with $ZKR_TOKEN"; while :; do sleep 0.02; done`)
	for i, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM} {
		eventually(t, "another term", func() bool { return strings.Count(p.stdout.String(), "leads") == i+1 })
		p.signal(s)
		eventually(t, s.String(), func() bool { return strings.Count(p.stdout.String(), "got") == i+1 })
		expireAll(srv)
	}
	require.Equal(t, 143, p.wait(), p.stderr.String())
	require.Equal(t, 3, strings.Count(p.stderr.String(), "zkr: /e: lost while"), p.stderr.String())
	tokens := map[string]bool{}
	for line := range strings.Lines(p.stdout.String()) {
		if token, leads := strings.CutPrefix(line, "leads with "); leads {
			tokens[token] = true
		}
	}
	require.Len(t, tokens, 4)
}

// An upgrade replaces the file of a zkr that runs. It starts itself as a guard once more.
func TestElectCampaignsAgainAfterItsFileWasDeleted(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere a process cannot start a program whose file is gone")
	}
	srv := newServer(t)
	file := filepath.Join(t.TempDir(), "zkr")
	// By another process: a program that this one starts meanwhile would have the file open, too.
	require.NoError(t, exec.Command("cp", os.Args[0], file).Run())
	p := prepare(t, srv.Addr(), "elect", "/e", "-c", `echo leads; sleep 600`)
	p.cmd.Path = file
	p.start().await("leads")
	require.NoError(t, os.Remove(file))
	expireAll(srv)
	p.await("leads\nleads\n")
	p.signal(syscall.SIGTERM)
	require.Equal(t, 143, p.wait(), p.stderr.String())
}

func TestJobRunsOnceInEachPeriod(t *testing.T) {
	srv := newServer(t)
	count := filepath.Join(t.TempDir(), "count")
	job := func(every string, args ...string) *program {
		return start(t, srv.Addr(), append([]string{"job", "/j", "--every", every, "--identity", "db-7:1"}, args...)...)
	}
	run := `echo "$ZKR_PERIOD" >>` + count + "; exit $0"
	failed := job("876000h", "-c", run, "--", "3")
	require.Equal(t, 3, failed.wait(), failed.stderr.String())

	var machines []*program
	for range 4 {
		machines = append(machines, job("876000h", "-c", "sleep 0.1;"+run, "--", "0"))
	}
	for _, p := range machines {
		require.Zero(t, p.wait(), p.stderr.String())
	}
	text, err := os.ReadFile(count)
	require.NoError(t, err)
	lines := strings.Fields(string(text))
	require.Len(t, lines, 2, "the one that failed, and one that succeeded")
	require.Equal(t, lines[0], lines[1])
	require.Equal(t, "1970-01-01T00:00:00Z", lines[0])

	require.Zero(t, job("1s", "-c", run, "--", "0").wait())
	text, err = os.ReadFile(count)
	require.NoError(t, err)
	require.Len(t, strings.Fields(string(text)), 3, "a later period")
	require.Equal(t, []string{"done", "lock"}, srv.Children("/j"))
	for _, path := range []string{"/j", "/j/lock"} {
		require.Regexp(t, `(?m)^/j/lock  mutex, last done: the period of \S+Z, at \S+Z by db-7:1$`, succeed(t, srv.Addr(), "who", path))
	}
}

func TestAJobWhoseLockWasLostIsNotDone(t *testing.T) {
	srv := newServer(t)
	p := start(t, srv.Addr(), "job", "/j", "--every", "876000h", "-c", "echo runs; sleep 600")
	p.await("runs")
	expireAll(srv)
	require.Equal(t, 76, p.wait(), p.stderr.String())
	require.Equal(t, "ran\n", succeed(t, srv.Addr(), "job", "/j", "--every", "876000h", "--", "echo", "ran"))
	require.Empty(t, succeed(t, srv.Addr(), "job", "/j", "--every", "876000h", "--", "echo", "ran"))
}
