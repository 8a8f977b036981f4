package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The command ignores SIGTERM, and has a descendant in a session of its own. Whatever is
// done to zkr or its guard, both are dead before the lock is somebody else's. If neither zkr nor
// its guard can act any more, the kernel kills the command, and its descendants live on.
func TestTheCommandsLastActIsBeforeTheSuccessorsFirst(t *testing.T) {
	for _, row := range []struct {
		name string
		do   func(*testing.T, *program, *harness.Proxy)
		want int // exit status of zkr
	}{
		{"stopped", func(t *testing.T, p *program, _ *harness.Proxy) { p.signal(syscall.SIGSTOP) }, 76},
		{"cut off", func(_ *testing.T, _ *program, l *harness.Proxy) { l.Refuse(true) }, 76},
		{"its guard killed", func(t *testing.T, p *program, _ *harness.Proxy) { killGuard(t, p, syscall.SIGKILL) }, 137},
		{"stopped, and its guard killed", func(t *testing.T, p *program, _ *harness.Proxy) {
			p.signal(syscall.SIGSTOP)
			killGuard(t, p, syscall.SIGKILL)
		}, 76},
		{"its guard stopped, and cut off", func(t *testing.T, p *program, l *harness.Proxy) {
			killGuard(t, p, syscall.SIGSTOP)
			l.Refuse(true)
		}, 76},
	} {
		t.Run(row.name, func(t *testing.T) {
			// The command is killed 0.4 s before the session may end, which is the time that a busy
			// machine may take for it.
			srv := newServer(t)
			link, file := harness.NewProxy(t, srv.Addr()), newRecord(t)
			spread := "spread"
			if row.name == "stopped, and its guard killed" {
				spread = "alone"
			}
			holder := start(t, link.Addr(), "lock", "/a", "--session-timeout", "20s", "--",
				os.Args[0], "writer", string(file), "first", spread)
			eventually(t, "the first writes", func() bool { return file.count("first") > 20 })
			successor := start(t, srv.Addr(), "lock", "/a", "--", os.Args[0], "writer", string(file), "second", "few")
			awaitLine(t, srv, "/a", 2)

			row.do(t, holder, link)

			require.Zero(t, successor.wait(), successor.stderr.String())
			file.requireOrder(t)
			n := file.count("first")
			_ = holder.cmd.Process.Signal(syscall.SIGCONT)
			require.Equal(t, row.want, holder.wait(), holder.stderr.String())
			require.Equal(t, n, file.count("first"), "nothing is left that writes")
		})
	}
}

// The session of a killed zkr lives on for its timeout, but the command does not.
func TestTheCommandDiesWithZkr(t *testing.T) {
	t.Parallel()
	srv := zktest.NewServer(t, zktest.TickTime(time.Minute)) // so the session lives on for minutes
	file := newRecord(t)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	p := prepare(t, srv.Addr(), "lock", "/a", "--session-timeout", "10m", "--", os.Args[0], "writer", string(file), "it", "spread")
	p.cmd.Stdout = w
	p.start()
	w.Close()
	eventually(t, "both write", func() bool { return file.count("it") > 100 })
	p.signal(syscall.SIGKILL)
	require.NoError(t, r.SetReadDeadline(time.Now().Add(time.Minute)))
	_, err = r.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF, "all have closed their standard output")
	require.Len(t, srv.Children("/a"), 1)
}

// killGuard sends a signal to the guard, the only child of zkr.
func killGuard(t *testing.T, p *program, s syscall.Signal) {
	t.Helper()
	require.NoError(t, exec.Command("pkill", fmt.Sprintf("-%d", s), "-P", strconv.Itoa(p.cmd.Process.Pid)).Run(), "zkr has no child")
}
