package line_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// The requests that a Mutex sends, by operation.

func TestFreeLockAndReleaseTakeTwoRequests(t *testing.T) {
	p := harness.NewProxy(t, harness.Server())
	c := recipetest.DialTo(t, []string{p.Addr()}, nil)
	other := recipetest.Dial(t, nil)
	ctx := harness.Within(t, 20*time.Second)
	m := zkrecipes.NewMutex(c, harness.NewPath(t))
	lockAndRelease := func(m *zkrecipes.Mutex) map[string]int {
		p.Reset()
		l, err := m.Lock(ctx)
		require.NoError(t, err)
		require.NoError(t, l.Release())
		return p.Count()
	}

	// Neither the line nor its three parents exist.
	missing := lockAndRelease(m)
	require.Equal(t, 1, missing[recipetest.OpJoin])
	require.Equal(t, 1, missing[recipetest.OpRelease])
	require.Equal(t, 1, missing["getData"])
	// /test/<time>/<name>/1: at most three parents are missing, as /test may exist.
	require.Subset(t, []int{5, 7}, []int{missing["createContainer"]})

	require.Equal(t, map[string]int{recipetest.OpJoin: 1, recipetest.OpRelease: 1}, lockAndRelease(m), "known line")

	sibling := zkrecipes.NewMutex(c, recipetest.LineOf(m).Path+"-sibling")
	require.Equal(t, map[string]int{"getData": 1, "createContainer": 1, recipetest.OpJoin: 1, recipetest.OpRelease: 1},
		lockAndRelease(sibling), "the line is missing, its parents exist")

	existing := recipetest.LineOf(m).Path + "-existing"
	require.NoError(t, zkrecipes.NewMutex(other, existing).Do(ctx, recipetest.Nothing))
	require.Equal(t, map[string]int{"getData": 1, recipetest.OpJoin: 1, recipetest.OpRelease: 1},
		lockAndRelease(zkrecipes.NewMutex(c, existing)), "first use of a line that exists")
}

func TestTryLockOnAHeldLockIsOneRead(t *testing.T) {
	p := harness.NewProxy(t, harness.Server())
	c := recipetest.DialTo(t, []string{p.Addr()}, nil)
	ctx := harness.Within(t, 20*time.Second)
	path := harness.NewPath(t)
	l, err := zkrecipes.NewMutex(recipetest.Dial(t, nil), path).Lock(ctx)
	require.NoError(t, err)
	p.Reset()
	_, err = zkrecipes.NewMutex(c, path).TryLock(ctx)
	require.ErrorIs(t, err, zkrecipes.ErrLocked)
	require.Equal(t, map[string]int{"getData": 1}, p.Count())
	require.NoError(t, l.Release())
}

func TestReentryTakesNoRequest(t *testing.T) {
	p := harness.NewProxy(t, harness.Server())
	c := recipetest.DialTo(t, []string{p.Addr()}, nil)
	ctx := harness.Within(t, 20*time.Second)
	m := zkrecipes.NewMutex(c, harness.NewPath(t))
	l, err := m.Lock(ctx)
	require.NoError(t, err)
	p.Reset()
	again, err := m.Lock(l.Reentrant(ctx))
	require.NoError(t, err)
	require.NoError(t, again.Release())
	require.Empty(t, p.Count())
	require.NoError(t, l.Release())
}

// With N waiters, each in a session of its own, a full cycle of one waiter is a join,
// a listing, two watches and a release. The hand-over is an event, takes no request,
// and wakes one waiter.
func TestContendedCycleTakesFiveRequestsHoweverManyWait(t *testing.T) {
	for _, n := range []int{1, 2, 16, 200} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			p := harness.NewProxy(t, harness.Server())
			ctx := harness.Within(t, 60*time.Second)
			path := harness.NewPath(t)
			// Not through the proxy, as a holder watches its own place after a while.
			holder := recipetest.LockOn(t, zkrecipes.NewMutex(recipetest.Dial(t, nil), path))

			// Each client knows the line already, so that its first read of the line is
			// not counted.
			clients := make([]*zkrecipes.Client, n)
			var wg sync.WaitGroup
			for i := range clients {
				wg.Go(func() { clients[i] = recipetest.DialTo(t, []string{p.Addr()}, nil) })
			}
			wg.Wait()
			for _, c := range clients {
				recipetest.LineOf(zkrecipes.NewMutex(c, path)).Remember(line.LineState{Version: -1})
			}
			p.Reset()
			granted := make(chan *zkrecipes.Lease, n)
			for _, c := range clients {
				wg.Go(func() {
					l, err := zkrecipes.NewMutex(c, path).Lock(ctx)
					if err != nil {
						t.Error(err)
						return
					}
					granted <- l
				})
			}
			require.Eventually(t, func() bool { return p.CountOf("getData") == 2*n && p.CountOf(opACLProbe) == n },
				30*time.Second, 5*time.Millisecond)
			require.Equal(t, map[string]int{
				recipetest.OpJoin: n, "getChildren2": n, "getData": 2 * n,
				opACLProbe: n, // whether the server enforces ACLs, once a session
			}, p.Count(), "to join and wait")

			p.Reset()
			require.NoError(t, holder.Release())
			for i := range n {
				current := <-granted
				require.Equal(t, i, p.CountOf(recipetest.OpRelease))
				require.Len(t, p.Count(), min(i, 1), "releases, and nothing else: %v", p.Count())
				require.Empty(t, granted, "a release wakes one waiter")
				require.NoError(t, current.Release())
			}
			wg.Wait()
			require.Equal(t, map[string]int{recipetest.OpRelease: n}, p.Count())
		})
	}
}
