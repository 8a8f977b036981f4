package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// terminal is a pseudo terminal, whose screen the test reads.
type terminal struct {
	keys *os.File

	mu     sync.Mutex
	screen strings.Builder
}

// startOn starts a program on a terminal of its own, in a session of its own.
func startOn(t *testing.T, p *program) *terminal {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	require.NoError(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 100}))
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	keys := os.NewFile(uintptr(fd), "terminal") // Close ends a Read, because it does not block
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	defer tty.Close()
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = tty, tty, tty
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	term := &terminal{keys: keys}
	var reading sync.WaitGroup
	p.start()
	reading.Go(func() {
		buf := make([]byte, 1024)
		for {
			n, err := keys.Read(buf)
			term.mu.Lock()
			term.screen.Write(buf[:n])
			term.mu.Unlock()
			if err != nil {
				return // no process has the terminal any more
			}
		}
	})
	t.Cleanup(func() {
		keys.Close() // which ends the programs that are left
		reading.Wait()
	})
	return term
}

func (term *terminal) text() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.screen.String()
}

func (term *terminal) await(t *testing.T, text string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !strings.Contains(term.text(), text) {
		require.True(t, time.Now().Before(deadline), "the screen never shows %q: %q", text, term.text())
		time.Sleep(2 * time.Millisecond)
	}
}

func (term *terminal) press(t *testing.T, keys string) {
	t.Helper()
	_, err := term.keys.WriteString(keys)
	require.NoError(t, err)
}

// A background process that reads the terminal is stopped, so the command must be in the
// foreground, and what follows zkr must be there again afterwards.
func TestTheCommandHasTheTerminalWhenItReadsIt(t *testing.T) {
	t.Parallel()
	type step struct{ press, await string }
	restored := []step{{"", "ready"}, {"one\n", "got one"}, {"", "status 3"}, {"two\n", "then two"}}
	for _, row := range []struct {
		name, script string // in the script, zkr is $0
		steps        []step
	}{
		// The shell that has read the line is gone: it catches SIGINT meanwhile, and may lose one.
		{"in the foreground, where Ctrl-C reaches the command only", `
			$0 lock /a -c 'read line; exec sh -c "echo got \$0; exec sleep 600" "$line"'
			echo "status $?"; read line; echo "then $line"`,
			[]step{{"one\n", "got one"}, {"\x03", "status 130"}, {"two\n", "then two"}}},
		// If zkr stopped, its session would expire, and the lock be lost.
		{"not suspended by Ctrl-Z", `
			set -m; $0 lock /a -c 'read one; echo "got $one"; read two; echo "got $two"; exit 3'
			echo "status $?"; read line; echo "then $line"`,
			[]step{{"one\n", "got one"}, {"\x1a", "zkr: /a: it cannot be suspended"}, {"two\n", "got two"}, {"", "status 3"}, {"three\n", "then three"}}},
		{"not suspended, if the command stops itself as some editors do", `
			set -m; $0 lock /a -c 'echo ready; kill -STOP $$; read two; echo "got $two"; exit 3'
			echo "status $?"`,
			[]step{{"", "zkr: /a: it cannot be suspended"}, {"two\n", "got two"}, {"", "status 3"}}},
		{"not suspended by Ctrl-Z in a pipeline", `
			set -m; $0 lock /a -c 'echo ready; sleep 2; read line </dev/tty; echo "got $line"; exit 3' </dev/null | cat
			echo "status ${PIPESTATUS[0]}"; read line; echo "then $line"`,
			[]step{{"", "ready"}, {"\x1a", "zkr: /a: it cannot be suspended"}, {"one\n", "got one"}, {"", "status 3"}, {"two\n", "then two"}}},
		// A program asks for a password at the terminal, whatever its input and output are. Before
		// that, the terminal is the pipeline's.
		{"in a pipeline, by standard input", `
			$0 lock /a -c 'echo ready; read line; echo "got $line"; exit 3' | cat
			echo "status ${PIPESTATUS[0]}"; read line; echo "then $line"`, restored},
		{"in a pipeline, by /dev/tty", `
			$0 lock /a -c 'echo ready; read line </dev/tty; echo "got $line"; exit 3' </dev/null | cat
			echo "status ${PIPESTATUS[0]}"; read line; echo "then $line"`, restored},
		{"in a pipeline, with settings by /dev/tty", `
			$0 lock /a -c 'echo ready; stty -echo </dev/tty; read line </dev/tty; stty echo </dev/tty; echo "got $line"; exit 3' </dev/null | cat
			echo "status ${PIPESTATUS[0]}"; read line; echo "then $line"`, restored},
		// The command stops, as others do, and zkr keeps the lock for longer than a session lives.
		{"in the background, after fg", `
			set -m; $0 lock /a --session-timeout 4s -c 'read line; echo "got $line"; exit 3' &
			read go; sleep 6; fg; echo "status $?"; read line; echo "then $line"`,
			[]step{{"", "bring this job to the foreground"}, {"go\n", "lock /a --session"}, {"one\n", "got one"}, {"", "status 3"}, {"two\n", "then two"}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := prepare(t, newServer(t).Addr())
			p.cmd.Path = "/bin/bash"
			p.cmd.Args = []string{"bash", "--norc", "-c", row.script, os.Args[0]}
			term := startOn(t, p)
			for _, s := range row.steps {
				term.press(t, s.press)
				term.await(t, s.await)
			}
			require.Zero(t, p.wait())
		})
	}
}

func TestTopShowsLinesUntilTheUserQuits(t *testing.T) {
	srv := newServer(t)
	hold(t, srv.Addr(), "/locks/a")
	p := prepare(t, srv.Addr(), "top", "--interval", "100ms")
	p.cmd.Env = append(p.cmd.Env, "TERM=xterm")
	term := startOn(t, p)
	term.await(t, "/locks/a")
	term.await(t, "holds") // of the line that is selected
	succeed(t, srv.Addr(), "queue", "put", "/jobs", "data")
	term.await(t, "/jobs")
	term.press(t, "q")
	require.Zero(t, p.wait())
}

func TestAWaiterSaysOnATerminalWhoHolds(t *testing.T) {
	srv := newServer(t)
	holder := hold(t, srv.Addr(), "/a", "--identity", "backup-host:77")
	first := start(t, srv.Addr(), "lock", "/a", "true") // not on a terminal: it says nothing
	awaitLine(t, srv, "/a", 2)
	p := prepare(t, srv.Addr(), "lock", "/a", "echo", "has run")
	term := startOn(t, p)
	term.await(t, "zkr: waiting for /a: held by backup-host:77 for ")
	term.await(t, "; 1 ahead in the line")
	holder.signal(syscall.SIGTERM)
	term.await(t, "has run")
	require.Zero(t, p.wait())
	require.Zero(t, first.wait())
	require.Empty(t, first.stderr.String())
}

// The Client connects again by itself. Meanwhile the user learns why nothing moves.
func TestALostConnectionIsSaidWithTheReason(t *testing.T) {
	srv := newServer(t)
	require.Equal(t, 0, start(t, srv.Addr(), "lock", "/a", "true").wait())
	p := start(t, srv.Addr(), "who", "/a", "--watch")
	p.await("STATE")
	term := startOn(t, prepare(t, srv.Addr(), "top"))
	term.await(t, "/a")
	srv.Stop()
	eventually(t, "the reason", func() bool {
		return strings.Contains(p.stderr.String(), "zkr: the connection is lost: "+srv.Addr()+": connect: connection refused\n")
	})
	term.await(t, "ERROR: no connection to the servers for ")
	require.NoError(t, srv.Restart())
	eventually(t, "connected again", func() bool { return strings.Contains(p.stderr.String(), "zkr: connected again, to ") })
	p.signal(syscall.SIGTERM)
	require.Equal(t, 143, p.wait())
}

func TestEachServerIsNamedWhenTheTimeIsOver(t *testing.T) {
	t.Parallel()
	require.Regexp(t, `^zkr: no connection in 100ms: 127.0.0.1:[12]: connect: connection refused; 127.0.0.1:[12]: connect: connection refused\n$`,
		refused(t, 69, "127.0.0.1:1,127.0.0.1:2", "ls", "--connect-timeout", "100ms"))
}

func TestAServerThatDoesNotAnswerIsNamedBeforeTheTimeIsOver(t *testing.T) {
	t.Parallel()
	p := start(t, "127.0.0.1:1", "lock", "/a", "--connect-timeout", "1h", "--", "true")
	eventually(t, "a line that says why", func() bool {
		return strings.Contains(p.stderr.String(), "zkr: no connection yet: 127.0.0.1:1: ") && strings.Contains(p.stderr.String(), "refused\n")
	})
	p.signal(syscall.SIGTERM)
	require.Equal(t, 143, p.wait())
}

func TestOutputThatCannotBeWrittenIsAnError(t *testing.T) {
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
