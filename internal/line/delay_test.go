package line_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Locks with a lock delay.

const (
	lockDelay      = 15 * time.Second
	opDelayRelease = "multi(setData,delete,setData)"
)

// delayed is a Mutex with a lock delay in a session of its own.
type delayed struct {
	*zkrecipes.Mutex
	c *zkrecipes.Client
}

func newDelayed(w *recipetest.World, opts ...zkrecipes.MutexOption) delayed {
	c := w.Stranger(nil)
	return delayed{zkrecipes.NewMutex(c, w.Path, append(opts, zkrecipes.LockDelay(lockDelay))...), c}
}

// dies ends the session of a client that holds, or waits.
func (m delayed) dies(w *recipetest.World) {
	w.T.Helper()
	require.True(w.T, w.Srv.Expire(recipetest.SessionID(m.c)))
	go m.c.Close()
	synctest.Wait()
}

// later calls Lock and returns once the call sleeps, or holds the lock.
func (m delayed) later(w *recipetest.World) *harness.Call[*zkrecipes.Lease] {
	a := harness.Go(w.T, m.Lock)
	synctest.Wait()
	return a
}

// grantedAfter requires that the call returns once d has passed, and not an instant before.
func grantedAfter(t *testing.T, a *harness.Call[*zkrecipes.Lease], d time.Duration) *zkrecipes.Lease {
	t.Helper()
	time.Sleep(d - time.Millisecond)
	synctest.Wait()
	require.True(t, a.Waiting(), "granted too early")
	time.Sleep(2 * time.Millisecond)
	synctest.Wait()
	require.False(t, a.Waiting(), "granted too late")
	return a.Get()
}

func notDelayed(t *testing.T, a *harness.Call[*zkrecipes.Lease]) *zkrecipes.Lease {
	t.Helper()
	synctest.Wait()
	require.False(t, a.Waiting(), "delayed")
	return a.Get()
}

// departuresWithoutRelease are how a holder goes without a release.
var departuresWithoutRelease = map[string]func(w *recipetest.World, m delayed, l *zkrecipes.Lease){
	"session expired": func(w *recipetest.World, m delayed, _ *zkrecipes.Lease) { m.dies(w) },
	"evicted": func(w *recipetest.World, _ delayed, l *zkrecipes.Lease) {
		require.NoError(w.T, w.Insider().Delete(l.Check().Path, -1))
		synctest.Wait()
	},
}

func TestLockDelayDelaysANewcomerAfterADepartureWithoutRelease(t *testing.T) {
	for name, depart := range departuresWithoutRelease {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				a, b, c := newDelayed(w), newDelayed(w), newDelayed(w)
				depart(w, a, recipetest.LockOn(t, a.Mutex))
				time.Sleep(time.Hour) // nobody has seen it
				first := b.later(w)
				second := c.later(w)
				l := grantedAfter(t, first, lockDelay)
				require.True(t, second.Waiting())
				require.NoError(t, l.Release())
				require.NoError(t, notDelayed(t, second).Release(), "the release delays nothing")
			})
		})
	}
}

func TestLockDelayDelaysAWaiterAfterADepartureWithoutRelease(t *testing.T) {
	for name, depart := range departuresWithoutRelease {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				a, b, c := newDelayed(w), newDelayed(w), newDelayed(w)
				l := recipetest.LockOn(t, a.Mutex)
				first := b.later(w)
				depart(w, a, l)
				second := c.later(w)
				require.NoError(t, grantedAfter(t, first, lockDelay).Release())
				require.NoError(t, notDelayed(t, second).Release())
			})
		})
	}
}

func TestLockDelayDelaysNothingAfterARelease(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		a, b := newDelayed(w), newDelayed(w)
		began := time.Now()
		for range 3 {
			l := recipetest.LockOn(t, a.Mutex)
			waits := b.later(w)
			require.NoError(t, l.Release())
			require.NoError(t, notDelayed(t, waits).Release())
		}
		l, err := a.TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, a.c.Close(), "Close gives the lock up")
		require.Error(t, l.Err())
		require.NoError(t, recipetest.LockOn(t, b.Mutex).Release())
		require.Zero(t, time.Since(began))
	})
}

// A join hides from the Stat that a place has left without a release, but not from the count.
func TestLockDelayBeginsAnewWithTheNextInLine(t *testing.T) {
	for name, goes := range map[string]func(w *recipetest.World, m delayed, a *harness.Call[*zkrecipes.Lease]){
		"the waiter dies": func(w *recipetest.World, m delayed, _ *harness.Call[*zkrecipes.Lease]) { m.dies(w) },
		"the waiter gives up": func(w *recipetest.World, _ delayed, a *harness.Call[*zkrecipes.Lease]) {
			a.Cancel(errors.New("enough"))
			synctest.Wait()
		},
	} {
		for _, behind := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", another behind it: ", behind), func(t *testing.T) {
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					h, n1, n2 := newDelayed(w), newDelayed(w), newDelayed(w)
					recipetest.LockOn(t, h.Mutex)
					h.dies(w)
					first := n1.later(w)
					var second *harness.Call[*zkrecipes.Lease]
					if behind {
						second = n2.later(w)
					}
					time.Sleep(lockDelay / 2)
					goes(w, n1, first)
					if !behind {
						second = n2.later(w)
					}
					require.NoError(t, grantedAfter(t, second, lockDelay).Release())
				})
			})
		}
	}
}

func TestTryLockReturnsErrLockedUntilTheDelayIsOver(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		a, b := newDelayed(w), newDelayed(w)
		recipetest.LockOn(t, a.Mutex)
		a.dies(w)
		began := time.Now()
		_, err := b.TryLock(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		require.Zero(t, time.Since(began))
		time.Sleep(lockDelay - time.Millisecond)
		again := zkrecipes.NewMutex(b.c, w.Path, zkrecipes.LockDelay(lockDelay)) // a Mutex is only a name
		_, err = again.TryLock(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		time.Sleep(2 * time.Millisecond)
		l, err := again.TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, l.Release())
	})
}

func TestLockDelayBeginsAnewInTheNextSession(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		a, b := newDelayed(w), newDelayed(w)
		recipetest.LockOn(t, a.Mutex)
		a.dies(w)
		waits := b.later(w)
		time.Sleep(lockDelay / 2)
		w.Srv.Expire(recipetest.SessionID(b.c))
		synctest.Wait()
		at := time.Now()
		l := waits.Get()
		require.GreaterOrEqual(t, time.Since(at), lockDelay)
		w.Stands(l)
	})
}

func TestLockDelayGoesOnWhileDisconnected(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		a, b := newDelayed(w), newDelayed(w)
		recipetest.LockOn(t, a.Mutex)
		a.dies(w)
		at := time.Now()
		waits := b.later(w)
		time.Sleep(time.Second)
		w.Srv.Disconnect(recipetest.SessionID(b.c))
		w.Stands(waits.Get())
		require.GreaterOrEqual(t, time.Since(at), lockDelay)
		require.Less(t, time.Since(at), lockDelay+2*time.Second)
	})
}

func TestLockThatIsEvictedDuringTheDelayReturnsErrEvicted(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		a, b := newDelayed(w), newDelayed(w)
		recipetest.LockOn(t, a.Mutex)
		a.dies(w)
		waits := b.later(w)
		require.NoError(t, w.Insider().Delete(w.Path+"/"+w.Line()[0].Name, -1))
		_, err := waits.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrEvicted)
	})
}

func TestCloseEndsALockInItsDelay(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		a, b, c := newDelayed(w), newDelayed(w), newDelayed(w)
		recipetest.LockOn(t, a.Mutex)
		a.dies(w)
		waits := b.later(w)
		require.NoError(t, b.c.Close())
		_, err := waits.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		require.NoError(t, grantedAfter(t, c.later(w), lockDelay).Release())
	})
}

func TestLockDelayTellsTheTraceThatTheCallIsQueued(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		a := newDelayed(w)
		rec := recipetest.NewRecorder()
		b := w.Stranger(&zkrecipes.Options{Trace: rec.Trace()})
		recipetest.LockOn(t, a.Mutex)
		a.dies(w)
		l := recipetest.LockOn(t, zkrecipes.NewMutex(b, w.Path, zkrecipes.LockDelay(lockDelay)))
		require.NoError(t, l.Release())
		synctest.Wait()
		require.Len(t, rec.Of("queued"), 1)
	})
}

// A reply that is lost may hide a release, and then the next grant is delayed. It must never
// hide that there was none.
func TestLockDelayHoldsWithAFaultAtEachRequest(t *testing.T) {
	for _, after := range []bool{false, true} {
		for skip := range 12 {
			t.Run(fmt.Sprint("request ", skip, ", carried out: ", after), func(t *testing.T) {
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					h, n1, n2 := newDelayed(w), newDelayed(w), newDelayed(w)
					require.NoError(t, recipetest.LockOn(t, h.Mutex).Release())
					recipetest.LockOn(t, h.Mutex)
					w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Path: w.Path, Skip: skip})
					n1.later(w)
					second := n2.later(w)
					h.dies(w)
					at := time.Now()
					n1.dies(w)
					l := second.Get()
					require.GreaterOrEqual(t, time.Since(at), lockDelay)
					w.Stands(l)
					require.NoError(t, l.Release())
				})
			})
		}
	}
}

func TestLockDelayIsNotForgottenByAnIdleLine(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		a, b := newDelayed(w), newDelayed(w)
		require.NoError(t, recipetest.LockOn(t, b.Mutex).Release())
		recipetest.LockOn(t, a.Mutex)
		a.dies(w)
		time.Sleep(3 * time.Hour) // servers look for idle containers, and so do clients
		require.True(t, w.Has(w.Path))
		require.NoError(t, grantedAfter(t, b.later(w), lockDelay).Release())
	}, zktest.ContainerCheckInterval(time.Minute))
}

func TestLockDelayIsNotForgottenByALineThatBeginsAnew(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		a, b := newDelayed(w), newDelayed(w)
		recipetest.LockOn(t, a.Mutex)
		require.NoError(t, w.Srv.SetCounter(w.Path, line.MaxNumber+1))
		a.dies(w)
		l := grantedAfter(t, b.later(w), lockDelay)
		require.Contains(t, l.Check().Path, "-0000000000")
		require.NoError(t, l.Release())
		require.NoError(t, w.Srv.SetCounter(w.Path, line.MaxNumber+1))
		require.NoError(t, b.Do(t.Context(), recipetest.Nothing))
		require.NoError(t, w.Srv.SetCounter(w.Path, line.MaxNumber+1))
		l, err := b.TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, l.Release())
	})
}

func TestLockDelayTakesAReleaseOfAnotherLibraryForNone(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		a, b := newDelayed(w), newDelayed(w)
		require.NoError(t, recipetest.LockOn(t, a.Mutex).Release())
		conn := w.Bare()
		place, err := conn.Create(w.Path+"/_c_"+recipetest.CuratorUUID(1)+"-lock-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		waits := b.later(w)
		require.NoError(t, conn.Delete(place, -1))
		require.NoError(t, grantedAfter(t, waits, lockDelay).Release())
	})
}

func TestKeptLockWithALockDelay(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		kept := zkrecipes.KeepFor(recipetest.KeepFor)
		a, b := newDelayed(w, kept), newDelayed(w, kept)
		began := time.Now()
		w.Keep(a.Mutex)
		require.NoError(t, recipetest.LockOn(t, b.Mutex).Release())
		require.Zero(t, time.Since(began), "the idle place was left, which is a release")
		time.Sleep(time.Minute)
		w.Keep(a.Mutex)
		time.Sleep(time.Minute)
		w.Keep(a.Mutex)
		a.dies(w)
		require.NoError(t, grantedAfter(t, b.later(w), lockDelay).Release())
	})
}

func TestLockAllWithALockDelayGivesBackWhatItHas(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		a, c := newDelayed(w), w.Stranger(nil)
		first := zkrecipes.NewMutex(c, "/first", zkrecipes.LockDelay(lockDelay))
		second := zkrecipes.NewMutex(c, w.Path, zkrecipes.LockDelay(lockDelay))
		recipetest.LockOn(t, a.Mutex)
		a.dies(w)
		ctx, cancel := context.WithTimeout(t.Context(), lockDelay/2)
		defer cancel()
		_, err := zkrecipes.LockAll(ctx, second, first)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		synctest.Wait()
		require.Empty(t, w.Srv.Children("/first"))
		at := time.Now()
		ls := recipetest.LockAll(t, second, first)
		require.Equal(t, lockDelay, time.Since(at), "the release of the first lock delays nothing")
		again, err := second.Lock(ls.All()[0].Reentrant(t.Context()))
		require.NoError(t, err)
		require.NoError(t, again.Release())
		require.NoError(t, ls.Release())
	})
}

func TestLockDelayIsPathInUseWhereTheLineIsNotItsOwn(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		_, err := w.Bare().Create(w.Path, []byte("mine"), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		_, err = newDelayed(w).Lock(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrPathInUse)
	})
}

func TestInvalidLockDelayIsReportedOnFirstUse(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		for want, opts := range map[string][]zkrecipes.MutexOption{
			"zkrecipes: lock /line: LockDelay(0s): not positive":       {zkrecipes.LockDelay(0)},
			"zkrecipes: lock /line: LockDelay(-1s): not positive":      {zkrecipes.LockDelay(-time.Second)},
			"zkrecipes: lock /line: LockDelay is given more than once": {zkrecipes.LockDelay(1), zkrecipes.LockDelay(1)},
		} {
			_, err := zkrecipes.NewMutex(c, w.Path, opts...).Lock(t.Context())
			require.EqualError(t, err, want)
		}
		_, err := zkrecipes.NewElection(c, w.Path, zkrecipes.KeepFor(1)).Campaign(t.Context(), nil)
		require.EqualError(t, err, "zkrecipes: campaign /line: KeepFor is no option of an Election")
	})
}

// A release whose line cannot be written must delete the place nevertheless.
func TestReleaseWithALockDelayThatIsRefusedDeletesThePlaceAlone(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		a, b := newDelayed(w), newDelayed(w)
		l := recipetest.LockOn(t, a.Mutex)
		w.Plan.Add(zktest.Fault{Do: zktest.Answer, Code: jute.ErrNoAuth, Op: opDelayRelease})
		require.NoError(t, l.Release())
		require.Empty(t, w.Line())
		require.NoError(t, grantedAfter(t, b.later(w), lockDelay).Release())
	})
}

func TestReleaseWithALockDelayIsOneWithAFaultAtItsRequest(t *testing.T) {
	for _, after := range []bool{false, true} {
		for _, waits := range []bool{false, true} {
			t.Run(fmt.Sprint("carried out: ", after, ", another waits: ", waits), func(t *testing.T) {
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					a, b := newDelayed(w), newDelayed(w)
					l := recipetest.LockOn(t, a.Mutex)
					var next *harness.Call[*zkrecipes.Lease]
					if waits {
						next = b.later(w)
					}
					w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: opDelayRelease})
					began := time.Now()
					require.NoError(t, l.Release())
					if !waits {
						next = b.later(w)
					}
					require.NoError(t, next.Get().Release())
					require.Less(t, time.Since(began), lockDelay)
				})
			})
		}
	}
}
