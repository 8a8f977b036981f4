package keep_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/keep"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Faults of locks that are kept, and places that somebody deletes.

// The table of faults (recipetest.Faults) for a kept lock.
func TestKeptLockUnderEachFaultAtEachRequest(t *testing.T) {
	recipetest.Faults(t, recipetest.KeepDriver())
}

// Calls that come again and again do not prolong that.
func TestLostEventIsFoundOutByABusyProcess(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		m, other := w.Kept(w.LoseChildEvents()), zkrecipes.NewMutex(w.Client(nil), w.Path)
		w.Keep(m)
		began := time.Now()
		waiting := w.Waits(other)
		for waiting.Waiting() {
			require.LessOrEqual(t, time.Since(began), 2*recipetest.KeepFor)
			time.Sleep(recipetest.KeepFor / 10)
			if l, err := m.TryLock(t.Context()); err == nil {
				require.NoError(t, l.Release())
			}
			synctest.Wait()
		}
		require.NoError(t, waiting.Get().Release())
	})
}

// The event comes with the next connection.
func TestEventIsNotLostWithItsConnection(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		m, other := zkrecipes.NewMutex(c, w.Path, zkrecipes.KeepFor(time.Hour)), zkrecipes.NewMutex(w.Client(nil), w.Path)
		w.Keep(m)
		w.Away(c)
		waiting := w.Waits(other)
		time.Sleep(time.Second)
		require.True(t, waiting.Waiting())
		l := recipetest.LockOn(t, m) // held: the session lives, and nobody else can be first
		early := w.Waits(m)
		w.Back()
		time.Sleep(5 * time.Second)
		require.NoError(t, l.Err())
		require.True(t, waiting.Waiting())
		late := w.Waits(m)
		require.NoError(t, l.Release())
		require.NoError(t, early.Get().Release())
		l = waiting.Get()
		require.True(t, late.Waiting())
		require.NoError(t, l.Release())
		require.NoError(t, late.Get().Release())
	})
}

func TestKeptPlaceEndsAsAGrantDoes(t *testing.T) {
	recipetest.EachInBubble(t, map[string]func(w *recipetest.World, c *zkrecipes.Client){
		"evicted": func(w *recipetest.World, _ *zkrecipes.Client) {
			require.NoError(w.T, w.Bare().Delete(w.Path+"/"+w.Line()[0].Name, -1))
		},
		"session expired": func(w *recipetest.World, c *zkrecipes.Client) {
			require.True(w.T, w.Srv.Expire(recipetest.SessionID(c)))
		},
		"line deleted": func(w *recipetest.World, _ *zkrecipes.Client) {
			conn := w.Bare()
			require.NoError(w.T, conn.Delete(w.Path+"/"+w.Line()[0].Name, -1))
			synctest.Wait()
			require.NoError(w.T, conn.Delete(w.Path, -1))
		},
	}, func(t *testing.T, w *recipetest.World, end func(w *recipetest.World, c *zkrecipes.Client)) {
		r := recipetest.NewRecorder()
		c := w.Client(&zkrecipes.Options{Trace: r.Trace()})
		m := zkrecipes.NewMutex(c, w.Path, zkrecipes.KeepFor(time.Hour))
		token := w.Keep(m)
		end(w, c)
		time.Sleep(time.Second) // the client learns of it
		require.Empty(t, w.Line())
		l := recipetest.LockOn(t, m)
		require.Greater(t, l.Token(), token|0xff, "a place of its own")
		w.Stands(l)
		require.NoError(t, l.Release())
		require.Empty(t, r.Of("lost"), "nobody held")
	})
}

// The client learns late that its session has ended. What it keeps is not granted.
func TestKeptPlaceIsNotTakenOnceTheClockHasPassed(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		link := harness.NewLink(w.Srv)
		m := zkrecipes.NewMutex(w.Client(&zkrecipes.Options{Dialer: link.Dial}), w.Path, zkrecipes.KeepFor(time.Hour))
		other := zkrecipes.NewMutex(w.Client(nil), w.Path)
		w.Keep(m)
		link.Stop()
		time.Sleep(11 * time.Second)
		theirs := recipetest.LockOn(t, other)
		waiting := w.Waits(m)
		require.True(t, waiting.Waiting())
		link.Resume()
		time.Sleep(time.Second)
		require.True(t, waiting.Waiting())
		require.NoError(t, theirs.Release())
		require.NoError(t, waiting.Get().Release())
	})
}

// An idle place is watched like one that is held for long, however short the holds.
func TestHolderLearnsThatAKeptPlaceWasDeleted(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		m := zkrecipes.NewMutex(w.Client(nil), w.Path, zkrecipes.KeepFor(time.Hour))
		for range 30 {
			w.Keep(m)
			time.Sleep(100 * time.Millisecond)
		}
		l := recipetest.LockOn(t, m)
		waiting := w.Waits(m)
		require.NoError(t, w.Bare().Delete(l.Check().Path, -1))
		synctest.Wait()
		require.ErrorIs(t, l.Err(), zkrecipes.ErrLost)
		next := waiting.Get()
		require.Greater(t, next.Token(), l.Token())
		require.ErrorIs(t, l.Release(), zkrecipes.ErrLost)
		w.Stands(next)
		require.NoError(t, next.Release())
	})
}

func TestWaitingPlaceThatIsDeletedEndsTheCallsThatShareIt(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		m := w.Kept(nil)
		holder := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
		a, b := w.Waits(m), w.Waits(m)
		require.NoError(t, w.Bare().Delete(w.Path+"/"+w.Line()[1].Name, -1))
		for _, c := range []*harness.Call[*zkrecipes.Lease]{a, b} {
			recipetest.Fails(t, c, zkrecipes.ErrEvicted)
		}
		require.NoError(t, holder.Release())
		w.Keep(m)
	})
}

func TestWaitersOutliveTheSession(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		m := zkrecipes.NewMutex(c, w.Path, zkrecipes.KeepFor(recipetest.KeepFor))
		w.Keep(m)
		l := recipetest.LockOn(t, m)
		a, b := w.Waits(m), w.Waits(m)
		require.True(t, w.Srv.Expire(recipetest.SessionID(c)))
		first := a.Get()
		require.ErrorIs(t, l.Err(), zkrecipes.ErrLost)
		require.Greater(t, first.Token(), l.Token())
		require.True(t, b.Waiting())
		require.NoError(t, first.Release())
		require.NoError(t, b.Get().Release())
	})
}

// What is held, and what waits, is in the table of faults.
func TestCloseLeavesNothingOfAnIdleKeptLock(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		m := zkrecipes.NewMutex(c, w.Path, zkrecipes.KeepFor(time.Hour))
		w.Keep(m)
		require.NoError(t, c.Close())
		require.Empty(t, w.Line())
		_, err := m.Lock(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		_, err = m.TryLock(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
	})
}

// A Commit that waits for a connection is not sent once its lease is released, although
// the place still stands.
func TestCommitOfAReleasedLeaseIsNotSent(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		m := zkrecipes.NewMutex(c, w.Path, zkrecipes.KeepFor(time.Hour))
		w.Keep(m)
		l := recipetest.LockOn(t, m)
		_, err := l.Commit(t.Context(), zkrecipes.OpCreate("/data", nil, 0, nil))
		require.NoError(t, err)
		w.Away(c)
		late := harness.GoErr(t, func(ctx context.Context) error {
			_, err := l.Commit(ctx, zkrecipes.OpSet("/data", []byte("late"), -1))
			return err
		})
		synctest.Wait()
		require.NoError(t, l.Release())
		next := recipetest.LockOn(t, m)
		require.True(t, late.Waiting())
		w.Back()
		recipetest.Fails(t, late, zkrecipes.ErrReleased)
		_, stat, err := next.Get(t.Context(), "/data")
		require.NoError(t, err)
		require.Zero(t, stat.Version)
		require.NoError(t, next.Err(), "it is still held")
		require.NoError(t, next.Release())
	})
}

// A caller whose number is beyond the limit stands in no line while it waits.
func TestALockIsNotKeptBesideACallerThatStepsAside(t *testing.T) {
	const d = 5 * time.Second
	recipetest.EachInBubble(t, map[string]bool{"before the first release": true, "while it is kept": false}, func(t *testing.T, w *recipetest.World, early bool) {
		m, other := zkrecipes.NewMutex(w.Client(nil), w.Path, zkrecipes.KeepFor(d)), zkrecipes.NewMutex(w.Client(nil), w.Path)
		l := recipetest.LockOn(t, m)
		if !early {
			require.NoError(t, l.Release())
			l = recipetest.LockOn(t, m)
		}
		require.NoError(t, w.Srv.SetCounter(w.Path, line.MaxNumber+1))
		waiting := w.Waits(other)
		require.True(t, waiting.Waiting())
		require.Len(t, w.Line(), 1, "the caller is aside")
		begin := time.Now()
		for i := 0; waiting.Waiting() && i < 300; i++ { // always in use
			next := w.Waits(m)
			time.Sleep(time.Second)
			require.NoError(t, l.Release())
			synctest.Wait()
			if !next.Waiting() {
				l = next.Get()
				continue
			}
			theirs := waiting.Get()
			require.NoError(t, theirs.Release())
			l = next.Get()
			break
		}
		require.False(t, waiting.Waiting())
		require.LessOrEqual(t, time.Since(begin), 2*d+2*time.Second)
		require.NoError(t, l.Release())
	})
}

// Nobody has the lock that is kept when the caller steps aside, or ever again.
func TestAnIdleLockIsLeftForACallerThatStepsAside(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		m, other := zkrecipes.NewMutex(w.Client(nil), w.Path, zkrecipes.KeepFor(time.Hour)), zkrecipes.NewMutex(w.Client(nil), w.Path)
		l := recipetest.LockOn(t, m)
		require.NoError(t, w.Srv.SetCounter(w.Path, line.MaxNumber+1))
		waiting := w.Waits(other)
		require.NoError(t, l.Release())
		synctest.Wait()
		require.False(t, waiting.Waiting())
		require.NoError(t, waiting.Get().Release())
	})
}

// Locks below the path of a lock are no places in its line.
func TestALockIsKeptAlsoIfOtherLocksArePathsBelowIt(t *testing.T) {
	recipetest.EachInBubble(t, map[string]bool{"free": false, "after a wait": true}, func(t *testing.T, w *recipetest.World, waits bool) {
		below := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path+"/below"))
		m, other := w.Kept(nil), zkrecipes.NewMutex(w.Client(nil), w.Path)
		var l *zkrecipes.Lease
		if waits {
			theirs := recipetest.LockOn(t, other)
			call := w.Waits(m)
			require.NoError(t, theirs.Release())
			l = call.Get()
		} else {
			l = recipetest.LockOn(t, m)
		}
		require.NoError(t, l.Release())
		require.Len(t, w.Line(), 1, "kept")
		require.Empty(t, w.Requests(func() {
			for range 10 {
				require.NoError(t, recipetest.LockOn(t, m).Release())
			}
		}))
		waiting := w.Waits(other)
		require.False(t, waiting.Waiting(), "left at once")
		require.NoError(t, waiting.Get().Release())
		require.NoError(t, below.Release())
	})
}

// The wall clock jumps, so a call does not get the kept lock, and back, so the next one
// does. What ends the grant for the first must not end it for the second.
func TestAGrantOfAKeptLockIsNotEndedForACallThatDidNotGetIt(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		l := w.NewCore().MutexLine(w.Path)
		m := keep.New(l, time.Hour)
		require.NoError(t, recipetest.Grab(t, m.Acquire, layout.KindLock).Release())
		g := keep.HoldUnchecked(l.At)
		require.True(t, g.Activate())
		g.EndIdle(errs.Lost(errs.ErrSilent))
		h, err := g.AddHandle(true)
		require.NoError(t, err)
		require.NoError(t, h.Failure())
		require.NoError(t, h.Release())
		g.EndIdle(errs.Lost(errs.ErrSilent)) // again
		next := recipetest.Grab(t, m.Acquire, layout.KindLock)
		require.NoError(t, next.Failure())
		require.NoError(t, next.Release())
	})
}

// The event of the line says that something has changed. It may be the deletion of the
// own place, which is not watched yet.
func TestCallersThatCameEarlyAreNotServedOnAPlaceThatWasDeleted(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		m, other := zkrecipes.NewMutex(w.Client(nil), w.Path, zkrecipes.KeepFor(time.Hour)), zkrecipes.NewMutex(w.Client(nil), w.Path)
		bare := w.Bare()
		w.Keep(m)
		l := recipetest.LockOn(t, m)
		early := []*harness.Call[*zkrecipes.Lease]{w.Waits(m), w.Waits(m)}
		theirs := w.Waits(other)
		require.NoError(t, bare.Delete(l.Check().Path, -1))
		synctest.Wait()
		require.False(t, theirs.Waiting(), "the other session holds")
		err := l.Release()
		synctest.Wait()
		require.True(t, early[0].Waiting(), "nobody holds beside it")
		require.ErrorIs(t, err, zkrecipes.ErrLost)
		require.NoError(t, theirs.Get().Release())
		for _, e := range early {
			next := e.Get()
			w.Stands(next)
			require.NoError(t, next.Release())
		}
	})
}

// The event is for the grant that is just being released. The next one must not miss it.
func TestDeletionHeardOfDuringAReleaseIsNotForgotten(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		core := recipetest.NewCore(t, []string{w.Srv.Addr()}, w.LoseChildEvents().Dialer)
		m := keep.New(core.MutexLine(w.Path), time.Hour)
		bare := w.Bare()
		require.NoError(t, recipetest.Grab(t, m.Acquire, layout.KindLock).Release())
		time.Sleep(3 * time.Second) // it is watched
		h := recipetest.Grab(t, m.Acquire, layout.KindLock)
		early := harness.Go(t, func(ctx context.Context) (*hold.Grant, error) { return m.Acquire(ctx, layout.KindLock) })
		synctest.Wait()
		mu := keep.MutexOf(h.Grant.At)
		mu.Lock() // the release stops before it makes the next grant
		released := make(chan error, 1)
		go func() { released <- h.Release() }()
		for h.Failure() == nil {
			runtime.Gosched()
		}
		require.NoError(t, bare.Delete(h.Grant.Path(), -1))
		require.NoError(t, core.S.Sync(t.Context(), "/")) // so the event has come
		mu.Unlock()
		err := <-released
		next, failed := early.Get().AddHandle(true)
		require.NoError(t, failed)
		require.True(t, w.Has(next.Grant.Path()))
		require.ErrorIs(t, err, zkrecipes.ErrLost)
		require.NoError(t, next.Release())
	})
}

// What ends the next grant deletes the place, and so must not the release.
func TestPlaceWhoseNextGrantIsLostDuringAReleaseIsDeletedOnce(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		m := keep.New(w.NewCore().MutexLine(w.Path), time.Hour)
		require.NoError(t, recipetest.Grab(t, m.Acquire, layout.KindLock).Release())
		h := recipetest.Grab(t, m.Acquire, layout.KindLock)
		waiting := harness.Go(t, func(ctx context.Context) (*hold.Grant, error) { return m.Acquire(ctx, layout.KindLock) })
		synctest.Wait()
		keep.BeforePassOn(h.Grant.At, func(next *hold.Grant) { next.End(errs.Lost(errs.ErrSilent)) })
		requests := w.Requests(func() { require.NoError(t, h.Release()) })
		require.Zero(t, requests[recipetest.OpRelease])
		require.Equal(t, 1, requests[recipetest.OpDelete])
		next, err := waiting.Get().AddHandle(true)
		require.NoError(t, err)
		require.NotEqual(t, h.Grant.Path(), next.Grant.Path())
		require.True(t, w.Has(next.Grant.Path()))
		require.NoError(t, next.Release())
		require.Len(t, w.Line(), 1, "kept")
	})
}

// The release that asks whether the place is alone still runs then.
func TestPlaceThatIsDeletedWhileItIsPassedOnIsReplacedOnce(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		m := w.Kept(nil)
		bare := w.Bare()
		l := recipetest.LockOn(t, m)
		time.Sleep(3 * time.Second) // it is watched
		calls := []*harness.Call[*zkrecipes.Lease]{w.Waits(m), w.Waits(m)}
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, For: time.Second, Op: opAlone})
		path := l.Check().Path
		released := harness.GoErr(t, func(context.Context) error { return l.Release() })
		synctest.Wait()
		require.True(t, released.Waiting())
		require.NoError(t, bare.Delete(path, -1))
		synctest.Wait()
		_, _ = released.Wait()
		first := calls[0].Get()
		synctest.Wait()
		w.Stands(first)
		require.Len(t, w.Line(), 1)
		require.True(t, calls[1].Waiting())
		require.NoError(t, first.Release())
		require.NoError(t, calls[1].Get().Release())
	})
}

// What Shutdown leaves was released: the end of the session before that would cause a lock delay.
func TestShutdownReleasesAKeptLock(t *testing.T) {
	const lockDelay = 15 * time.Second
	for name, shutDown := range map[string]func(t *testing.T, w *recipetest.World, c *zkrecipes.Client, m *zkrecipes.Mutex){
		"that is idle": func(t *testing.T, w *recipetest.World, c *zkrecipes.Client, m *zkrecipes.Mutex) {
			w.Keep(m)
			require.NoError(t, c.Shutdown(t.Context()))
		},
		"while a release asks whether it is alone": func(t *testing.T, w *recipetest.World, c *zkrecipes.Client, m *zkrecipes.Mutex) {
			l := recipetest.LockOn(t, m)
			w.Plan.Add(zktest.Fault{Do: zktest.Delay, For: time.Second, Op: opAlone})
			released := harness.GoErr(t, func(context.Context) error { return l.Release() })
			synctest.Wait()
			require.True(t, released.Waiting())
			require.NoError(t, c.Shutdown(t.Context()))
			released.Get()
		},
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				c, other := w.Stranger(nil), w.Stranger(nil)
				shutDown(t, w, c, zkrecipes.NewMutex(c, w.Path, zkrecipes.KeepFor(time.Hour), zkrecipes.LockDelay(lockDelay)))
				began := time.Now()
				require.NoError(t, recipetest.LockOn(t, zkrecipes.NewMutex(other, w.Path, zkrecipes.LockDelay(lockDelay))).Release())
				require.Less(t, time.Since(began), lockDelay)
			})
		})
	}
}

// Its timer may just have begun to leave the place.
func TestShutdownWaitsForAPlaceThatIsJustLeft(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		core := w.NewCore()
		l := core.MutexLine(w.Path)
		require.NoError(t, recipetest.Grab(t, keep.New(l, time.Hour).Acquire, layout.KindLock).Release())
		leave := keep.BeginLeave(l.At)
		leaving := harness.GoErr(t, func(context.Context) error { keep.LeaveIdle(core.Client); return nil })
		synctest.Wait()
		require.True(t, leaving.Waiting())
		leave()
		leaving.Get()
		require.Empty(t, w.Line())
	})
}

// A signal gave the place its turn. That says nothing about what comes after the grant.
func TestLockThatASignalGaveIsKeptOverAReconnect(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		m := zkrecipes.NewMutex(c, w.Path, zkrecipes.KeepFor(time.Hour))
		theirs := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
		waiting := w.Waits(m)
		require.NoError(t, theirs.Release())
		require.NoError(t, waiting.Get().Release())
		place := w.Line()
		require.Len(t, place, 1, "kept")
		require.True(t, w.Srv.Disconnect(recipetest.SessionID(c)))
		time.Sleep(time.Second)
		w.Keep(m)
		require.Equal(t, place, w.Line())
	})
}
