//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/zkrecipes/zkrecipes/internal/harness"
)

func TestLockExitsAsTheCommandDoes(t *testing.T) {
	srv := newServer(t)
	for script, want := range map[string]int{"exit 0": 0, "exit 7": 7, "kill -KILL $$": 137, "kill -TERM $$": 143} {
		code, _, stderr := zkr(t, srv.Addr(), "lock", "/locks/a", "-c", script)
		require.Equal(t, want, code, "%s: %s", script, stderr)
		require.Empty(t, stderr)
	}
	require.Empty(t, srv.Children("/locks/a"), "each has released the lock")
}

func TestLockThatIsNotAcquired(t *testing.T) {
	srv := newServer(t)
	hold(t, srv.Addr(), "/a")
	rows := []struct {
		flags []string
		want  int
	}{
		{[]string{"-w", "5"}, 75}, // in which it has connected
		{[]string{"-n", "-E", "9"}, 9},
		{[]string{"-w", "10s", "-E", "0"}, 0},
	}
	var programs []*program
	for _, row := range rows {
		args := append([]string{"lock", "/a"}, row.flags...)
		programs = append(programs, start(t, srv.Addr(), append(args, "--", "echo", "ran")...))
	}
	for i, row := range rows {
		code, stderr := programs[i].wait(), programs[i].stderr.String()
		require.Equal(t, row.want, code, "%v: %s", row.flags, stderr)
		require.Empty(t, programs[i].stdout.String(), "the command does not run")
		require.Equal(t, 1, strings.Count(stderr, "\n"), "a line says why: %s", stderr)
	}
	require.Regexp(t, `^\{"error":"zkrecipes: try lock /a: held or waited for by others: held by \S+:\d+ for [0-9.ms]+, session 0x[0-9a-f]+","exit":75\}\n$`,
		refused(t, 75, srv.Addr(), "lock", "/a", "-n", "-o", "json", "--", "true"))
	awaitLine(t, srv, "/a", 1) // nothing but the holder is left
}

func TestLockWaitsAsLongAsItWasTold(t *testing.T) {
	t.Parallel()
	for _, kind := range [][]string{nil, {"-x"}, {"-k", "1"}} {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			srv := newServer(t)
			holder := hold(t, srv.Addr(), append(kind, "/a")...)
			take := append([]string{"lock", "/a"}, kind...)
			for _, flags := range [][]string{{"-n"}, {"-w", "10s"}} {
				refused(t, 75, srv.Addr(), slices.Concat(take, flags, []string{"--", "true"})...)
			}
			waiter := start(t, srv.Addr(), slices.Concat(take, []string{"-w", "1h", "--", "echo", "ran"})...)
			eventually(t, "it waits", func() bool { _, states := places(t, srv.Addr(), "/a"); return len(states) == 2 })
			holder.signal(syscall.SIGTERM)
			require.Zero(t, waiter.wait(), waiter.stderr.String())
			require.Equal(t, "ran\n", waiter.stdout.String())
		})
	}
}

// As nohup starts it: what was ignored is neither obeyed nor passed on.
func TestASignalThatWasIgnoredStaysIgnored(t *testing.T) {
	srv := newServer(t)
	end := filepath.Join(t.TempDir(), "end")
	p := prepare(t, srv.Addr())
	p.cmd.Path = "/bin/sh"
	p.cmd.Args = []string{"sh", "-c", `trap "" HUP; exec "$0" "$@"`, os.Args[0], "lock", "/a", "-c",
		"echo held; while [ ! -e " + end + " ]; do sleep 0.02; done"}
	p.start().await("held")
	p.signal(syscall.SIGHUP)
	p.signal(syscall.SIGWINCH)
	require.NoError(t, os.WriteFile(end, nil, 0o600))
	require.Zero(t, p.wait(), p.stderr.String())
}

func TestLockThatCannotRunTheCommand(t *testing.T) {
	srv := newServer(t)
	script := filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(script, []byte("#!/nonexistent/interpreter\n"), 0o700))
	for command, want := range map[string]int{"/etc/passwd": 126, "no-such-command": 127, script: 127} {
		stderr := refused(t, want, srv.Addr(), "lock", "/a", "--", command)
		require.Equal(t, 1, strings.Count(stderr, "\n"), "%s: %s", command, stderr)
	}
	require.Empty(t, srv.Children("/a"))
	refused(t, 69, "127.0.0.1:1", "lock", "/a", "--connect-timeout", "200ms", "--", "true")
}

func TestASignalWithdrawsAWaiter(t *testing.T) {
	srv := newServer(t)
	hold(t, srv.Addr(), "/a")
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2} {
		waiter := start(t, srv.Addr(), "lock", "/a", "--", "echo", "ran")
		awaitLine(t, srv, "/a", 2)
		waiter.signal(syscall.SIGWINCH) // ends nothing
		waiter.signal(s)
		require.Equal(t, 128+int(s), waiter.wait(), "%v: %s", s, waiter.stderr.String())
		awaitLine(t, srv, "/a", 1)
		require.Empty(t, waiter.stdout.String())
	}
}

// The command's group has two programs: a shell, and one without children of its own, which can tell a
// SIGCHLD that was sent to it. Neither URG nor CHLD is passed on: zkr's own runtime and guard cause them.
func TestSignalsGoToTheCommandsProcessGroup(t *testing.T) {
	srv := newServer(t)
	end := filepath.Join(t.TempDir(), "end")
	signals := []syscall.Signal{
		syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT,
	}
	shell := ""
	for _, s := range append(signals, syscall.SIGURG) {
		shell += fmt.Sprintf("trap 'echo got %s' %d; ", unix.SignalName(s), s)
	}
	shell += "echo ready; while [ ! -e " + end + " ]; do sleep 0.02; done"
	p := start(t, srv.Addr(), "lock", "/a", "-c", "trap : TERM INT HUP QUIT USR1 USR2; ("+shell+") 3>&1 >&2 | "+os.Args[0]+" signals")
	both := func(text string) func() bool {
		return func() bool {
			return strings.Contains(p.stdout.String(), text) && strings.Contains(p.stderr.String(), text)
		}
	}
	eventually(t, "both are ready", both("ready\n"))
	p.signal(syscall.SIGURG)
	p.signal(syscall.SIGCHLD)
	for _, s := range signals {
		p.signal(s)
		eventually(t, s.String(), both("got "+unix.SignalName(s)+"\n"))
	}
	require.NoError(t, os.WriteFile(end, nil, 0o600))
	require.Zero(t, p.wait(), p.stderr.String())
	require.NotContains(t, p.stdout.String()+p.stderr.String(), "got SIGURG")
	require.NotContains(t, p.stdout.String(), "got SIGCHLD")
}

func TestTheLockIsReleasedWhenTheWholeGroupHasEnded(t *testing.T) {
	srv := newServer(t)
	dir := t.TempDir()
	p := start(t, srv.Addr(), "lock", "/a", "-c", "(while [ ! -e "+dir+"/end ]; do sleep 0.02; done; echo grandchild) & echo child; exit 5")
	p.await("child\n")
	refused(t, 75, srv.Addr(), "lock", "/a", "-w", "10s", "--", "true") // the grandchild runs, so the lock is held
	require.NoError(t, os.WriteFile(dir+"/end", nil, 0o600))
	require.Equal(t, 5, p.wait())
	require.Equal(t, "child\ngrandchild\n", p.stdout.String())
}

func TestTheCommandsEnvironment(t *testing.T) {
	srv := newServer(t)
	script := `echo "$ZKR_PATH|$ZKR_TOKEN|$ZKR_PLACE|$ZKR_SLOT|$OTHER"; sleep "$1"`
	run := func(args ...string) []string {
		env := []string{"ZKR_PATH=inherited", "ZKR_TOKEN=1", "ZKR_PLACE=inherited", "ZKR_SLOT=99", "OTHER=stays"}
		code, stdout, stderr := zkrWith(t, srv.Addr(), env, append(args, "-c", script, "--", "sh", "0")...)
		require.Zero(t, code, stderr)
		return strings.Split(strings.TrimSpace(stdout), "|")
	}
	first, second := run("lock", "/a"), run("lock", "/a")
	require.Equal(t, "/a", first[0])
	require.Contains(t, first[2], "-lock-0000000001")
	require.Equal(t, []string{"", "stays"}, first[3:], "there is no slot")
	t1, err := strconv.ParseInt(first[1], 10, 64)
	require.NoError(t, err)
	t2, err := strconv.ParseInt(second[1], 10, 64)
	require.NoError(t, err)
	require.Greater(t, t2, t1, "the fencing token grows")

	// Each user of a machine sees the arguments of all processes.
	code, stdout, stderr := zkrWith(t, srv.Addr(), []string{"ZKR_AUTH=digest:user:tell-nobody", "ZKR_SASL_PASSWORD=tell-nobody"},
		"lock", "/secrets", "-c", "env; ps -A -ww -o args")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "ZKR_PATH=/secrets\n")
	require.Contains(t, stdout, "__guard", "the guard is among them")
	require.NotContains(t, stdout, "tell-nobody")

	holder := start(t, srv.Addr(), "lock", "/s", "-k", "2", "-c", script, "--", "sh", "600")
	holder.await("\n")
	require.Contains(t, holder.stdout.String(), "|0|")
	slot := run("lock", "/s", "-k", "2")
	require.Equal(t, "1", slot[3], "the other slot")
	require.True(t, strings.HasPrefix(slot[2], "1-"), slot[2])
	refused(t, 64, srv.Addr(), "lock", "/s", "-k", "3", "-n", "--", "true") // another number of slots
}

func TestTheCommandIsRunWithoutAShellAndGetsStandardInput(t *testing.T) {
	srv := newServer(t)
	require.Equal(t, "$HOME *;\n", succeed(t, srv.Addr(), "lock", "/a", "--", "echo", "$HOME *;"))
	require.Equal(t, "-n -w x\n", succeed(t, srv.Addr(), "lock", "/a", "printf", "%s %s x\n", "-n", "-w"))
	require.Equal(t, "/nonexistent b\n", succeed(t, srv.Addr(), "lock", "/a", "-c", `echo "$HOME" $1`, "--", "a", "b"))

	p := prepare(t, srv.Addr(), "lock", "/a", "--", "cat")
	p.cmd.Stdin = strings.NewReader("from standard input")
	require.Zero(t, p.start().wait())
	require.Equal(t, "from standard input", p.stdout.String())

	// A descriptor that the shell has opened for the command keeps its number.
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("from a descriptor"), 0o600))
	p = prepare(t, srv.Addr(), "lock", "/a", "-c", "cat <&3")
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	p.cmd.ExtraFiles = []*os.File{f}
	require.Zero(t, p.start().wait(), p.stderr.String())
	require.Equal(t, "from a descriptor", p.stdout.String())
}

func TestReadersShareALock(t *testing.T) {
	srv := newServer(t)
	reader := hold(t, srv.Addr(), "/a", "-s")
	succeed(t, srv.Addr(), "lock", "-s", "-n", "/a", "--", "true")
	refused(t, 75, srv.Addr(), "lock", "-x", "-n", "/a", "--", "true") // a writer waits
	reader.signal(syscall.SIGTERM)
	require.Equal(t, 143, reader.wait())
	succeed(t, srv.Addr(), "lock", "-x", "-n", "/a", "--", "true")
}

// Even a command that has succeeded has not succeeded under the lock.
func TestACommandThatSucceedsAfterTheLockWasLost(t *testing.T) {
	srv := newServer(t)
	end := filepath.Join(t.TempDir(), "end")
	p := start(t, srv.Addr(), "lock", "/a", "-c", "echo held; while [ ! -e "+end+" ]; do sleep 0.01; done; exit 0")
	p.await("held")
	// The client does not hear of the eviction for a tenth of the session timeout, when it
	// begins to watch its place. Only the servers know.
	succeed(t, srv.Addr(), "evict", "--holder", "--yes", "/a", "1")
	require.NoError(t, os.WriteFile(end, nil, 0o600))
	require.Equal(t, 76, p.wait(), p.stderr.String())
}

// The connection is lost for longer than the session lives: SIGTERM a grace before the end,
// so that the command can end by itself.
func TestADisconnectedCommandGetsSIGTERMAGraceBeforeItsEnd(t *testing.T) {
	srv := newServer(t)
	link := harness.NewProxy(t, srv.Addr())
	p := start(t, link.Addr(), "lock", "/a", "--session-timeout", "16s", "--grace", "7s", "-c",
		"trap 'echo TERM; exit 0' TERM; echo held; while :; do sleep 0.01; done")
	p.await("held")
	link.Refuse(true)
	p.await("TERM")
	require.NotEmpty(t, srv.Children("/a"), "the session lives, and the lock is held")
	require.Equal(t, 76, p.wait(), "even if it exits 0: "+p.stderr.String())
}

func TestShortDisconnectionsEndNothing(t *testing.T) {
	srv := newServer(t)
	link := harness.NewProxy(t, srv.Addr())
	end := filepath.Join(t.TempDir(), "end")
	p := start(t, link.Addr(), "lock", "/a", "--session-timeout", "8s", "-c",
		"echo held; while [ ! -e "+end+" ]; do sleep 0.01; done; exit 4")
	p.await("held")
	for range 2 {
		before := srv.Counts()
		link.Drop()
		// A client pings each third of its timeout. Four of them last longer than the session
		// would have lived without a new connection.
		eventually(t, "connected again, and served", func() bool {
			since := srv.Counts().Sub(before).Requests
			return since["connect"] > 0 && since["ping"] > 1
		})
	}
	require.NoError(t, os.WriteFile(end, nil, 0o600))
	require.Equal(t, 4, p.wait(), p.stderr.String())
	eventually(t, "released", func() bool { return len(srv.Children("/a")) == 0 })
}
