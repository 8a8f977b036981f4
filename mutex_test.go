package zkrecipes

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

	"github.com/zkrecipes/zkrecipes/internal/harness"
)

// Behaviour that users of other lock libraries rely on.

func TestA06ReentryRacingTheLastReleaseHoldsOrFails(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		for range 100 {
			l := held(t, r.m.Lock)
			ctx := l.Reentrant(r.ctx)
			var wg sync.WaitGroup
			wg.Go(func() { require.NoError(t, l.Release()) })
			again, err := r.m.Lock(ctx)
			if err == nil {
				_, err := again.Commit(r.ctx) // the place must still exist
				require.NoError(t, err)
				require.NoError(t, again.Release())
			} else {
				require.ErrorIs(t, err, ErrReleased)
			}
			wg.Wait()
		}
		r.queued(0)
	})
}

func TestA15ContendersAreListedInOrder(t *testing.T) {
	r := newRig(t, nil)
	_, err := NewMutex(r.c, r.path+"-none").Contenders(r.ctx)
	require.ErrorIs(t, err, ErrUnused)

	began := time.Now().Add(-time.Minute)
	var leases []*harness.Call[*Lease]
	for i := range 3 {
		c := dial(t, &Options{Identity: fmt.Sprint("worker ", i)})
		leases = append(leases, lockLater(t, NewMutex(c, r.path)))
		r.queued(i + 1)
	}
	foreign := r.byHand("_c_0f0e0d0c0b0a09080706050403020100-lock-")
	_, err = r.raw.Create(r.path+"/stranger", nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)

	cs, err := r.m.Contenders(r.ctx)
	require.NoError(t, err)
	require.Len(t, cs, 4)
	for i, c := range cs[:3] {
		require.Equal(t, fmt.Sprint("worker ", i), c.Identity)
		require.Equal(t, i == 0, c.Held)
		require.NotZero(t, c.Session)
		require.WithinRange(t, c.Since, began, time.Now().Add(time.Minute))
	}
	require.Equal(t, "by hand", cs[3].Identity)
	require.Equal(t, r.path+"/"+cs[3].Place, foreign)
	require.Equal(t, leases[0].Get().Token(), cs[0].Token)
	require.NoError(t, r.raw.Delete(r.path+"/stranger", -1))
	for _, a := range leases {
		require.NoError(t, a.Get().Release())
	}
	require.NoError(t, r.raw.Delete(foreign, -1))
}

func TestAWaitingLockHasFewGoroutinesAndSendsNothing(t *testing.T) {
	r := newRig(t, nil)
	l := r.lock()
	first := lockLater(t, r.m)
	r.asleep(1) // it also knows whether the server enforces ACLs
	harness.Eventually(t, "asleep", func() bool { return idle(r.c) })
	before := harness.SettledGoroutines(t)
	const n = 50
	r.p.Reset()
	var waiters []*harness.Call[*Lease]
	for range n {
		waiters = append(waiters, lockLater(t, r.m))
	}
	r.queued(n + 2)
	// Each waiter arms a watch on its own place. The session has one on the
	// predecessor's already.
	harness.Eventually(t, "asleep", func() bool { return r.p.CountOf("getData") >= n && idle(r.c) })
	perWaiter := float64(harness.SettledGoroutines(t)-before) / n
	t.Logf("goroutines per waiting Lock: %.2f", perWaiter)
	require.LessOrEqual(t, perWaiter, 3.0)

	r.p.Reset()
	idle := time.After(time.Second) // the test claims that nothing happens
	<-idle
	require.Empty(t, r.p.Count())
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
	r.queued(0)
}

// Many goroutines lock in one session, and some in another, while connections drop
// and places are deleted. At most one holds at any time, and nothing is left behind.
func TestGoroutinesOfOneSessionExcludeEachOtherDespiteDropsAndEvictions(t *testing.T) {
	r := newRig(t, nil)
	stop := time.Now().Add(4 * time.Second)
	other := NewMutex(dial(t, nil), r.path)
	var inside, grants atomic.Int32
	var wg sync.WaitGroup
	for i := range 16 {
		m := r.m
		if i%4 == 0 {
			m = other
		}
		wg.Go(func() {
			for time.Now().Before(stop) {
				ctx, cancel := r.ctx, context.CancelFunc(func() {})
				if i%2 == 1 {
					ctx, cancel = context.WithTimeout(r.ctx, time.Duration(5+i*7)*time.Millisecond)
				}
				l, err := m.Lock(ctx)
				cancel()
				if err != nil {
					if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ErrEvicted) {
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
		r.p.Drop()
		if ms := r.inLine(); len(ms) > 6 { // the last place, which certainly does not hold
			r.raw.Delete(r.path+"/"+ms[len(ms)-1].Name, -1)
		}
		<-time.After(time.Duration(30+n%50) * time.Millisecond)
	}
	wg.Wait()
	t.Logf("%d grants", grants.Load())
	r.queued(0)
	harness.Eventually(t, "watches", func() bool { return watchesOf(r.c) == 0 })
}
