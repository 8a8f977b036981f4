package line_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// Calls that are cancelled. Where a test silences the server, a request gets no reply
// and no error, and the connection stays up.

func TestCallsCancelledWhileDisconnectedAreNeverSent(t *testing.T) {
	r := recipetest.NewRig(t, nil)
	s, _ := recipetest.Core(r.C).Session()
	r.P.Refuse(true)
	harness.Eventually(t, "down", func() bool { up, _ := s.Connected(); return !up })
	before := runtime.NumGoroutine()
	for range 500 {
		ctx, cancel := context.WithTimeout(r.Ctx, 100*time.Microsecond)
		for _, call := range []func(context.Context) error{
			func(ctx context.Context) error { _, err := r.M.Lock(ctx); return err },
			func(ctx context.Context) error { _, err := r.M.TryLock(ctx); return err },
			func(ctx context.Context) error { _, err := r.M.Contenders(ctx); return err },
		} {
			require.ErrorIs(t, call(ctx), context.DeadlineExceeded)
		}
		cancel()
	}
	require.Less(t, runtime.NumGoroutine(), before+20)
	r.P.Reset()
	r.P.Refuse(false)
	require.NoError(t, r.M.Do(r.Ctx, recipetest.Nothing))
	require.Equal(t, 2, recipetest.Sum(r.P.Count()), "a join, and a release: %v", r.P.Count())
}

func TestAContextsEndIsReportedWhateverHappensToTheConnection(t *testing.T) {
	const drops = 50
	r := recipetest.NewRig(t, nil)
	// With so many names, dialling never reaches the end of the list, where it would pause.
	r.C = recipetest.DialTo(t, recipetest.ServerNames(2*drops), &zkrecipes.Options{Dialer: harness.NewTaps(r.P.Addr()).Dial})
	r.M = zkrecipes.NewMutex(r.C, r.Path)
	l := r.Lock()
	for i := range drops {
		ctx, cancel := context.WithCancel(context.Background())
		rule := r.P.On("getChildren2", 1, harness.Hold)
		tried := make(chan error, 1)
		go func() { _, err := r.M.TryLock(ctx); tried <- err }()
		r.P.Await(rule)
		go func() {
			for range i * 60 {
				runtime.Gosched()
			}
			cancel()
		}()
		r.P.Drop()
		err := <-tried
		rule.Release()
		r.P.Off(rule)
		if !errors.Is(err, zkrecipes.ErrLocked) {
			require.ErrorIs(t, err, context.Canceled)
		}
		cancel()
	}
	require.NoError(t, l.Release())
}

func TestA12TimedOutLocksOfEachSideLeaveNothing(t *testing.T) {
	const tries = 10_000
	// On a busy machine thousands of places can be on their way out at the same time.
	opts := &zkrecipes.Options{MaxBuffer: 16 << 20}
	test := func(t *testing.T, r *recipetest.SideRig) {
		ctx := harness.Within(t, time.Minute)
		l := recipetest.Held(t, r.Rival.Lock)
		turns := make(chan struct{}, tries)
		for range tries {
			turns <- struct{}{}
		}
		close(turns)
		var timedOut atomic.Int32
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for range turns {
					ctx, cancel := context.WithTimeout(ctx, time.Duration(rand.N(4000))*time.Microsecond)
					_, err := r.M.Lock(ctx)
					cancel()
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("%v", err)
						return
					}
					timedOut.Add(1)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, tries, timedOut.Load())
		require.Greater(t, r.P.CountOf(recipetest.OpJoin), tries/10, "many have joined")
		r.Queued(1)
		r.WatchesLeft(1) // on the holder's place
		s, _ := recipetest.Core(r.C).Session()
		require.False(t, line.HasUnresolved(s))
		require.LessOrEqual(t, line.KnownContainers(recipetest.Core(r.C)), 4, "the line and those of its parents that this client has created")
		require.NoError(t, l.Release())
		r.WatchesLeft(0)
		require.NoError(t, r.M.Do(ctx, recipetest.Nothing))
		require.Zero(t, r.C.Status().ZnodeBytes)
	}
	for _, side := range recipetest.Sides {
		t.Run(side.Name, func(t *testing.T) { test(t, side.Rig(t, opts)) })
	}
}

func TestA16ACancelledWaiterInAMixedLineBlocksNobody(t *testing.T) {
	r := recipetest.NewRWRig(t, nil)
	t.Run("a writer between readers", func(t *testing.T) {
		holder := recipetest.Held(t, r.Another().RLock)
		middle := r.Joins(2, r.Another().Lock)
		last := r.Joins(3, r.W.RLock)
		require.True(t, last.Waiting())
		middle.Cancel(nil)
		l := last.Get() // together with the other reader
		require.NoError(t, holder.Err())
		require.NoError(t, l.Release())
		require.NoError(t, holder.Release())
	})
	t.Run("a reader between writers", func(t *testing.T) {
		holder := recipetest.Held(t, r.Another().Lock)
		middle := r.Joins(2, r.Another().RLock)
		last := r.Joins(3, r.W.Lock)
		middle.Cancel(nil)
		r.Queued(2)
		require.True(t, last.Waiting())
		require.NoError(t, holder.Release())
		require.NoError(t, last.Get().Release())
	})
}

func TestB32CancellingEachSideAtEveryStepLeavesNothing(t *testing.T) {
	for _, step := range []struct {
		name, op string
		at       harness.Action
		blocked  bool // another place is ahead
	}{
		{"before the join is applied", recipetest.OpJoin, harness.Hold, false},
		{"before the reply to the join", recipetest.OpJoin, harness.HoldReply, false},
		{"before the listing is served", "getChildren2", harness.Hold, true},
		{"before the reply to the listing", "getChildren2", harness.HoldReply, true},
		{"before the watch is armed", "getData", harness.Hold, true},
		{"before the reply that arms the watch", "getData", harness.HoldReply, true},
	} {
		t.Run(step.name, func(t *testing.T) {
			recipetest.EachSide(t, func(t *testing.T, r *recipetest.SideRig) {
				want := 0
				if step.blocked {
					defer r.Raw.Delete(r.ByHand(r.By), -1)
					want = 1
				}
				rule := r.P.On(step.op, 1, step.at)
				a := recipetest.Later(t, r.M.Lock)
				r.P.Await(rule)
				a.Cancel(nil)
				_, err := a.Wait() // before any reply
				require.ErrorIs(t, err, context.Canceled)
				rule.Release()
				harness.Eventually(t, "idle", func() bool { return recipetest.Idle(r.C) })
				r.Queued(want)
				r.WatchesLeft(want)
			})
		})
	}
	t.Run("before it is sent", func(t *testing.T) {
		recipetest.EachSide(t, func(t *testing.T, r *recipetest.SideRig) {
			ctx, cancel := context.WithCancel(r.Ctx)
			cancel()
			_, err := r.M.Lock(ctx)
			require.ErrorIs(t, err, context.Canceled)
			_, err = r.M.TryLock(ctx)
			require.ErrorIs(t, err, context.Canceled)
			require.Empty(t, r.P.Count())
		})
	})
	t.Run("racing the grant", func(t *testing.T) {
		recipetest.EachSide(t, func(t *testing.T, r *recipetest.SideRig) {
			for range 40 {
				l := recipetest.Held(t, r.Rival.Lock)
				a := r.Joins(2, r.M)
				go a.Cancel(nil)
				require.NoError(t, l.Release())
				if l, err := a.Wait(); err == nil {
					_, err := l.Commit(r.Ctx)
					require.NoError(t, err)
					require.NoError(t, l.Release())
				} else {
					require.ErrorIs(t, err, context.Canceled)
				}
				r.Queued(0)
			}
		})
	})
}

func TestA16ACancelledWaiterInTheMiddleLetsNobodyIn(t *testing.T) {
	for _, side := range recipetest.Sides {
		if !side.Signalled() { // two readers hold the lock together, see the test above
			continue
		}
		t.Run(side.Name, func(t *testing.T) {
			r := side.Rig(t, nil)
			l := recipetest.Held(t, r.Rival.Lock)
			middle := r.Joins(2, r.Theirs(recipetest.Dial(t, nil), r.Path))
			last := r.Waits(3)
			why := errors.New("changed my mind")
			middle.Cancel(why)
			_, err := middle.Wait()
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, why)
			r.Queued(2)
			harness.Eventually(t, "new predecessor", func() bool { return r.P.CountOf("getData") == 1 && recipetest.Idle(r.C) })
			require.Equal(t, 1, r.P.CountOf("getChildren2"), "it looked for its new predecessor")
			require.True(t, last.Waiting())
			require.NoError(t, l.Release())
			require.NoError(t, last.Get().Release())
		})
	}
}

func TestB33CleanUpWaitsForTheConnection(t *testing.T) {
	recipetest.EachSide(t, func(t *testing.T, r *recipetest.SideRig) {
		l := recipetest.Held(t, r.Rival.Lock)
		a := r.Waits(2)
		r.P.Refuse(true)
		a.Cancel(nil)
		_, err := a.Wait() // at once
		require.ErrorIs(t, err, context.Canceled)
		r.Queued(2)
		r.P.Refuse(false)
		r.Queued(1)
		require.NoError(t, l.Release())
	})
}
