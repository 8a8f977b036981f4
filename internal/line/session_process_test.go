//go:build unix

package line_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// Holders in processes of their own, which are stopped and killed.

// TestHolderProcess is what a process does that holds a lock. In any other process it
// does nothing.
func TestHolderProcess(t *testing.T) {
	mode, path := os.Getenv(recipetest.HolderEnv), os.Getenv(recipetest.PathEnv)
	if mode == "" {
		return
	}
	ctx := harness.Within(t, 2*time.Minute)
	i := slices.IndexFunc(recipetest.Sides, func(s recipetest.Side) bool { return s.Name == os.Getenv(recipetest.SideEnv) })
	l := recipetest.Held(t, recipetest.Sides[i].Ours(recipetest.Dial(t, &zkrecipes.Options{SessionTimeout: recipetest.HolderTimeout}), path).Lock)
	r := recipetest.Report{Token: l.Token(), Place: l.Check().Path}
	say := func() {
		line, err := json.Marshal(r)
		require.NoError(t, err)
		fmt.Println(recipetest.ReportMark + string(line))
	}
	data, value := path+"-data", fmt.Append(nil, l.Token())
	lost := func(err error) string {
		if errors.Is(err, zkrecipes.ErrLost) {
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
		if _, err := l.Commit(ctx, zkrecipes.OpSet(data, value, -1)); err != nil {
			r.Failed, r.Uncertain = err.Error(), errors.Is(err, zkrecipes.ErrUncertain)
			break
		}
	}
	_, err := l.Commit(ctx, zkrecipes.OpSet(data, value, -1))
	r.Refused = lost(err)
	_, err = harness.Raw(t).Multi(l.Check(), &zk.SetDataRequest{Path: data, Data: value, Version: -1})
	r.Fenced = errors.Is(err, zk.ErrNoNode)
	say()
	io.Copy(io.Discard, in) // until the parent closes its end
}

// startHolder starts a TestHolderProcess and returns once it holds the lock.
func startHolder(t *testing.T, s recipetest.Side, mode, path string) (*recipetest.Process, recipetest.Report) {
	t.Helper()
	p := recipetest.StartProcess(t, harness.Servers(), s.Name, "TestHolderProcess", mode, path)
	return p, p.Report()
}

// A process is stopped until its session has expired and a waiter was granted the
// lock. When the process goes on, the first thing that it learns is ErrLost, and its
// Commits are refused.
func TestRealProcessPausedLongerThanItsSessionGetsErrLost(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{
		"wait",   // stopped at a known moment
		"commit", // stopped at any moment in a loop of Err and Commit
	} {
		for _, side := range recipetest.Sides {
			t.Run(mode+" "+side.Name, func(t *testing.T) {
				t.Parallel()
				ctx, path := harness.Within(t, 2*time.Minute), harness.NewPath(t)
				conn := harness.Raw(t)
				harness.MakeParents(t, conn, path+"-data")
				p, held := startHolder(t, side, mode, path)
				seen := recipetest.NewRecorder()
				c := recipetest.Dial(t, &zkrecipes.Options{Trace: seen.Trace()})
				waiter := recipetest.Later(t, side.Theirs(c, path).Lock)
				seen.Nth(t, 1, "queued")
				if mode == "commit" {
					harness.Eventually(t, "Commits", func() bool {
						data, _, err := conn.Get(path + "-data")
						return err == nil && string(data) == fmt.Sprint(held.Token)
					})
				}

				p.Signal(syscall.SIGSTOP)
				next := waiter.Get()
				require.Greater(t, next.Token(), held.Token)
				_, err := next.Commit(ctx, zkrecipes.OpSet(path+"-data", []byte("next"), -1))
				require.NoError(t, err)
				_, err = p.In.Write([]byte("go on\n"))
				require.NoError(t, err)
				p.Signal(syscall.SIGCONT)

				r := p.Report()
				t.Logf("%+v", r)
				if mode == "wait" {
					require.NotEmpty(t, r.Lost, "the first Err is ErrLost")
				} else if r.Lost == "" {
					require.True(t, r.Uncertain || strings.Contains(r.Failed, zkrecipes.ErrLost.Error()), "the process was stopped within Commit")
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
func TestRealLockOfAKilledProcessIsFreeAfterItsTimeout(t *testing.T) {
	t.Parallel()
	harness.NeedsOwn(t) // another server's tick is not known
	for _, side := range recipetest.Sides {
		t.Run(side.Name, func(t *testing.T) {
			t.Parallel()
			path := harness.NewPath(t)
			p, held := startHolder(t, side, "wait", path)
			seen := recipetest.NewRecorder()
			c := recipetest.Dial(t, &zkrecipes.Options{Trace: seen.Trace()})
			waiter := recipetest.Later(t, side.Theirs(c, path).Lock)
			seen.Nth(t, 1, "queued")

			killed := time.Now()
			p.Signal(syscall.SIGKILL)
			next := waiter.Get()
			took := seen.Nth(t, 1, "granted").Time.Sub(killed)
			t.Logf("granted %v after the kill; timeout %v, tick %v", took, recipetest.HolderTimeout, recipetest.SharedTick)
			require.Less(t, took, recipetest.HolderTimeout+recipetest.SharedTick+tolerance)
			require.Greater(t, next.Token(), held.Token)
			require.NoError(t, next.Release())
			require.Empty(t, harness.Children(t, harness.Raw(t), path))
		})
	}
}
