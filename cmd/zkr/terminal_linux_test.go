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
	deadline := time.Now().Add(20 * time.Second)
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
func TestTheCommandHasTheTerminal(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	p := prepare(t, srv.Addr())
	p.cmd.Path = "/bin/sh"
	p.cmd.Args = []string{"sh", "-c", os.Args[0] + ` lock /a -c 'read line; exec sh -c "echo got \$0; exec sleep 60" "$line"'
		echo "status $?"; read line; echo "then $line"`}
	term := startOn(t, p)
	term.press(t, "one\n")
	term.await(t, "got one")
	// The shell that has read the line is gone: it catches SIGINT meanwhile, and may lose one.
	term.press(t, "\x03") // Ctrl-C reaches the command only
	term.await(t, "status 130")
	term.press(t, "two\n")
	term.await(t, "then two")
	require.Zero(t, p.wait())
}

func TestCtrlZSuspendsTheCommandAndFgResumesIt(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	p := prepare(t, srv.Addr())
	p.cmd.Path = "/bin/bash"
	p.cmd.Args = []string{"bash", "--norc", "-c", "set -m; " + os.Args[0] + ` lock /a -c 'read one; echo "got $one"; read two; echo "got $two"; exit 3'
		echo "suspended $?"; fg; echo "status $?"`}
	term := startOn(t, p)
	term.press(t, "one\n")
	term.await(t, "got one")
	term.press(t, "\x1a")
	term.await(t, "suspended 147") // 128 + SIGSTOP
	term.press(t, "two\n")
	term.await(t, "got two")
	term.await(t, "status 3")
	require.Zero(t, p.wait())
}

func TestTopShowsLinesUntilTheUserQuits(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	holder := start(t, srv.Addr(), "lock", "/locks/a", "-c", "echo held; sleep 60")
	holder.await("held")
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

// A program asks for a password at the terminal, whatever its input and output are. Before that, the
// terminal is the pipeline's.
func TestACommandInAPipelineGetsTheTerminalWhenItReadsIt(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"standard input": ` lock /a -c 'read line; echo "got $line"; exit 3' | cat; echo "status ${PIPESTATUS[0]}"; read line; echo "then $line"`,
		"/dev/tty":       ` lock /a -c 'read line </dev/tty; echo "got $line"; exit 3' </dev/null | cat; echo "status ${PIPESTATUS[0]}"; read line; echo "then $line"`,
		"settings, by /dev/tty": ` lock /a -c 'stty -echo </dev/tty; read line </dev/tty; stty echo </dev/tty; echo "got $line"; exit 3' </dev/null | cat; ` +
			`echo "status ${PIPESTATUS[0]}"; read line; echo "then $line"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := newServer(t)
			p := prepare(t, srv.Addr())
			p.cmd.Path = "/bin/bash"
			p.cmd.Args = []string{"bash", "--norc", "-c", os.Args[0] + script}
			term := startOn(t, p)
			awaitLine(t, srv, "/a", 1)
			term.press(t, "one\n")
			term.await(t, "got one")
			term.await(t, "status 3")
			term.press(t, "two\n")
			term.await(t, "then two")
			require.Zero(t, p.wait())
		})
	}
}

// In the background, the job stops when the command reads the terminal, as others do. The shell
// says so, and fg resumes it.
func TestACommandInTheBackgroundStopsWhenItReadsTheTerminal(t *testing.T) {
	t.Parallel()
	srv := newServer(t)
	p := prepare(t, srv.Addr())
	p.cmd.Path = "/bin/bash"
	p.cmd.Args = []string{"bash", "--norc", "-c", "set -m; " + os.Args[0] + ` lock /a -c 'read line; echo "got $line"; exit 3' &
		while ! jobs | grep -q Stopped; do sleep 0.02; done; echo has stopped; fg; echo "status $?"`}
	term := startOn(t, p)
	term.await(t, "has stopped")
	term.press(t, "one\n")
	term.await(t, "got one")
	term.await(t, "status 3")
	require.Zero(t, p.wait())
}
