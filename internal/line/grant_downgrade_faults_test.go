package line_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/placename"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Faults during a Downgrade.

func TestB08DowngradeStartedWhileDisconnectedContinuesInTheBackground(t *testing.T) {
	r := recipetest.NewRWRig(t, nil)
	s, _ := recipetest.Core(r.C).Session()
	cut := func() {
		r.P.Refuse(true)
		harness.Eventually(t, "down", func() bool { up, _ := s.Connected(); return !up })
	}
	underWay := func(l *zkrecipes.Lease) {
		t.Helper()
		harness.Eventually(t, "under way", func() bool { return !recipetest.HandleOf(l).Grant.HoldsAlone() })
	}
	t.Run("completes after its caller has left", func(t *testing.T) {
		l := recipetest.Held(t, r.W.Lock)
		cut()
		ctx, cancel := context.WithCancel(r.Ctx)
		done := r.Downgrades(ctx, l)
		underWay(l)
		cancel()
		require.ErrorIs(t, harness.Receive(t, done), context.Canceled)
		require.NoError(t, l.Err())
		_, err := r.W.Lock(l.Reentrant(r.Ctx))
		require.ErrorIs(t, err, zkrecipes.ErrUpgrade, "it is becoming a reader")
		read, err := r.W.RLock(l.Reentrant(r.Ctx))
		require.NoError(t, err)
		require.NoError(t, read.Release())
		r.P.Refuse(false)
		require.NoError(t, r.W.Downgrade(r.Ctx, l), "it waits for the first Downgrade")
		r.Reads(l)
		require.NoError(t, l.Release())
		r.Queued(0)
	})
	t.Run("does not hold up Release", func(t *testing.T) {
		l := recipetest.Held(t, r.W.Lock)
		cut()
		done := r.Downgrades(r.Ctx, l)
		underWay(l)
		require.NoError(t, l.Release())
		require.ErrorIs(t, l.Err(), zkrecipes.ErrReleased)
		r.Queued(1)
		r.P.Refuse(false)
		require.ErrorIs(t, harness.Receive(t, done), zkrecipes.ErrReleased)
		r.Queued(0)
		r.Holds(0)
		require.NoError(t, r.W.Do(r.Ctx, recipetest.Nothing))
	})
}

func TestB22LeaseIsLostWhenAnOperatorDeletesThePlaceOfADowngrade(t *testing.T) {
	t.Parallel()
	r := recipetest.NewRWRig(t, nil)
	lostNow := func(l *zkrecipes.Lease) {
		t.Helper()
		require.ErrorIs(t, l.Err(), zkrecipes.ErrLost)
		require.ErrorIs(t, l.Release(), zkrecipes.ErrLost)
		r.Queued(0)
		r.Holds(0)
	}
	t.Run("before", func(t *testing.T) {
		l := recipetest.Held(t, r.W.Lock)
		require.NoError(t, r.Raw.Delete(l.Check().Path, -1))
		require.ErrorIs(t, r.W.Downgrade(r.Ctx, l), zkrecipes.ErrLost)
		lostNow(l)
	})
	t.Run("between the attempts", func(t *testing.T) {
		l := recipetest.Held(t, r.W.Lock)
		r.P.On(recipetest.OpDowngrade, 1, harness.DropAfter)
		again := r.P.On(recipetest.OpDowngrade, 1, harness.Hold)
		done := r.Downgrades(r.Ctx, l)
		r.P.Await(again)
		require.NoError(t, r.Raw.Delete(r.Path+"/"+r.InLine()[0].Name, -1))
		again.Release()
		require.ErrorIs(t, harness.Receive(t, done), zkrecipes.ErrLost)
		lostNow(l)
		r.P.Off(again)
	})
	t.Run("after", func(t *testing.T) {
		l := recipetest.Held(t, r.W.Lock)
		require.NoError(t, r.W.Downgrade(r.Ctx, l))
		require.NoError(t, r.Raw.Delete(l.Check().Path, -1))
		_, err := l.Commit(r.Ctx)
		require.ErrorIs(t, err, zkrecipes.ErrLost)
		lostNow(l)
	})
	t.Run("after, and its own watch fires", func(t *testing.T) {
		ahead := r.ByHand("_c_" + recipetest.CuratorUUID(1) + "-__WRIT__")
		a := r.Joins(2, r.W.Lock)
		require.NoError(t, r.Raw.Delete(ahead, -1))
		l := a.Get() // it has waited, so it watches its own place
		require.NoError(t, r.W.Downgrade(r.Ctx, l))
		require.NoError(t, r.Raw.Delete(l.Check().Path, -1))
		require.ErrorIs(t, harness.Cause(t, l.Context(r.Ctx)), zkrecipes.ErrLost) // a tenth of the timeout later
		lostNow(l)
	})
	t.Run("after, and the watch of a waiter in the same session fires", func(t *testing.T) {
		l := recipetest.Held(t, r.W.Lock)
		waiter := r.Joins(2, r.W.Lock)
		require.NoError(t, r.W.Downgrade(r.Ctx, l))
		harness.Eventually(t, "watched", func() bool {
			return len(recipetest.Watched(r.C)) == 2 && recipetest.Idle(r.C) && strings.Contains(strings.Join(recipetest.Watched(r.C), " "), "__READ__")
		})
		require.NoError(t, r.Raw.Delete(l.Check().Path, -1))
		require.ErrorIs(t, harness.Cause(t, l.Context(r.Ctx)), zkrecipes.ErrLost)
		require.NoError(t, waiter.Get().Release())
		lostNow(l)
	})
}

func TestB32LeaseIsHeldAfterItsDowngradeIsCancelled(t *testing.T) {
	r := recipetest.NewRWRig(t, nil)
	t.Run("before it is sent", func(t *testing.T) {
		l := recipetest.Held(t, r.W.Lock)
		r.P.Reset()
		ctx, cancel := context.WithCancel(r.Ctx)
		cancel()
		require.ErrorIs(t, r.W.Downgrade(ctx, l), context.Canceled)
		require.Empty(t, r.P.Count())
		require.True(t, recipetest.HandleOf(l).Grant.HoldsAlone())
		require.NoError(t, l.Release())
	})
	for name, at := range map[string]harness.Action{"before it is applied": harness.Hold, "before the reply": harness.HoldReply} {
		t.Run(name, func(t *testing.T) {
			l := recipetest.Held(t, r.W.Lock)
			rule := r.P.On(recipetest.OpDowngrade, 1, at)
			defer r.P.Off(rule)
			ctx, cancel := context.WithCancelCause(r.Ctx)
			done := r.Downgrades(ctx, l)
			r.P.Await(rule)
			why := errors.New("enough")
			cancel(why)
			err := harness.Receive(t, done)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, why)
			require.NoError(t, l.Err(), "the lease is held either way")
			second := r.Downgrades(r.Ctx, l)
			rule.Release()
			require.NoError(t, harness.Receive(t, second))
			r.Reads(l)
			require.NoError(t, l.Release())
			r.Queued(0)
		})
	}
}

// The commit was not sent, so its error must not say that it may have been applied.
func TestB32CommitCancelledDuringADowngradeIsNotSent(t *testing.T) {
	r := recipetest.NewRWRig(t, nil)
	l := recipetest.Held(t, r.W.Lock)
	data := r.Path + "-data"
	end, err := recipetest.HandleOf(l).Grant.BeginDowngrade()
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(r.Ctx, 50*time.Millisecond)
	defer cancel()
	committed := make(chan error, 1)
	go func() {
		_, err := l.Commit(ctx, zkrecipes.OpCreate(data, nil, 0, nil))
		committed <- err
	}()
	early := false
	select {
	case err = <-committed:
		early = true
	case <-time.After(2 * time.Second):
	}
	end()
	if !early {
		err = harness.Receive(t, committed)
	}
	require.Error(t, err, "the commit was not sent")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.True(t, early, "the commit waits no longer than its context")
	ok, _, err := r.Raw.Exists(data)
	require.NoError(t, err)
	require.False(t, ok)
	r.Reads(l)
	require.NoError(t, l.Release())
}

func TestB13ReleaseThatMeetsADowngradeLeavesNothing(t *testing.T) {
	r := recipetest.NewRWRig(t, nil)
	t.Run("under way", func(t *testing.T) {
		l := recipetest.Held(t, r.W.Lock)
		next := r.Joins(2, r.Another().Lock)
		rule := r.P.On(recipetest.OpDowngrade, 1, harness.Hold)
		done := r.Downgrades(r.Ctx, l)
		r.P.Await(rule)
		released := make(chan error, 2)
		for range 2 {
			go func() { released <- l.Release() }()
		}
		harness.Eventually(t, "released", func() bool { return errors.Is(l.Err(), zkrecipes.ErrReleased) })
		rule.Release()
		require.NoError(t, harness.Receive(t, released))
		require.NoError(t, harness.Receive(t, released))
		require.ErrorIs(t, harness.Receive(t, done), zkrecipes.ErrReleased)
		require.NoError(t, next.Get().Release())
		r.Queued(0)
		r.P.Off(rule)
	})
	t.Run("at any time", func(t *testing.T) {
		won := 0
		for i := range 100 {
			l := recipetest.Held(t, r.W.Lock)
			done := r.Downgrades(r.Ctx, l)
			if i%2 == 0 {
				<-time.After(time.Duration(i) * 10 * time.Microsecond) // so that some downgrades get further
			}
			require.NoError(t, l.Release())
			if err := harness.Receive(t, done); err != nil {
				require.ErrorIs(t, err, zkrecipes.ErrReleased)
			} else {
				won++
			}
			r.Queued(0)
		}
		t.Logf("%d of 100 were readers before they left", won)
	})
	r.Holds(0)
}

func TestB13ReentryThatMeetsADowngradeHoldsOrFails(t *testing.T) {
	r := recipetest.NewRWRig(t, nil)
	entered := 0
	for i := range 100 {
		l := recipetest.Held(t, r.W.Lock)
		enter := r.W.Lock
		if i%2 == 1 {
			enter = r.W.RLock
		}
		done := r.Downgrades(r.Ctx, l)
		again, err := enter(l.Reentrant(r.Ctx))
		moved := harness.Receive(t, done)
		switch {
		case err != nil:
			require.ErrorIs(t, err, zkrecipes.ErrUpgrade)
			require.NoError(t, moved)
		case i%2 == 0:
			require.ErrorContains(t, moved, "re-entries are open", "the writer's re-entry is still held")
			require.Contains(t, again.Check().Path, "__WRIT__")
			entered++
		}
		for _, l := range []*zkrecipes.Lease{l, again} {
			if l != nil {
				_, err := l.Commit(r.Ctx)
				require.NoError(t, err)
				require.NoError(t, l.Release())
			}
		}
		r.Queued(0)
	}
	t.Logf("%d writers came before", entered)
}

func TestB36DowngradeThatIsRefusedLeavesAWriter(t *testing.T) {
	r := recipetest.NewRWRig(t, nil)
	l := recipetest.Held(t, r.W.Lock)
	reader := r.Joins(2, r.Another().RLock)
	_, err := r.Raw.SetACL(r.Path, zk.WorldACL(zk.PermAll&^zk.PermCreate), -1)
	require.NoError(t, err)
	require.ErrorIs(t, r.W.Downgrade(r.Ctx, l), zk.ErrNoAuth)
	require.Contains(t, l.Check().Path, "__WRIT__")
	r.Holds(1)
	again, err := r.W.Lock(l.Reentrant(r.Ctx))
	require.NoError(t, err)
	require.NoError(t, again.Release())
	require.True(t, reader.Waiting())
	r.P.Reset()
	require.NoError(t, l.Release())
	require.Equal(t, 1, r.P.CountOf(recipetest.OpRelease), "the release sends the signal")
	require.NoError(t, reader.Get().Release())
	r.Holds(0)
}

// The reply is lost, and the line's ACL changes before the request is sent again. The
// server checks the ACL first, so it never returns NodeExists.
func TestB36DowngradeWhoseSecondAttemptIsRefusedIsResolved(t *testing.T) {
	for name, lose := range map[string]harness.Action{"applied": harness.DropAfter, "not applied": harness.DropBefore} {
		t.Run(name, func(t *testing.T) {
			r := recipetest.NewRWRig(t, nil)
			l := recipetest.Held(t, r.W.Lock)
			next := r.Joins(2, r.Another().Lock)
			r.P.On(recipetest.OpDowngrade, 1, lose)
			again := r.P.On(recipetest.OpDowngrade, 1, harness.Hold)
			r.P.On("multi(check)", 1, harness.DropAfter)
			done := r.Downgrades(r.Ctx, l)
			r.P.Await(again)
			_, err := r.Raw.SetACL(r.Path, zk.WorldACL(zk.PermAll&^zk.PermCreate), -1)
			require.NoError(t, err)
			again.Release()
			err = harness.Receive(t, done)
			<-recipetest.Core(r.C).Tasks.Done()
			places := r.InLine()
			require.Len(t, places, 2, "no third place is left")
			require.Equal(t, l.Check().Path, r.Path+"/"+places[0].Name, "the lease names its place")
			if lose == harness.DropAfter {
				require.NoError(t, err)
				r.Reads(l)
			} else {
				require.ErrorIs(t, err, zk.ErrNoAuth)
				require.Equal(t, placename.KindWrite, places[0].Kind)
				require.True(t, recipetest.HandleOf(l).Grant.HoldsAlone())
				r.Holds(1)
			}
			require.True(t, next.Waiting())
			_, err = l.Commit(r.Ctx)
			require.NoError(t, err)
			require.NoError(t, l.Release())
			require.NoError(t, next.Get().Release())
			r.Queued(0)
			r.Holds(0)
		})
	}
}

// If the client cannot learn the outcome at all, the lease is lost: a holder that went
// on as a writer might have no place in the line.
func TestB36DowngradeWhoseOutcomeStaysUnknownIsLost(t *testing.T) {
	for name, after := range map[string]bool{"applied": true, "not applied": false} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				lock := zkrecipes.NewRWLock(w.Stranger(nil), w.Path)
				l := recipetest.Held(t, lock.Lock)
				work := l.Context(t.Context())
				next := recipetest.Later(t, zkrecipes.NewRWLock(w.Stranger(nil), w.Path).Lock)
				synctest.Wait()
				w.Plan.Add(
					zktest.Fault{Do: zktest.Drop, After: after, Op: recipetest.OpDowngrade},
					zktest.Fault{Do: zktest.Answer, Code: jute.ErrNoAuth, Op: recipetest.OpDowngrade, Skip: 1},
					zktest.Fault{Do: zktest.Answer, Code: jute.ErrNoAuth, Op: "multi(check)"},
				)
				require.ErrorIs(t, lock.Downgrade(t.Context(), l), zkrecipes.ErrLost)
				require.ErrorIs(t, harness.Cause(t, work), zkrecipes.ErrLost)
				synctest.Wait()
				require.Len(t, w.Line(), 1, "only the next place is left")
				w.Stands(next.Get())
			})
		})
	}
}

// Writers, readers and downgrades while connections are lost: a writer is always
// alone, and no places or watches are left at the end.
func TestRWLockExcludesUnderDropsAndDowngrades(t *testing.T) {
	r := recipetest.NewRWRig(t, nil)
	stop := time.Now().Add(3 * time.Second)
	other := r.Another()
	var readers, writers, grants, moved atomic.Int32
	var wg sync.WaitGroup
	for i := range 12 {
		w := r.W
		if i%4 == 0 {
			w = other
		}
		wg.Go(func() {
			for time.Now().Before(stop) {
				ctx, cancel := context.WithTimeout(r.Ctx, time.Duration(20+i*17)*time.Millisecond)
				lock := w.RLock
				if i%3 == 0 {
					lock = w.Lock
				}
				l, err := lock(ctx)
				if err != nil {
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
					cancel()
					continue
				}
				grants.Add(1)
				if i%3 == 0 {
					if writers.Add(1) != 1 || readers.Load() != 0 {
						t.Error("a writer is not alone")
					}
					_, _ = l.Commit(ctx)
					readers.Add(1) // before others can
					writers.Add(-1)
					if err := w.Downgrade(ctx, l); err == nil {
						moved.Add(1)
					} else if !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
				} else {
					readers.Add(1)
				}
				if writers.Load() != 0 {
					t.Error("a reader and a writer hold the lock together")
				}
				_, _ = l.Commit(ctx)
				cancel()
				readers.Add(-1)
				if err := l.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for n := 0; time.Now().Before(stop); n++ {
		r.P.Drop()
		<-time.After(time.Duration(30+n%50) * time.Millisecond)
	}
	wg.Wait()
	t.Logf("%d grants, %d downgrades", grants.Load(), moved.Load())
	r.Queued(0)
	r.Holds(0)
	harness.Eventually(t, "watches", func() bool { return recipetest.WatchesOf(r.C) == 0 })
}
