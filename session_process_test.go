//go:build unix

package zkrecipes

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/barrier"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
)

// Holders and members in processes of their own, which are stopped and killed.

const (
	holderEnv     = "ZKRECIPES_TEST_HOLDER" // what the process does once it holds: "wait" or "commit"; or "member"
	pathEnv       = "ZKRECIPES_TEST_PATH"
	sideEnv       = "ZKRECIPES_TEST_SIDE" // the name of the side on which it holds
	holderTimeout = time.Second
	sharedTick    = 500 * time.Millisecond // the tick of the shared server
	reportMark    = "holder: "
)

// report is what a holder's process prints, as one line of JSON.
type report struct {
	Token Token
	Place string // absolute
	// In the second report, after the process has gone on:
	Lost      string // Err(), if that is ErrLost
	Failed    string // Commit's error, if Err() was nil before; empty if there was none
	Uncertain bool   // whether that is ErrUncertain
	Refused   string // the error of another Commit, if that is ErrLost
	Fenced    bool   // Check fails in a transaction of another connection
}

// TestMemberProcess is what a process does that waits at a barrier of three and is
// inside a double barrier of two. In any other process it does nothing.
func TestMemberProcess(t *testing.T) {
	path := os.Getenv(pathEnv)
	if os.Getenv(holderEnv) != "member" {
		return
	}
	c := dial(t, &Options{SessionTimeout: holderTimeout})
	waitLater(t, NewBarrier(c, path+"/barrier", 3))
	v, err := NewDoubleBarrier(c, path+"/double", 2).Enter(harness.Within(t, time.Minute))
	require.NoError(t, err)
	fmt.Println(reportMark + "{}")
	<-v.Context(context.Background()).Done() // until the process is killed
}

// TestHolderProcess is what a process does that holds a lock. In any other process it
// does nothing.
func TestHolderProcess(t *testing.T) {
	mode, path := os.Getenv(holderEnv), os.Getenv(pathEnv)
	if mode == "" {
		return
	}
	ctx := harness.Within(t, time.Minute)
	i := slices.IndexFunc(sides, func(s side) bool { return s.name == os.Getenv(sideEnv) })
	l := held(t, sides[i].ours(dial(t, &Options{SessionTimeout: holderTimeout}), path).Lock)
	conn := harness.Raw(t)
	r := report{Token: l.Token(), Place: l.Check().Path}
	say := func() {
		line, err := json.Marshal(r)
		require.NoError(t, err)
		fmt.Println(reportMark + string(line))
	}
	data, value := path+"-data", fmt.Append(nil, l.Token())
	lost := func(err error) string {
		if errors.Is(err, ErrLost) {
			return err.Error()
		}
		return ""
	}
	say()
	in := bufio.NewReader(os.Stdin)
	for first := true; mode == "commit" || first; first = false {
		if mode == "wait" {
			// The process is stopped while it waits here, and goes on with Err.
			_, err := in.ReadString('\n')
			require.NoError(t, err)
		}
		err := l.Err()
		if err != nil {
			r.Lost = lost(err)
			break
		}
		if _, err := l.Commit(ctx, OpSet(data, value, -1)); err != nil {
			r.Failed, r.Uncertain = err.Error(), errors.Is(err, ErrUncertain)
			break
		}
	}
	_, err := l.Commit(ctx, OpSet(data, value, -1))
	r.Refused = lost(err)
	_, err = conn.Multi(l.Check(), &zk.SetDataRequest{Path: data, Data: value, Version: -1})
	r.Fenced = errors.Is(err, zk.ErrNoNode)
	say()
	io.Copy(io.Discard, in) // until the parent closes its end
}

// process is a running TestHolderProcess or TestMemberProcess.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// startHolder starts a TestHolderProcess and returns once it holds the lock.
func startHolder(t *testing.T, s side, mode, path string) (*process, report) {
	t.Helper()
	p := startProcess(t, s.name, "TestHolderProcess", mode, path)
	return p, p.report()
}

// startProcess runs a test of this binary in a process of its own.
func startProcess(t *testing.T, side, test, mode, path string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(os.Args[0], "-test.run=^"+test+"$", "-test.timeout=1m")}
	// It uses the shared server of this process.
	p.cmd.Env = append(os.Environ(), "ZK_SERVERS="+strings.Join(harness.Servers(), ","), holderEnv+"="+mode, pathEnv+"="+path, sideEnv+"="+side)
	p.cmd.Stderr = os.Stderr
	var err error
	p.in, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.out = bufio.NewScanner(out)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() {
		p.in.Close()
		p.signal(syscall.SIGKILL) // which also ends a stopped process
		p.cmd.Wait()
	})
	return p
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s))
}

// report waits for the next report of the process.
func (p *process) report() (r report) {
	p.t.Helper()
	for p.out.Scan() {
		if line, ok := strings.CutPrefix(p.out.Text(), reportMark); ok {
			require.NoError(p.t, json.Unmarshal([]byte(line), &r))
			return r
		}
		p.t.Log(p.out.Text())
	}
	require.FailNow(p.t, "the holder's process has ended", "%v", p.out.Err())
	return r
}

// A process is stopped until its session has expired and a waiter was granted the
// lock. When the process goes on, the first thing that it learns is ErrLost, and its
// Commits are refused.
func TestRealB14ProcessPausedLongerThanItsSessionGetsErrLost(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{
		"wait",   // stopped at a known moment
		"commit", // stopped at any moment in a loop of Err and Commit
	} {
		for _, side := range sides {
			t.Run(mode+" "+side.name, func(t *testing.T) {
				t.Parallel()
				ctx, path := harness.Within(t, 30*time.Second), harness.NewPath(t)
				conn := harness.Raw(t)
				harness.MakeParents(t, conn, path+"-data")
				p, held := startHolder(t, side, mode, path)
				c := dial(t, nil)
				waiter := later(t, side.theirs(c, path).Lock)
				sleeps(t, c, 2)
				if mode == "commit" {
					harness.Eventually(t, "Commits", func() bool {
						data, _, err := conn.Get(path + "-data")
						return err == nil && string(data) == fmt.Sprint(held.Token)
					})
				}

				p.signal(syscall.SIGSTOP)
				next := waiter.Get()
				require.Greater(t, next.Token(), held.Token)
				_, err := next.Commit(ctx, OpSet(path+"-data", []byte("next"), -1))
				require.NoError(t, err)
				_, err = p.in.Write([]byte("go on\n"))
				require.NoError(t, err)
				p.signal(syscall.SIGCONT)

				r := p.report()
				t.Logf("%+v", r)
				if mode == "wait" {
					require.NotEmpty(t, r.Lost, "the first Err is ErrLost")
				} else if r.Lost == "" {
					require.True(t, r.Uncertain || strings.Contains(r.Failed, ErrLost.Error()), "the process was stopped within Commit")
				}
				require.NotEmpty(t, r.Refused, "Commit is refused")
				require.True(t, r.Fenced, "Check fails on another connection")
				data, _, err := conn.Get(path + "-data")
				require.NoError(t, err)
				require.Equal(t, "next", string(data))
				require.NoError(t, next.Release())
			})
		}
	}
}

// The lock of a killed process is free when its session has expired, which the servers
// notice within a tick.
func TestRealB34LockOfAKilledProcessIsFreeAfterItsTimeout(t *testing.T) {
	t.Parallel()
	harness.NeedsOwn(t) // another server's tick is not known
	for _, side := range sides {
		t.Run(side.name, func(t *testing.T) {
			path := harness.NewPath(t)
			p, held := startHolder(t, side, "wait", path)
			seen := newRecorder()
			c := dial(t, &Options{Trace: seen.trace()})
			waiter := later(t, side.theirs(c, path).Lock)
			sleeps(t, c, 2)

			killed := time.Now()
			p.signal(syscall.SIGKILL)
			next := waiter.Get()
			took := seen.nth(t, 1, "granted").Time.Sub(killed)
			t.Logf("granted %v after the kill; timeout %v, tick %v", took, holderTimeout, sharedTick)
			require.Less(t, took, holderTimeout+sharedTick+tolerance)
			require.Greater(t, next.Token(), held.Token)
			require.NoError(t, next.Release())
			require.Empty(t, harness.Children(t, harness.Raw(t), path))
		})
	}
}

// Once the session of a killed process has expired, its members are neither counted
// nor waited for.
func TestRealB34MembersOfAKilledProcessAreGoneAfterItsTimeout(t *testing.T) {
	t.Parallel()
	harness.NeedsOwn(t) // another server's tick is not known
	path, conn := harness.NewPath(t), harness.Raw(t)
	p := startProcess(t, "", "TestMemberProcess", "member", path)
	v := visits(t, enter(t, NewDoubleBarrier(dial(t, nil), path+"/double", 2)))[0]
	p.report()
	var waiting []*harness.Call[int]
	standing := func() int {
		return len(line.PlaceNames(harness.Children(t, conn, path+"/barrier/round"), barrier.MemberKinds))
	}
	harness.Eventually(t, "the process waits", func() bool { return standing() == 1 })
	c := dial(t, nil)
	waiting = append(waiting, waitLater(t, NewBarrier(c, path+"/barrier", 3)))
	harness.Eventually(t, "another waits", func() bool { return standing() == 2 })
	leaves := harness.GoErr(t, v.Leave)

	killed := time.Now()
	p.signal(syscall.SIGKILL)
	_, err := leaves.Wait()
	require.NoError(t, err)
	took := time.Since(killed)
	t.Logf("left %v after the kill; timeout %v, tick %v", took, holderTimeout, sharedTick)
	require.Less(t, took, holderTimeout+sharedTick+tolerance)
	require.Equal(t, 1, standing())
	waiting = append(waiting, waitLater(t, NewBarrier(c, path+"/barrier", 3)))
	harness.Eventually(t, "another waits", func() bool { return standing() == 2 })
	require.True(t, waiting[0].Waiting(), "the killed member is not counted")
	indexes(t, append(waiting, waitLater(t, NewBarrier(c, path+"/barrier", 3)))...)
	require.Empty(t, harness.Children(t, conn, path+"/double"))
}
