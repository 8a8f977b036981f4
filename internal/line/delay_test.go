package line_test

import (
	"context"
	"errors"
	"fmt"
	"math"
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

// grantedAfter requires that the call returns once d has passed, and not an instant before.
func grantedAfter(t *testing.T, a *harness.Call[*zkrecipes.Lease], d time.Duration) *zkrecipes.Lease {
	t.Helper()
	if d > 0 {
		time.Sleep(d - time.Millisecond)
		synctest.Wait()
		require.True(t, a.Waiting(), "granted too early")
		time.Sleep(2 * time.Millisecond)
	}
	synctest.Wait()
	require.False(t, a.Waiting(), "granted too late")
	return a.Get()
}

// afterADeath runs f when a holder has died, and has left a delay.
func afterADeath(t *testing.T, f func(t *testing.T, w *recipetest.World, a, b delayed), opts ...zktest.Option) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		dead, a, b := newDelayed(w), newDelayed(w), newDelayed(w)
		recipetest.LockOn(t, dead.Mutex)
		dead.dies(w)
		f(t, w, a, b)
	}, opts...)
}

func TestLockDelayFollowsADepartureWithoutRelease(t *testing.T) {
	for name, depart := range map[string]func(w *recipetest.World, m delayed, l *zkrecipes.Lease){
		"session expired": func(w *recipetest.World, m delayed, _ *zkrecipes.Lease) { m.dies(w) },
		"evicted": func(w *recipetest.World, _ delayed, l *zkrecipes.Lease) {
			require.NoError(w.T, w.Bare().Delete(l.Check().Path, -1))
			synctest.Wait()
		},
	} {
		for _, waits := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", another waits: ", waits), func(t *testing.T) {
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					a, b, c := newDelayed(w), newDelayed(w), newDelayed(w)
					l := recipetest.LockOn(t, a.Mutex)
					var first *harness.Call[*zkrecipes.Lease]
					if waits {
						first = w.Waits(b.Mutex)
						depart(w, a, l)
					} else {
						depart(w, a, l)
						time.Sleep(time.Hour) // nobody has seen it
						first = w.Waits(b.Mutex)
					}
					second := w.Waits(c.Mutex)
					l = grantedAfter(t, first, lockDelay)
					require.True(t, second.Waiting())
					require.NoError(t, l.Release())
					require.NoError(t, grantedAfter(t, second, 0).Release(), "the release delays nothing")
				})
			})
		}
	}
}

func TestLockDelayDelaysNothingAfterARelease(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		a, b := newDelayed(w), newDelayed(w)
		began := time.Now()
		for range 3 {
			l := recipetest.LockOn(t, a.Mutex)
			waits := w.Waits(b.Mutex)
			require.NoError(t, l.Release())
			require.NoError(t, grantedAfter(t, waits, 0).Release())
		}
		l, err := a.TryLock(t.Context())
		require.NoError(t, err)
		require.Zero(t, time.Since(began))
		require.NoError(t, a.c.Close(), "which releases nothing")
		require.Error(t, l.Err())
		require.NoError(t, recipetest.LockOn(t, b.Mutex).Release())
		require.Equal(t, lockDelay, time.Since(began))
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
		"the waiter is closed": func(w *recipetest.World, m delayed, a *harness.Call[*zkrecipes.Lease]) {
			require.NoError(w.T, m.c.Close())
			_, err := a.Wait()
			require.ErrorIs(w.T, err, zkrecipes.ErrClosed)
		},
	} {
		for _, behind := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", another behind it: ", behind), func(t *testing.T) {
				afterADeath(t, func(t *testing.T, w *recipetest.World, a, b delayed) {
					first := w.Waits(a.Mutex)
					var second *harness.Call[*zkrecipes.Lease]
					if behind {
						second = w.Waits(b.Mutex)
					}
					time.Sleep(lockDelay / 2)
					goes(w, a, first)
					if !behind {
						second = w.Waits(b.Mutex)
					}
					require.NoError(t, grantedAfter(t, second, lockDelay).Release())
				})
			})
		}
	}
}

func TestTryLockReturnsErrLockedUntilTheDelayIsOver(t *testing.T) {
	afterADeath(t, func(t *testing.T, w *recipetest.World, a, _ delayed) {
		again := zkrecipes.NewMutex(a.c, w.Path, zkrecipes.LockDelay(lockDelay)) // a Mutex is only a name
		for _, m := range []*zkrecipes.Mutex{a.Mutex, again} {
			_, err := m.TryLock(t.Context())
			require.ErrorIs(t, err, zkrecipes.ErrLocked)
			time.Sleep(lockDelay / 2)
		}
		time.Sleep(time.Millisecond)
		l, err := again.TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, l.Release())
	})
}

// The call goes on through all that happens in its delay.
func TestLockDelayIsWaitedForDespiteFaults(t *testing.T) {
	for name, fault := range map[string]func(w *recipetest.World, c *zkrecipes.Client){
		"the session expires": func(w *recipetest.World, c *zkrecipes.Client) { w.Srv.Expire(recipetest.SessionID(c)) },
		"disconnected":        func(w *recipetest.World, c *zkrecipes.Client) { w.Srv.Disconnect(recipetest.SessionID(c)) },
	} {
		t.Run(name, func(t *testing.T) {
			afterADeath(t, func(t *testing.T, w *recipetest.World, a, _ delayed) {
				at := time.Now()
				waits := w.Waits(a.Mutex)
				time.Sleep(lockDelay / 2)
				fault(w, a.c)
				w.Stands(waits.Get())
				want := lockDelay
				if name == "the session expires" { // it begins anew
					want += lockDelay / 2
				}
				require.InDelta(t, want, time.Since(at), float64(2*time.Second))
				require.GreaterOrEqual(t, time.Since(at), want)
			})
		})
	}
	t.Run("evicted", func(t *testing.T) {
		afterADeath(t, func(t *testing.T, w *recipetest.World, a, _ delayed) {
			waits := w.Waits(a.Mutex)
			require.NoError(t, w.Bare().Delete(w.Path+"/"+w.Line()[0].Name, -1))
			_, err := waits.Wait()
			require.ErrorIs(t, err, zkrecipes.ErrEvicted)
		})
	})
}

func TestLockDelayTellsTheTraceThatTheCallIsQueued(t *testing.T) {
	afterADeath(t, func(t *testing.T, w *recipetest.World, _, _ delayed) {
		rec := recipetest.NewRecorder()
		c := w.Stranger(&zkrecipes.Options{Trace: rec.Trace()})
		recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path, zkrecipes.LockDelay(lockDelay)))
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
					w.Waits(n1.Mutex)
					second := w.Waits(n2.Mutex)
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

// Servers look for idle containers, and so do clients.
func TestLockDelayIsNotForgottenByAnIdleLine(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		a, dead := newDelayed(w), newDelayed(w)
		require.NoError(t, recipetest.LockOn(t, a.Mutex).Release()) // it knows the line
		recipetest.LockOn(t, dead.Mutex)
		dead.dies(w)
		time.Sleep(3 * time.Hour)
		require.True(t, w.Has(w.Path))
		require.NoError(t, grantedAfter(t, w.Waits(a.Mutex), lockDelay).Release())
	}, zktest.ContainerCheckInterval(time.Minute))
}

func TestLockDelayIsNotForgottenByALineThatBeginsAnew(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		a, b := newDelayed(w), newDelayed(w)
		recipetest.LockOn(t, a.Mutex)
		require.NoError(t, w.Srv.SetCounter(w.Path, line.MaxNumber+1))
		a.dies(w)
		l := grantedAfter(t, w.Waits(b.Mutex), lockDelay)
		require.Contains(t, l.Check().Path, "-0000000000")
		require.NoError(t, l.Release())
		for _, lock := range []func(context.Context) (*zkrecipes.Lease, error){b.Lock, b.TryLock} {
			require.NoError(t, w.Srv.SetCounter(w.Path, line.MaxNumber+1))
			l, err := lock(t.Context())
			require.NoError(t, err)
			require.NoError(t, l.Release())
		}
	})
}

// Servers count creates no more then, so joins that are withdrawn would hide the departure.
func TestLockDelayIsNotForgottenWhereAllSequenceNumbersAreUsedUp(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		a, ahead, b, late := newDelayed(w), newDelayed(w), newDelayed(w), newDelayed(w)
		recipetest.LockOn(t, a.Mutex)
		w.Waits(ahead.Mutex)
		first := w.Waits(b.Mutex)
		require.NoError(t, w.Srv.SetCounter(w.Path, math.MaxInt32))
		ahead.dies(w) // so b looks at the line again
		requests := w.Requests(func() {
			w.Waits(late.Mutex) // for the line to begin anew
		})
		require.Equal(t, 1, requests["multi(delete)"], "of a place beyond the limit: %v", requests)
		a.dies(w)
		require.NoError(t, grantedAfter(t, first, lockDelay).Release())
	})
}

// TryLock has the line begin anew only if nobody can have been granted the lock since it looked.
func TestTryLockDoesNotForgetALockDelayWhereSequenceNumbersEnd(t *testing.T) {
	for name, dies := range map[string]func(w *recipetest.World, b delayed) (try *harness.Call[*zkrecipes.Lease]){
		"before it looks": func(w *recipetest.World, b delayed) *harness.Call[*zkrecipes.Lease] {
			a := newDelayed(w)
			recipetest.LockOn(w.T, a.Mutex)
			require.NoError(w.T, w.Srv.SetCounter(w.Path, line.MaxNumber+1))
			a.dies(w)
			return recipetest.Later(w.T, b.TryLock)
		},
		"before it joins": func(w *recipetest.World, b delayed) *harness.Call[*zkrecipes.Lease] {
			a := newDelayed(w)
			require.NoError(w.T, recipetest.LockOn(w.T, a.Mutex).Release())
			require.NoError(w.T, w.Srv.SetCounter(w.Path, line.MaxNumber))
			w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpJoin, For: time.Second})
			try := recipetest.Later(w.T, b.TryLock)
			synctest.Wait()
			recipetest.LockOn(w.T, a.Mutex) // with the last number
			a.dies(w)
			return try
		},
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				b := newDelayed(w)
				try := dies(w, b)
				time.Sleep(2 * time.Second)
				_, err := try.Wait()
				require.ErrorIs(t, err, zkrecipes.ErrLocked)
				_, err = b.TryLock(t.Context()) // the first one that sees the death in any case
				require.ErrorIs(t, err, zkrecipes.ErrLocked)
				time.Sleep(lockDelay)
				l, err := b.TryLock(t.Context())
				require.NoError(t, err)
				require.NoError(t, l.Release())
			})
		})
	}
}

// What a server that lags says of a line that has been deleted since is not of the new line, in
// which as many holders have died.
func TestLockDelayIsNotForgottenByAServerThatLags(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		first, second, b := newDelayed(w), newDelayed(w), newDelayed(w)
		recipetest.LockOn(t, first.Mutex)
		first.dies(w)
		require.NoError(t, grantedAfter(t, w.Waits(b.Mutex), lockDelay).Release(), "so b knows the line, which is calm")

		require.True(t, w.Srv.Disconnect(recipetest.SessionID(b.c)))
		time.Sleep(time.Second) // it has connected to the server that lags
		require.NoError(t, w.Bare().Delete(w.Path, -1))
		recipetest.LockOn(t, second.Mutex)
		second.dies(w)
		waits := w.Waits(b.Mutex)
		time.Sleep(lockDelay - time.Millisecond)
		require.True(t, waits.Waiting())
		require.NoError(t, waits.Get().Release())
	}, recipetest.Behind(3, 20))
}

func TestLockDelayTakesAReleaseOfAnotherLibraryForNone(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		a, conn := newDelayed(w), w.Bare()
		require.NoError(t, recipetest.LockOn(t, a.Mutex).Release())
		place, err := conn.Create(w.Path+"/_c_"+recipetest.CuratorUUID(1)+"-lock-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		waits := w.Waits(a.Mutex)
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
		a.dies(w)
		require.NoError(t, grantedAfter(t, w.Waits(b.Mutex), lockDelay).Release())
	})
}

func TestLockAllWithALockDelayGivesBackWhatItHas(t *testing.T) {
	afterADeath(t, func(t *testing.T, w *recipetest.World, a, _ delayed) {
		first := zkrecipes.NewMutex(a.c, "/first", zkrecipes.LockDelay(lockDelay))
		_, err := zkrecipes.LockAll(harness.Within(t, lockDelay/2), a.Mutex, first)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		synctest.Wait()
		require.Empty(t, w.Srv.Children("/first"))
		at := time.Now()
		ls := recipetest.LockAll(t, a.Mutex, first)
		require.Equal(t, lockDelay, time.Since(at), "the release of the first lock delays nothing")
		again, err := a.Lock(ls.All()[0].Reentrant(t.Context()))
		require.NoError(t, err)
		require.NoError(t, again.Release())
		require.NoError(t, ls.Release())
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

		_, err = w.Bare().Create(w.Path, []byte("mine"), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		_, err = newDelayed(w).Lock(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrPathInUse, "the line is not its own")
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
		require.NoError(t, grantedAfter(t, w.Waits(b.Mutex), lockDelay).Release())
	})
}

func TestReleaseWithALockDelayIsOneWithAFaultAtItsRequest(t *testing.T) {
	for _, after := range []bool{false, true} {
		for _, waits := range []bool{false, true} {
			t.Run(fmt.Sprint("carried out: ", after, ", another waits: ", waits), func(t *testing.T) {
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					a, b := newDelayed(w), newDelayed(w)
					l := recipetest.LockOn(t, a.Mutex)
					next := func() *harness.Call[*zkrecipes.Lease] { return w.Waits(b.Mutex) }
					if waits {
						call := next()
						next = func() *harness.Call[*zkrecipes.Lease] { return call }
					}
					w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: opDelayRelease})
					began := time.Now()
					require.NoError(t, l.Release())
					require.NoError(t, next().Get().Release())
					require.Less(t, time.Since(began), lockDelay)
				})
			})
		}
	}
}

// What the delay depends on is how a real server counts the changes of a line.
func TestRealLockDelayFollowsADeletionAndNoRelease(t *testing.T) {
	t.Parallel()
	const delay = 3 * time.Second
	raw, one, two := harness.Raw(t), recipetest.Dial(t, nil), recipetest.Dial(t, nil)
	follows := func(delay time.Duration, leave func(l *zkrecipes.Lease) error) (waited []time.Duration) {
		path := harness.NewPath(t)
		first := zkrecipes.NewMutex(one, path, zkrecipes.LockDelay(delay))
		second := zkrecipes.NewMutex(two, path, zkrecipes.LockDelay(delay))
		l := recipetest.LockOn(t, first)
		for _, next := range []func() *zkrecipes.Lease{
			recipetest.LockLater(t, second).Get,                            // a waiter
			func() *zkrecipes.Lease { return recipetest.LockOn(t, first) }, // a newcomer
		} {
			began := time.Now()
			require.NoError(t, leave(l))
			l = next()
			waited = append(waited, time.Since(began))
		}
		require.NoError(t, l.Release())
		return waited
	}
	for _, waited := range follows(delay, func(l *zkrecipes.Lease) error { return raw.Delete(l.Check().Path, -1) }) {
		require.GreaterOrEqual(t, waited, delay)
	}
	follows(time.Hour, (*zkrecipes.Lease).Release) // nobody waits for an hour here
}

// Events of servers before 3.9 signal nothing, and a release counts all the same.
func TestLockDelayDelaysNothingAfterAReleaseBefore39(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		a, b := newDelayed(w), newDelayed(w)
		for range 3 { // from the second on, both know the servers
			l := recipetest.LockOn(t, a.Mutex)
			waits := w.Waits(b.Mutex)
			require.NoError(t, l.Release())
			l = grantedAfter(t, waits, 0)
			waits = w.Waits(a.Mutex)
			require.NoError(t, l.Release())
			require.NoError(t, grantedAfter(t, waits, 0).Release())
		}
		_, err := newDelayed(w).TryLock(t.Context())
		require.NoError(t, err)
	}, zktest.Emulate(zktest.ZooKeeper38))
}
