package line_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// What users of lock libraries rely on, for each side of the locks.

func TestReentryRacingTheLastReleaseHoldsOrFails(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		c := w.Client(nil)
		for range 100 {
			l := w.Holds(c)
			ctx := l.Reentrant(t.Context())
			released := harness.GoErr(t, func(context.Context) error { return l.Release() })
			if again, err := w.Ours(c, w.Path).Lock(ctx); err == nil {
				_, err := again.Commit(t.Context()) // the place must still exist
				require.NoError(t, err)
				require.NoError(t, again.Release())
			} else {
				require.ErrorIs(t, err, zkrecipes.ErrReleased)
			}
			released.Get()
		}
		require.Empty(t, w.Line())
	})
}

// kindsOfLock are the kinds of lock, each with a letter that stands for it.
var kindsOfLock = map[rune]func(*zkrecipes.Client, string) recipetest.Locker{'m': recipetest.Mutex, 'w': recipetest.Writer, 'r': recipetest.Reader}

// TryLock has seen a free lock and joins, but another client's place is ahead. It
// leaves again.
func TestLosersOfTryLockThatHaveJoinedLeaveNothing(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		c, other := w.Client(nil), w.Client(nil)
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpJoin, For: time.Second})
		tried := recipetest.Later(t, w.Ours(c, w.Path).TryLock)
		synctest.Wait()
		w.Excludes(other)
		_, err := tried.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		synctest.Wait()
		require.Len(t, w.Line(), 1)
	})
}

func TestTimedOutLocksLeaveNothing(t *testing.T) {
	const tries, workers = 500, 16 // on each of four sides
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		c, other := w.Client(&zkrecipes.Options{MaxBuffer: 16 << 20}), w.Client(nil)
		l := w.Excludes(other)
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, For: time.Millisecond, Times: -1})
		before := w.Srv.Counts()
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for range tries / workers {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.N(8000))*time.Microsecond)
					if _, err := w.Ours(c, w.Path).Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
					cancel()
				}
			})
		}
		wg.Wait()
		require.Greater(t, w.Srv.Counts().Sub(before).Requests[recipetest.OpJoin], tries/10, "many have joined")
		w.Plan.Stop()
		time.Sleep(time.Second)
		require.Len(t, w.Line(), 1)
		require.LessOrEqual(t, len(w.SessionOf(c).Watches), 1, "on the holder's place")
		require.NoError(t, l.Release())
		synctest.Wait()
		require.Empty(t, w.SessionOf(c).Watches)
		require.NoError(t, w.Ours(c, w.Path).Do(t.Context(), recipetest.Nothing))
		require.Zero(t, c.Status().ZnodeBytes)
	})
}

func TestCallsWhoseContextsEndWhileDisconnectedAreNeverSent(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		m := zkrecipes.NewMutex(c, w.Path)
		w.Away(c)
		before := runtime.NumGoroutine()
		for range 500 {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Microsecond)
			for _, call := range []func(context.Context) error{only(m.Lock), only(m.TryLock), only(m.Contenders)} {
				require.ErrorIs(t, call(ctx), context.DeadlineExceeded)
			}
			cancel()
		}
		synctest.Wait()
		require.Less(t, runtime.NumGoroutine(), before+20)
		w.Back()
		requests := w.Requests(func() { require.NoError(t, m.Do(t.Context(), recipetest.Nothing)) })
		require.Equal(t, 2, recipetest.Writes(requests), "a join, and a release: %v", requests)
		require.Zero(t, requests["getChildren2"])
	})
}

func TestAContextsEndIsReportedWhateverHappensToTheConnection(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		m := zkrecipes.NewMutex(c, w.Path)
		recipetest.LockOn(t, m)
		for i := range 50 {
			w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "getChildren2", For: time.Minute})
			tried := recipetest.Later(t, m.TryLock)
			synctest.Wait()
			go func() {
				for range i * 60 {
					runtime.Gosched()
				}
				tried.Cancel(nil)
			}()
			w.Srv.Disconnect(recipetest.SessionID(c))
			if _, err := tried.Wait(); !errors.Is(err, zkrecipes.ErrLocked) {
				require.ErrorIs(t, err, context.Canceled)
			}
			w.Plan.Stop()
			time.Sleep(time.Second)
		}
	})
}

func TestAWaitingLockHasFewGoroutinesAndSendsNothing(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		const n = 50
		c := w.Client(&zkrecipes.Options{SessionTimeout: recipetest.LongSession})
		l := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
		waiters := []*harness.Call[*zkrecipes.Lease]{w.LockLater(c)}
		before := runtime.NumGoroutine()
		for range n {
			waiters = append(waiters, w.LockLater(c))
		}
		perWaiter := float64(runtime.NumGoroutine()-before) / n
		require.LessOrEqual(t, perWaiter, 3.0, "goroutines")
		require.Zero(t, recipetest.Sum(w.Requests(func() { time.Sleep(time.Minute) })))
		require.NoError(t, l.Release())
		for _, a := range waiters {
			require.NoError(t, a.Get().Release())
		}
	}, zktest.SessionTimeouts(0, recipetest.LongSession))
}
