package zkrecipes

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/keep"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Faults of locks that are kept.

// loseChildEvents returns Options whose connections lose the events of children.
func (w *world) loseChildEvents() *Options {
	return &Options{Dialer: harness.EditReplies(w.srv.DialContext, func(op string, record []byte) []byte {
		if op != "event" || jute.NewDecoder(record).Int32() != jute.EventChildrenChanged {
			return record
		}
		elsewhere := jute.AppendInt32(jute.AppendInt32(nil, jute.EventChildrenChanged), 3)
		return jute.AppendString(elsewhere, "/elsewhere")
	})}
}

func TestLostEventHoldsUpAnotherSessionForD(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		m, other := w.kept(w.loseChildEvents()), NewMutex(w.client(nil), w.path)
		w.keep(m)
		began := time.Now()
		l := lockOn(t, other)
		require.Equal(t, keepFor, time.Since(began))
		require.NoError(t, l.Release())
	})
}

// Calls that come again and again do not prolong that.
func TestLostEventIsFoundOutByABusyProcess(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		m, other := w.kept(w.loseChildEvents()), NewMutex(w.client(nil), w.path)
		w.keep(m)
		began := time.Now()
		waiting := w.waits(other)
		for waiting.Waiting() {
			require.LessOrEqual(t, time.Since(began), 2*keepFor)
			time.Sleep(keepFor / 10)
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
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		m, other := NewMutex(c, w.path, KeepFor(time.Hour)), NewMutex(w.client(nil), w.path)
		w.keep(m)
		w.away(c)
		waiting := w.waits(other)
		time.Sleep(time.Second)
		require.True(t, waiting.Waiting())
		l := lockOn(t, m) // held: the session lives, and nobody else can be first
		early := w.waits(m)
		w.back()
		time.Sleep(5 * time.Second)
		require.NoError(t, l.Err())
		require.True(t, waiting.Waiting())
		late := w.waits(m)
		require.NoError(t, l.Release())
		require.NoError(t, early.Get().Release())
		l = waiting.Get()
		require.True(t, late.Waiting())
		require.NoError(t, l.Release())
		require.NoError(t, late.Get().Release())
	})
}

func TestKeptPlaceEndsAsAGrantDoes(t *testing.T) {
	for name, end := range map[string]func(w *world, c *Client){
		"evicted": func(w *world, _ *Client) {
			require.NoError(w.t, w.bare().Delete(w.path+"/"+w.line()[0].Name, -1))
		},
		"session expired": func(w *world, c *Client) {
			require.True(w.t, w.srv.Expire(sessionID(c)))
		},
		"line deleted": func(w *world, _ *Client) {
			conn := w.bare()
			require.NoError(w.t, conn.Delete(w.path+"/"+w.line()[0].Name, -1))
			synctest.Wait()
			require.NoError(w.t, conn.Delete(w.path, -1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				r := newRecorder()
				c := w.client(&Options{Trace: r.trace()})
				m := NewMutex(c, w.path, KeepFor(time.Hour))
				token := w.keep(m)
				end(w, c)
				time.Sleep(time.Second) // the client learns of it
				require.Empty(t, w.line())
				l := lockOn(t, m)
				require.Greater(t, l.Token(), token+line.LastGrant, "a place of its own")
				w.stands(l)
				require.NoError(t, l.Release())
				require.Empty(t, r.of("lost"), "nobody held")
			})
		})
	}
}

// The client learns late that its session has ended. What it keeps is not granted.
func TestKeptPlaceIsNotTakenOnceTheClockHasPassed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		link := harness.NewLink(w.srv)
		m := NewMutex(w.client(&Options{Dialer: link.Dial}), w.path, KeepFor(time.Hour))
		other := NewMutex(w.client(nil), w.path)
		w.keep(m)
		link.Stop()
		time.Sleep(11 * time.Second)
		theirs := lockOn(t, other)
		waiting := w.waits(m)
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
	inBubble(t, func(t *testing.T, w *world) {
		m := NewMutex(w.client(nil), w.path, KeepFor(time.Hour))
		for range 30 {
			w.keep(m)
			time.Sleep(100 * time.Millisecond)
		}
		l := lockOn(t, m)
		waiting := w.waits(m)
		require.NoError(t, w.bare().Delete(l.Check().Path, -1))
		synctest.Wait()
		require.ErrorIs(t, l.Err(), ErrLost)
		next := waiting.Get()
		require.Greater(t, next.Token(), l.Token())
		require.ErrorIs(t, l.Release(), ErrLost)
		w.stands(next)
		require.NoError(t, next.Release())
	})
}

func TestWaitingPlaceThatIsDeletedEndsTheCallsThatShareIt(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		m := w.kept(nil)
		holder := lockOn(t, NewMutex(w.client(nil), w.path))
		a, b := w.waits(m), w.waits(m)
		require.NoError(t, w.bare().Delete(w.path+"/"+w.line()[1].Name, -1))
		for _, c := range []*harness.Call[*Lease]{a, b} {
			_, err := c.Wait()
			require.ErrorIs(t, err, ErrEvicted)
		}
		require.NoError(t, holder.Release())
		w.keep(m)
	})
}

func TestWaitersOutliveTheSession(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		m := NewMutex(c, w.path, KeepFor(keepFor))
		w.keep(m)
		l := lockOn(t, m)
		a, b := w.waits(m), w.waits(m)
		require.True(t, w.srv.Expire(sessionID(c)))
		first := a.Get()
		require.ErrorIs(t, l.Err(), ErrLost)
		require.Greater(t, first.Token(), l.Token())
		require.True(t, b.Waiting())
		require.NoError(t, first.Release())
		require.NoError(t, b.Get().Release())
	})
}

func TestCloseLeavesNothingOfAKeptLock(t *testing.T) {
	for _, state := range []string{"idle", "held", "waiting"} {
		t.Run(state, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				c := w.client(nil)
				m := NewMutex(c, w.path, KeepFor(time.Hour))
				w.keep(m)
				var waiting *harness.Call[*Lease]
				if state != "idle" {
					lockOn(t, m)
					if state == "waiting" {
						waiting = w.waits(m)
					}
				}
				began := time.Now()
				require.NoError(t, c.Close())
				require.Less(t, time.Since(began), time.Second)
				require.Empty(t, w.line())
				require.Empty(t, w.srv.Sessions())
				if waiting != nil {
					_, err := waiting.Wait()
					require.ErrorIs(t, err, ErrClosed)
				}
				_, err := m.Lock(t.Context())
				require.ErrorIs(t, err, ErrClosed)
				_, err = m.TryLock(t.Context())
				require.ErrorIs(t, err, ErrClosed)
				synctest.Wait()
				require.Empty(t, keep.KeptBy(c.client).Locks)
			})
		})
	}
}

// A Commit that waits for a connection is not sent once its lease is released, although
// the place still stands.
func TestCommitOfAReleasedLeaseIsNotSent(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		m := NewMutex(c, w.path, KeepFor(time.Hour))
		w.keep(m)
		l := lockOn(t, m)
		_, err := l.Commit(t.Context(), OpCreate("/data", nil, 0, nil))
		require.NoError(t, err)
		w.away(c)
		late := harness.GoErr(t, func(ctx context.Context) error {
			_, err := l.Commit(ctx, OpSet("/data", []byte("late"), -1))
			return err
		})
		synctest.Wait()
		require.NoError(t, l.Release())
		next := lockOn(t, m)
		require.True(t, late.Waiting())
		w.back()
		_, err = late.Wait()
		require.ErrorIs(t, err, ErrReleased)
		_, stat, err := next.Get(t.Context(), "/data")
		require.NoError(t, err)
		require.Zero(t, stat.Version)
		require.NoError(t, next.Err(), "it is still held")
		require.NoError(t, next.Release())
	})
}

// A Commit whose reply is lost is not sent again once its lease is released.
func TestCommitWhoseReplyIsLostIsNotSentAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		m := NewMutex(c, w.path, KeepFor(time.Hour))
		w.keep(m)
		l := lockOn(t, m)
		_, err := l.Commit(t.Context(), OpCreate("/data", nil, 0, nil))
		require.NoError(t, err)
		for _, after := range []bool{false, true} {
			w.plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: "multi"})
			_, err = l.Commit(t.Context(), OpSet("/data", nil, -1))
			require.ErrorIs(t, err, ErrUncertain)
		}
		require.NoError(t, l.Release())
		next := lockOn(t, m)
		time.Sleep(time.Second)
		_, stat, err := next.Get(t.Context(), "/data")
		require.NoError(t, err)
		require.EqualValues(t, 1, stat.Version)
		require.NoError(t, next.Release())
	})
}

// A release that cannot ask whether the place is alone leaves it.
func TestReleaseLeavesThePlaceIfItCannotAsk(t *testing.T) {
	t.Run("disconnected", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *world) {
			c := w.client(nil)
			m := NewMutex(c, w.path, KeepFor(time.Hour))
			l := lockOn(t, m)
			w.away(c)
			require.NoError(t, l.Release())
			w.back()
			time.Sleep(5 * time.Second)
			require.Empty(t, w.line())
		})
	})
	t.Run("connection lost", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *world) {
			m := w.kept(nil)
			l := lockOn(t, m)
			w.plan.Add(zktest.Fault{Do: zktest.Drop, Op: opAlone})
			require.NoError(t, l.Release())
			time.Sleep(time.Second)
			require.Empty(t, w.line())
			w.keep(m)
		})
	})
	t.Run("no answer", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *world) {
			m := w.kept(nil)
			l := lockOn(t, m)
			w.plan.Add(zktest.Fault{Do: zktest.Withhold, Op: opAlone})
			require.NoError(t, l.Release())
			time.Sleep(time.Minute)
			require.Empty(t, w.line())
			w.keep(m)
		})
	})
}

// A caller whose number is beyond the limit stands in no line while it waits.
func TestB92ALockIsNotKeptBesideACallerThatStepsAside(t *testing.T) {
	const d = 5 * time.Second
	for name, early := range map[string]bool{"before the first release": true, "while it is kept": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				m, other := NewMutex(w.client(nil), w.path, KeepFor(d)), NewMutex(w.client(nil), w.path)
				l := lockOn(t, m)
				if !early {
					require.NoError(t, l.Release())
					l = lockOn(t, m)
				}
				require.NoError(t, w.srv.SetCounter(w.path, line.MaxNumber+1))
				waiting := w.waits(other)
				require.True(t, waiting.Waiting())
				require.Len(t, w.line(), 1, "the caller is aside")
				begin := time.Now()
				for i := 0; waiting.Waiting() && i < 300; i++ { // always in use
					next := w.waits(m)
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
		})
	}
}

// Nobody has the lock that is kept when the caller steps aside, or ever again.
func TestB92AnIdleLockIsLeftForACallerThatStepsAside(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		m, other := NewMutex(w.client(nil), w.path, KeepFor(time.Hour)), NewMutex(w.client(nil), w.path)
		l := lockOn(t, m)
		require.NoError(t, w.srv.SetCounter(w.path, line.MaxNumber+1))
		waiting := w.waits(other)
		require.NoError(t, l.Release())
		synctest.Wait()
		require.False(t, waiting.Waiting())
		require.NoError(t, waiting.Get().Release())
	})
}

// Locks below the path of a lock are no places in its line.
func TestALockIsKeptAlsoIfOtherLocksArePathsBelowIt(t *testing.T) {
	for name, waits := range map[string]bool{"free": false, "after a wait": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				below := lockOn(t, NewMutex(w.client(nil), w.path+"/below"))
				m, other := w.kept(nil), NewMutex(w.client(nil), w.path)
				var l *Lease
				if waits {
					theirs := lockOn(t, other)
					call := w.waits(m)
					require.NoError(t, theirs.Release())
					l = call.Get()
				} else {
					l = lockOn(t, m)
				}
				require.NoError(t, l.Release())
				require.Len(t, w.line(), 1, "kept")
				require.Empty(t, w.requests(func() {
					for range 10 {
						require.NoError(t, lockOn(t, m).Release())
					}
				}))
				waiting := w.waits(other)
				require.False(t, waiting.Waiting(), "left at once")
				require.NoError(t, waiting.Get().Release())
				require.NoError(t, below.Release())
			})
		})
	}
}

// The wall clock jumps, so a call does not get the kept lock, and back, so the next one
// does. What ends the grant for the first must not end it for the second.
func TestAGrantOfAKeptLockIsNotEndedForACallThatDidNotGetIt(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		m := NewMutex(w.client(nil), w.path, KeepFor(time.Hour))
		w.keep(m)
		k, err := m.keep.Locked(t.Context())
		require.NoError(t, err)
		g := k.Current
		require.True(t, g.Begun())
		k.Idle = false
		k.Unlock()
		g.EndIdle(line.Lost(line.ErrSilent))
		l, err := g.Enter(line.KindLock)
		require.NoError(t, err)
		require.NoError(t, newLease(l).Err())
		require.NoError(t, newLease(l).Release())
		g.EndIdle(line.Lost(line.ErrSilent)) // again
		next := lockOn(t, m)
		require.NoError(t, next.Err())
		require.NoError(t, next.Release())
	})
}
