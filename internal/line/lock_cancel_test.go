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
	require.Equal(t, map[string]int{recipetest.OpJoin: 1, recipetest.OpRelease: 1}, r.P.Count())
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
		require.False(t, s.HasUnresolved())
		require.LessOrEqual(t, recipetest.Core(r.C).KnownContainers(), 4, "the line and those of its parents that this client has created")
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
