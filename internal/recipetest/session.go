package recipetest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// ServerNames returns the names of n servers. They resolve only in the test's own
// Dialer.
func ServerNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("zk-%d.test:2181", i)
	}
	return names
}

// ReadOnce reads a znode. It waits until the session is over, if need be.
func ReadOnce(s *session.Session, path string) error {
	_, _, err := s.Get(s.UntilAnswered(), path)
	return err
}

// StartReaders starts n goroutines that read until the session is over. The test
// waits for them at its end.
func StartReaders(t testing.TB, s *session.Session, n int) {
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for {
				err := ReadOnce(s, "/")
				if err == zkconn.ErrSessionOver {
					return
				}
				if err != nil && !zkconn.Transient(err) {
					t.Error(err)
					return
				}
			}
		})
	}
	t.Cleanup(wg.Wait)
}

// WatchOn arms a watch on a znode.
func WatchOn(t testing.TB, s *session.Session, path string) *zkconn.Watch {
	t.Helper()
	w, err := s.Watch(harness.Within(t, 2*time.Minute), path)
	require.NoError(t, err)
	return w
}

// RequireUsable requires that the Client can take and release a lock.
func RequireUsable(t testing.TB, c *zkrecipes.Client) {
	t.Helper()
	l, err := zkrecipes.NewMutex(c, harness.NewPath(t)).Lock(harness.Within(t, 2*time.Minute))
	require.NoError(t, err)
	require.NoError(t, l.Release())
}

// Expire ends c's session, and returns when c has another one and sleeps again.
func (w *World) Expire(c *zkrecipes.Client) {
	w.T.Helper()
	old := SessionID(c)
	require.True(w.T, w.Srv.Expire(old))
	for range 600 {
		if id := SessionID(c); id != 0 && id != old {
			time.Sleep(time.Second)
			synctest.Wait()
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	require.FailNow(w.T, "no other session")
}

const (
	HolderEnv     = "ZKRECIPES_TEST_HOLDER" // what the process does once it holds: "wait" or "commit"
	PathEnv       = "ZKRECIPES_TEST_PATH"
	SideEnv       = "ZKRECIPES_TEST_SIDE" // the name of the side on which it holds
	HolderTimeout = 8 * time.Second
	SharedTick    = 500 * time.Millisecond // the tick of the shared server
	ReportMark    = "holder: "
)

// Report is what a holder's process prints, as one line of JSON.
type Report struct {
	Token zkrecipes.Token
	Place string // absolute
	// In the second report, after the process has gone on:
	Lost      string // Err(), if that is ErrLost
	Failed    string // Commit's error, if Err() was nil before; empty if there was none
	Uncertain bool   // whether that is ErrUncertain
	Refused   string // the error of another Commit, if that is ErrLost
	Fenced    bool   // Check fails in a transaction of another connection
}

// Process is a running TestHolderProcess.
type Process struct {
	t   *testing.T
	cmd *exec.Cmd
	In  io.WriteCloser
	out *bufio.Scanner
}

// StartProcess runs a test of this binary in a process of its own, which uses these servers.
func StartProcess(t *testing.T, servers []string, side, test, mode, path string) *Process {
	t.Helper()
	p := &Process{t: t, cmd: exec.Command(os.Args[0], "-test.run=^"+test+"$", "-test.timeout=3m")}
	p.cmd.Env = append(os.Environ(), "ZK_SERVERS="+strings.Join(servers, ","), HolderEnv+"="+mode, PathEnv+"="+path, SideEnv+"="+side)
	p.cmd.Stderr = os.Stderr
	var err error
	p.In, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.out = bufio.NewScanner(out)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() {
		p.In.Close()
		p.Signal(syscall.SIGKILL) // which also ends a stopped process
		p.cmd.Wait()
	})
	return p
}

func (p *Process) Signal(s syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s))
}

// Report waits for the next report of the process.
func (p *Process) Report() (r Report) {
	p.t.Helper()
	for p.out.Scan() {
		if line, ok := strings.CutPrefix(p.out.Text(), ReportMark); ok {
			require.NoError(p.t, json.Unmarshal([]byte(line), &r))
			return r
		}
		p.t.Log(p.out.Text())
	}
	require.FailNow(p.t, "the holder's process has ended", "%v", p.out.Err())
	return r
}
