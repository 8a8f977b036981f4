package line_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// Behaviour that users of other lock libraries rely on.

func TestA06ReentryRacingTheLastReleaseHoldsOrFails(t *testing.T) {
	recipetest.EachSide(t, func(t *testing.T, r *recipetest.SideRig) {
		for range 100 {
			l := recipetest.Held(t, r.M.Lock)
			ctx := l.Reentrant(r.Ctx)
			var wg sync.WaitGroup
			wg.Go(func() { require.NoError(t, l.Release()) })
			again, err := r.M.Lock(ctx)
			if err == nil {
				_, err := again.Commit(r.Ctx) // the place must still exist
				require.NoError(t, err)
				require.NoError(t, again.Release())
			} else {
				require.ErrorIs(t, err, zkrecipes.ErrReleased)
			}
			wg.Wait()
		}
		r.Queued(0)
	})
}

func TestA15ContendersAreListedInOrder(t *testing.T) {
	r := recipetest.NewRig(t, nil)
	_, err := zkrecipes.NewMutex(r.C, r.Path+"-none").Contenders(r.Ctx)
	require.ErrorIs(t, err, zkrecipes.ErrUnused)

	began := time.Now().Add(-time.Minute)
	var leases []*harness.Call[*zkrecipes.Lease]
	for i := range 3 {
		c := recipetest.Dial(t, &zkrecipes.Options{Identity: fmt.Sprint("worker ", i)})
		leases = append(leases, recipetest.LockLater(t, zkrecipes.NewMutex(c, r.Path)))
		r.Queued(i + 1)
	}
	foreign := r.ByHand("_c_0f0e0d0c0b0a09080706050403020100-lock-")
	_, err = r.Raw.Create(r.Path+"/stranger", nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)

	cs, err := r.M.Contenders(r.Ctx)
	require.NoError(t, err)
	require.Len(t, cs, 4)
	for i, c := range cs[:3] {
		require.Equal(t, fmt.Sprint("worker ", i), c.Identity)
		require.Equal(t, i == 0, c.Held)
		require.NotZero(t, c.Session)
		require.WithinRange(t, c.Since, began, time.Now().Add(time.Minute))
	}
	require.Equal(t, "by hand", cs[3].Identity)
	require.Equal(t, r.Path+"/"+cs[3].Place, foreign)
	require.Equal(t, leases[0].Get().Token(), cs[0].Token)
	require.NoError(t, r.Raw.Delete(r.Path+"/stranger", -1))
	for _, a := range leases {
		require.NoError(t, a.Get().Release())
	}
	require.NoError(t, r.Raw.Delete(foreign, -1))
}

func TestAWaitingLockHasFewGoroutinesAndSendsNothing(t *testing.T) {
	r := recipetest.NewRig(t, nil)
	l := r.Lock()
	first := recipetest.LockLater(t, r.M)
	r.Asleep(1) // it also knows whether the server enforces ACLs
	harness.Eventually(t, "asleep", func() bool { return recipetest.Idle(r.C) })
	before := harness.SettledGoroutines(t)
	const n = 50
	r.P.Reset()
	var waiters []*harness.Call[*zkrecipes.Lease]
	for range n {
		waiters = append(waiters, recipetest.LockLater(t, r.M))
	}
	r.Queued(n + 2)
	// Each waiter arms a watch on its own place. The session has one on the
	// predecessor's already.
	harness.Eventually(t, "asleep", func() bool { return r.P.CountOf("getData") >= n && recipetest.Idle(r.C) })
	perWaiter := float64(harness.SettledGoroutines(t)-before) / n
	t.Logf("goroutines per waiting Lock: %.2f", perWaiter)
	require.LessOrEqual(t, perWaiter, 3.0)

	r.P.Reset()
	idle := time.After(time.Second) // the test claims that nothing happens
	<-idle
	require.Empty(t, r.P.Count())
	require.NoError(t, l.Release())
	require.NoError(t, first.Get().Release())
	for _, a := range waiters {
		a.Cancel(nil)
	}
	for _, a := range waiters {
		if l, err := a.Wait(); err == nil {
			require.NoError(t, l.Release())
		}
	}
	r.Queued(0)
}

// Many goroutines lock in one session, and some in another, while connections drop
// and places are deleted. At most one holds at any time, and nothing is left behind.
func TestGoroutinesOfOneSessionExcludeEachOtherDespiteDropsAndEvictions(t *testing.T) {
	r := recipetest.NewRig(t, nil)
	stop := time.Now().Add(4 * time.Second)
	other := zkrecipes.NewMutex(recipetest.Dial(t, nil), r.Path)
	var inside, grants atomic.Int32
	var wg sync.WaitGroup
	for i := range 16 {
		m := r.M
		if i%4 == 0 {
			m = other
		}
		wg.Go(func() {
			for time.Now().Before(stop) {
				ctx, cancel := r.Ctx, context.CancelFunc(func() {})
				if i%2 == 1 {
					ctx, cancel = context.WithTimeout(r.Ctx, time.Duration(5+i*7)*time.Millisecond)
				}
				l, err := m.Lock(ctx)
				cancel()
				if err != nil {
					if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, zkrecipes.ErrEvicted) {
						t.Error(err)
					}
					continue
				}
				if inside.Add(1) != 1 {
					t.Error("two hold")
				}
				grants.Add(1)
				runtime.Gosched()
				inside.Add(-1)
				if err := l.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for n := 0; time.Now().Before(stop); n++ {
		r.P.Drop()
		if ms := r.InLine(); len(ms) > 6 { // the last place, which certainly does not hold
			r.Raw.Delete(r.Path+"/"+ms[len(ms)-1].Name, -1)
		}
		<-time.After(time.Duration(30+n%50) * time.Millisecond)
	}
	wg.Wait()
	t.Logf("%d grants", grants.Load())
	r.Queued(0)
	harness.Eventually(t, "watches", func() bool { return recipetest.WatchesOf(r.C) == 0 })
}
