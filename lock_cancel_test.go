package zkrecipes

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

	"github.com/zkrecipes/zkrecipes/internal/harness"
)

// Calls that are cancelled. Where a test silences the server, a request gets no reply
// and no error, and the connection stays up.

// leaves cancels the attempt and requires that it returns that cause.
func leaves(t *testing.T, a *harness.Call[*Lease]) {
	t.Helper()
	require.True(t, a.Waiting())
	why := errors.New("enough")
	a.Cancel(why)
	l, err := a.Wait()
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, why)
	require.Nil(t, l)
}

func TestACancelledJoinReturnsAtOnceAndItsPlaceIsDeleted(t *testing.T) {
	r := newRig(t, nil)
	for when, silence := range silences {
		t.Run(when, func(t *testing.T) {
			rule := r.p.On("multi(create,setData)", 1, silence)
			a := lockLater(t, r.m)
			r.p.Await(rule)
			leaves(t, a)
			rule.Release()
			r.p.Off(rule)
			require.NoError(t, r.m.Do(r.ctx, nothing), "no place blocks the lock")
			r.queued(0)
		})
	}
}

func TestACancelledJoinIsSearchedForWhenItsConnectionIsLost(t *testing.T) {
	r := newRig(t, nil)
	for _, silence := range silences {
		rule := r.p.On("multi(create,setData)", 1, silence)
		waiter := lockLater(t, r.m)
		r.p.Await(rule)
		leaves(t, waiter)
		synced := r.p.CountOf("sync")
		r.p.Drop()
		rule.Release()
		require.NoError(t, r.m.Do(r.ctx, nothing), "no place blocks the lock")
		harness.Eventually(t, "a search for the join", func() bool { return r.p.CountOf("sync") > synced })
		r.queued(0)
		r.p.Off(rule)
	}
}

func TestAnUnansweredReleaseReturnsWhenItsConnectionIsLost(t *testing.T) {
	r := newRig(t, nil)
	for _, silence := range silences {
		l := r.lock()
		rule := r.p.On("multi(setData,delete)", 1, silence)
		done := make(chan error, 1)
		go func() { done <- l.Release() }()
		r.p.Await(rule)
		require.ErrorIs(t, l.Err(), ErrReleased)
		r.p.Refuse(true)
		require.NoError(t, <-done, "the release continues in the background")
		rule.Release()
		r.p.Off(rule)
		r.p.Refuse(false)
		r.queued(0)
	}
}

// Whatever happens to connections and contexts, no places are left in the end.
func TestCancelledJoinsLeaveNothingWhileConnectionsAreLost(t *testing.T) {
	r := newRig(t, nil)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for {
			before := r.p.CountOf("multi(create,setData)")
			eventuallyOr(stop, func() bool { return r.p.CountOf("multi(create,setData)") > before+20 })
			select {
			case <-stop:
				return
			default:
				r.p.Drop()
			}
		}
	})
	var callers sync.WaitGroup
	var holding atomic.Int32
	for caller := range 8 {
		callers.Go(func() {
			for i := range 25 {
				ctx, cancel := context.WithTimeout(r.ctx, time.Duration((caller*7+i*13)%40)*time.Millisecond)
				l, err := r.m.Lock(ctx)
				cancel()
				if err != nil {
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("Lock: %v", err)
					}
					continue
				}
				if holding.Add(1) != 1 {
					t.Error("two hold the lock")
				}
				holding.Add(-1)
				if err := l.Release(); err != nil {
					t.Errorf("Release: %v", err)
				}
			}
		})
	}
	callers.Wait()
	close(stop)
	wg.Wait()
	require.NoError(t, r.m.Do(r.ctx, nothing), "no place blocks the lock")
	r.queued(0)
}

// eventuallyOr waits for something to become true, or for stop.
func eventuallyOr(stop chan struct{}, f func() bool) {
	for !f() {
		select {
		case <-stop:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

func TestCallsCancelledWhileDisconnectedAreNeverSent(t *testing.T) {
	r := newRig(t, nil)
	s, _ := r.c.client.Session()
	r.p.Refuse(true)
	harness.Eventually(t, "down", func() bool { up, _ := s.Connected(); return !up })
	before := runtime.NumGoroutine()
	for range 500 {
		ctx, cancel := context.WithTimeout(r.ctx, 100*time.Microsecond)
		for _, call := range []func(context.Context) error{
			func(ctx context.Context) error { _, err := r.m.Lock(ctx); return err },
			func(ctx context.Context) error { _, err := r.m.TryLock(ctx); return err },
			func(ctx context.Context) error { _, err := r.m.Contenders(ctx); return err },
		} {
			require.ErrorIs(t, call(ctx), context.DeadlineExceeded)
		}
		cancel()
	}
	require.Less(t, runtime.NumGoroutine(), before+20)
	r.p.Reset()
	r.p.Refuse(false)
	require.NoError(t, r.m.Do(r.ctx, nothing))
	require.Equal(t, map[string]int{opJoin: 1, opRelease: 1}, r.p.Count())
}

func TestAContextsEndIsReportedWhateverHappensToTheConnection(t *testing.T) {
	const drops = 50
	r := newRig(t, nil)
	// With so many names, dialling never reaches the end of the list, where it would pause.
	r.c = dialTo(t, serverNames(2*drops), &Options{Dialer: harness.NewTaps(r.p.Addr()).Dial})
	r.m = NewMutex(r.c, r.path)
	l := r.lock()
	for i := range drops {
		ctx, cancel := context.WithCancel(context.Background())
		rule := r.p.On("getChildren2", 1, harness.Hold)
		tried := make(chan error, 1)
		go func() { _, err := r.m.TryLock(ctx); tried <- err }()
		r.p.Await(rule)
		go func() {
			for range i * 60 {
				runtime.Gosched()
			}
			cancel()
		}()
		r.p.Drop()
		err := <-tried
		rule.Release()
		r.p.Off(rule)
		if !errors.Is(err, ErrLocked) {
			require.ErrorIs(t, err, context.Canceled)
		}
		cancel()
	}
	require.NoError(t, l.Release())
}

func TestA12TimedOutLocksOfEachSideLeaveNothing(t *testing.T) {
	const tries = 10_000
	// On a busy machine thousands of places can be on their way out at the same time.
	opts := &Options{MaxBuffer: 16 << 20}
	test := func(t *testing.T, r *sideRig) {
		ctx := harness.Within(t, time.Minute)
		l := held(t, r.rival.Lock)
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
					_, err := r.m.Lock(ctx)
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
		require.Greater(t, r.p.CountOf(opJoin), tries/10, "many have joined")
		r.queued(1)
		r.watchesLeft(1) // on the holder's place
		s, _ := r.c.client.Session()
		require.Empty(t, s.Unresolved)
		require.LessOrEqual(t, len(r.c.client.Containers.All), 4, "the line and those of its parents that this client has created")
		require.NoError(t, l.Release())
		r.watchesLeft(0)
		require.NoError(t, r.m.Do(ctx, nothing))
		require.Zero(t, r.c.Status().ZnodeBytes)
	}
	for _, side := range sides {
		t.Run(side.name, func(t *testing.T) { test(t, side.rig(t, opts)) })
	}
}

func TestA16ACancelledWaiterInAMixedLineBlocksNobody(t *testing.T) {
	r := newRWRig(t, nil)
	t.Run("a writer between readers", func(t *testing.T) {
		holder := held(t, r.another().RLock)
		middle := r.joins(2, r.another().Lock)
		last := r.joins(3, r.w.RLock)
		require.True(t, last.Waiting())
		middle.Cancel(nil)
		l := last.Get() // together with the other reader
		require.NoError(t, holder.Err())
		require.NoError(t, l.Release())
		require.NoError(t, holder.Release())
	})
	t.Run("a reader between writers", func(t *testing.T) {
		holder := held(t, r.another().Lock)
		middle := r.joins(2, r.another().RLock)
		last := r.joins(3, r.w.Lock)
		middle.Cancel(nil)
		r.queued(2)
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
		{"before the join is applied", opJoin, harness.Hold, false},
		{"before the reply to the join", opJoin, harness.HoldReply, false},
		{"before the listing is served", "getChildren2", harness.Hold, true},
		{"before the reply to the listing", "getChildren2", harness.HoldReply, true},
		{"before the watch is armed", "getData", harness.Hold, true},
		{"before the reply that arms the watch", "getData", harness.HoldReply, true},
	} {
		t.Run(step.name, func(t *testing.T) {
			eachSide(t, func(t *testing.T, r *sideRig) {
				want := 0
				if step.blocked {
					defer r.raw.Delete(r.byHand(r.by), -1)
					want = 1
				}
				rule := r.p.On(step.op, 1, step.at)
				a := later(t, r.m.Lock)
				r.p.Await(rule)
				a.Cancel(nil)
				_, err := a.Wait() // before any reply
				require.ErrorIs(t, err, context.Canceled)
				rule.Release()
				harness.Eventually(t, "idle", func() bool { return idle(r.c) })
				r.queued(want)
				r.watchesLeft(want)
			})
		})
	}
	t.Run("before it is sent", func(t *testing.T) {
		eachSide(t, func(t *testing.T, r *sideRig) {
			ctx, cancel := context.WithCancel(r.ctx)
			cancel()
			_, err := r.m.Lock(ctx)
			require.ErrorIs(t, err, context.Canceled)
			_, err = r.m.TryLock(ctx)
			require.ErrorIs(t, err, context.Canceled)
			require.Empty(t, r.p.Count())
		})
	})
	t.Run("racing the grant", func(t *testing.T) {
		eachSide(t, func(t *testing.T, r *sideRig) {
			for range 40 {
				l := held(t, r.rival.Lock)
				a := r.joins(2, r.m)
				go a.Cancel(nil)
				require.NoError(t, l.Release())
				if l, err := a.Wait(); err == nil {
					_, err := l.Commit(r.ctx)
					require.NoError(t, err)
					require.NoError(t, l.Release())
				} else {
					require.ErrorIs(t, err, context.Canceled)
				}
				r.queued(0)
			}
		})
	})
}

func TestA16ACancelledWaiterInTheMiddleLetsNobodyIn(t *testing.T) {
	for _, side := range sides {
		if !side.signalled() { // two readers hold the lock together, see the test above
			continue
		}
		t.Run(side.name, func(t *testing.T) {
			r := side.rig(t, nil)
			l := held(t, r.rival.Lock)
			middle := r.joins(2, r.theirs(dial(t, nil), r.path))
			last := r.waits(3)
			why := errors.New("changed my mind")
			middle.Cancel(why)
			_, err := middle.Wait()
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, why)
			r.queued(2)
			harness.Eventually(t, "new predecessor", func() bool { return r.p.CountOf("getData") == 1 && idle(r.c) })
			require.Equal(t, map[string]int{"getChildren2": 1, "getData": 1}, r.p.Count(), "it looked for its new predecessor")
			require.True(t, last.Waiting())
			require.NoError(t, l.Release())
			require.NoError(t, last.Get().Release())
		})
	}
}

func TestB33CleanUpWaitsForTheConnection(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		l := held(t, r.rival.Lock)
		a := r.waits(2)
		r.p.Refuse(true)
		a.Cancel(nil)
		_, err := a.Wait() // at once
		require.ErrorIs(t, err, context.Canceled)
		r.queued(2)
		r.p.Refuse(false)
		r.queued(1)
		require.NoError(t, l.Release())
	})
}
