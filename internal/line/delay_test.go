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
	opDelayRelease = "multi(setData,delete,delete)"
	opHold         = "multi(check,create)"
	opWriteHeld    = "multi(check,setData)"
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

// Events of servers before 3.9 signal nothing, and a release counts all the same.
func TestLockDelayDelaysNothingAfterARelease(t *testing.T) {
	for _, version := range []zktest.Version{zktest.ZooKeeper38, zktest.ZooKeeper39} {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				a, b := newDelayed(w), newDelayed(w)
				began := time.Now()
				for range 3 { // from the second on, both know the servers
					l := recipetest.LockOn(t, a.Mutex)
					waits := w.Waits(b.Mutex)
					require.NoError(t, l.Release())
					l = grantedAfter(t, waits, 0)
					waits = w.Waits(a.Mutex)
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
			}, zktest.Emulate(version))
		})
	}
}

func TestLockDelayGoesOnForTheNextInLine(t *testing.T) {
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
					require.NoError(t, grantedAfter(t, second, lockDelay/2).Release())
				})
			})
		}
	}
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

// A lost reply must never hide that there was no release.
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
		require.Contains(t, l.Check().Path, "-0000000001", "the next one")
		require.NoError(t, l.Release())
		for _, lock := range []func(context.Context) (*zkrecipes.Lease, error){b.Lock, b.TryLock} {
			require.NoError(t, w.Srv.SetCounter(w.Path, line.MaxNumber+1))
			l, err := lock(t.Context())
			require.NoError(t, err)
			require.NoError(t, l.Release())
		}
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

func TestReleaseWithALockDelayIsOneWhateverItMeets(t *testing.T) {
	meets := func(fault zktest.Fault) func(*recipetest.World) {
		fault.Op = opDelayRelease
		return func(w *recipetest.World) { w.Plan.Add(fault) }
	}
	for name, meet := range map[string]func(*recipetest.World){
		"the request is lost":   meets(zktest.Fault{Do: zktest.Drop}),
		"the reply is lost":     meets(zktest.Fault{Do: zktest.Drop, After: true}),
		"its signal is refused": meets(zktest.Fault{Do: zktest.Answer, Code: jute.ErrNoAuth}),
		// A used-up quota of bytes forbids servers to set data, but not to delete (ZooKeeperServer.checkQuota).
		"a quota refuses its signal": meets(zktest.Fault{Do: zktest.Answer, Code: jute.ErrQuotaExceeded}),
		"the znode was deleted":      func(w *recipetest.World) { require.NoError(w.T, w.Bare().Delete(w.Path+"/"+line.HeldName, -1)) },
	} {
		for _, waits := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", another waits: ", waits), func(t *testing.T) {
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					a, b := newDelayed(w), newDelayed(w)
					l := recipetest.LockOn(t, a.Mutex)
					next := func() *harness.Call[*zkrecipes.Lease] { return w.Waits(b.Mutex) }
					if waits {
						call := next()
						next = func() *harness.Call[*zkrecipes.Lease] { return call }
					}
					meet(w)
					began := time.Now()
					require.NoError(t, l.Release())
					require.Equal(t, name != "the znode was deleted", len(w.Plan.Fired()) == 1)
					if name == "its signal is refused" && !waits {
						require.Empty(t, w.Srv.Children(w.Path), "before anybody comes")
					}
					require.NoError(t, next().Get().Release())
					require.Less(t, time.Since(began), lockDelay)
					require.Empty(t, w.Srv.Children(w.Path))
				})
			})
		}
	}
}

// What the delay depends on is how a real server tells the time.
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

// Each waits for its own delay from when somebody has first seen that the holder has gone.
func TestLockDelaysOfDifferentLengths(t *testing.T) {
	afterADeath(t, func(t *testing.T, w *recipetest.World, a, b delayed) {
		long := zkrecipes.NewMutex(b.c, w.Path, zkrecipes.LockDelay(2*lockDelay))
		_, err := a.TryLock(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		time.Sleep(lockDelay)
		second := w.Waits(long)
		require.True(t, second.Waiting())
		require.NoError(t, grantedAfter(t, second, lockDelay).Release())
	})
}

// The znode that names the holder exists while the lock is held.
func TestLockDelayLeavesNothingAfterARelease(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		a := newDelayed(w)
		l := recipetest.LockOn(t, a.Mutex)
		data, _, err := w.Bare().Get(w.Path + "/" + line.HeldName)
		require.NoError(t, err)
		require.Equal(t, l.Check().Path, w.Path+"/"+string(data))
		require.NoError(t, l.Release())
		require.Empty(t, w.Srv.Children(w.Path))
		time.Sleep(3 * time.Hour)
		require.False(t, w.Has(w.Path), "an idle line is deleted")
	}, zktest.ContainerCheckInterval(time.Minute))
}

// A reply that is lost, and a caller that leaves before it comes, delay nothing.
func TestLockDelayIsNotCausedByAWaiter(t *testing.T) {
	recipetest.EachInBubble(t, map[string]func(t *testing.T, w *recipetest.World, a delayed){
		"lost request": func(t *testing.T, w *recipetest.World, a delayed) {
			w.Plan.Add(zktest.Fault{Do: zktest.Drop, Op: opHold})
			require.NoError(t, recipetest.LockOn(t, a.Mutex).Release())
		},
		"lost reply": func(t *testing.T, w *recipetest.World, a delayed) {
			w.Plan.Add(zktest.Fault{Do: zktest.Drop, Op: opHold, After: true})
			require.NoError(t, recipetest.LockOn(t, a.Mutex).Release())
		},
		"gives up": func(t *testing.T, w *recipetest.World, a delayed) {
			w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: opHold, For: time.Second})
			_, err := a.Lock(harness.Within(t, time.Second/2))
			require.ErrorIs(t, err, context.DeadlineExceeded)
		},
		"gives up, request carried out": func(t *testing.T, w *recipetest.World, a delayed) {
			w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: opHold, For: time.Second, After: true})
			_, err := a.TryLock(harness.Within(t, time.Second/2))
			require.ErrorIs(t, err, context.DeadlineExceeded)
		},
	}, func(t *testing.T, w *recipetest.World, meets func(t *testing.T, w *recipetest.World, a delayed)) {
		a, b := newDelayed(w), newDelayed(w)
		meets(t, w, a)
		time.Sleep(2 * time.Second)
		require.Empty(t, w.Srv.Children(w.Path))
		require.NoError(t, grantedAfter(t, w.Waits(b.Mutex), 0).Release())
	})
}

// The writes that begin and end the delay are sent again if need be, and the delay is neither
// shorter nor longer.
func TestLockDelayHoldsWithAFaultAtItsWrites(t *testing.T) {
	for _, after := range []bool{false, true} {
		for skip := range 2 {
			t.Run(fmt.Sprint("write ", skip, ", carried out: ", after), func(t *testing.T) {
				afterADeath(t, func(t *testing.T, w *recipetest.World, a, _ delayed) {
					w.Plan.Add(zktest.Fault{Do: zktest.Drop, Op: opWriteHeld, Skip: skip, After: after})
					began := time.Now()
					l := w.Waits(a.Mutex).Get()
					require.GreaterOrEqual(t, time.Since(began), lockDelay)
					require.Less(t, time.Since(began), lockDelay+2*time.Second)
					require.NoError(t, l.Release())
					require.Empty(t, w.Srv.Children(w.Path))
				})
			})
		}
	}
}

// Somebody who deletes the znode ends the delay.
func TestLockDelayEndsWithItsZnode(t *testing.T) {
	afterADeath(t, func(t *testing.T, w *recipetest.World, a, _ delayed) {
		_, err := a.TryLock(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		waits := w.Waits(a.Mutex)
		require.NoError(t, w.Bare().Delete(w.Path+"/"+line.HeldName, -1))
		require.NoError(t, grantedAfter(t, waits, 0).Release())
	})
}

// A client may read and write the znode of another one's hold if it may join the line.
func TestLockDelayAfterTheDeathOfAHolderWithOtherCredentials(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		a := newDelayed(w)
		require.NoError(t, recipetest.LockOn(t, a.Mutex).Release(), "so the line has this client's list")
		c := w.Stranger(&zkrecipes.Options{Auth: auth("app:secret")})
		b := delayed{zkrecipes.NewMutex(c, w.Path, zkrecipes.LockDelay(lockDelay)), c}
		recipetest.LockOn(t, b.Mutex)
		b.dies(w)
		require.NoError(t, grantedAfter(t, w.Waits(a.Mutex), lockDelay).Release())
	})
}

// Clients that know of no delay take turns with those that do. They neither wait nor cause one.
func TestLockDelayWithClientsThatKnowOfNone(t *testing.T) {
	afterADeath(t, func(t *testing.T, w *recipetest.World, a, _ delayed) {
		lock := zk.NewLock(w.Bare(), w.Path, zk.WorldACL(zk.PermAll))
		require.NoError(t, lock.Lock(), "go-zookeeper's, which reads the names of all children")
		other := w.Waits(zkrecipes.NewMutex(w.Stranger(nil), w.Path))
		waits := w.Waits(a.Mutex)
		require.NoError(t, lock.Unlock())
		require.NoError(t, grantedAfter(t, other, 0).Release())
		require.NoError(t, grantedAfter(t, waits, lockDelay).Release(), "that of the holder that has died")

		require.NoError(t, lock.Lock())
		waits = w.Waits(a.Mutex)
		require.NoError(t, lock.Unlock())
		require.NoError(t, grantedAfter(t, waits, 0).Release())
	})
}

func TestTheLongestLockDelayIsNoShortOne(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		forever := func(c *zkrecipes.Client) delayed {
			return delayed{zkrecipes.NewMutex(c, w.Path, zkrecipes.LockDelay(math.MaxInt64)), c}
		}
		h := forever(c)
		recipetest.LockOn(t, h.Mutex)
		next := w.Waits(forever(w.Stranger(nil)).Mutex) // it is older than the loss
		time.Sleep(time.Minute)
		h.dies(w)
		time.Sleep(24 * time.Hour)
		require.True(t, next.Waiting())
	})
}
