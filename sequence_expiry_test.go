package zkrecipes

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Sessions that expire between two given requests.

// The reply that says that a place is the first arrives after the session has expired.
// Somebody else may hold the lock by then, so the reply must not grant it.
func TestB11JoinAnsweredAfterTheSessionExpiredGrantsNothing(t *testing.T) {
	for _, side := range sides {
		t.Run(side.name, func(t *testing.T) {
			var c *harness.Link
			joins := 0
			standStill := zktest.OnChange(func(ch zktest.Change) {
				if ch.Created && strings.HasPrefix(ch.Path, "/line/") {
					if joins++; joins == 2 { // the first was that of w.client
						c.Stop()
					}
				}
			})
			side.inBubble(t, func(t *testing.T, w *sideWorld) {
				c = harness.NewLink(w.srv)
				var e events
				a := w.waits(w.client(&Options{Dialer: c.Dial, Trace: e.trace()}))
				first := w.line()
				require.Len(t, first, 1)
				time.Sleep(11 * time.Second) // the session's timeout, and some ticks
				require.Empty(t, w.line(), "expired")
				require.True(t, a.Waiting())

				other := w.excludes(w.client(nil))
				c.Resume()
				time.Sleep(time.Second)
				require.True(t, a.Waiting(), "another client holds")
				require.Equal(t, 1, e.count("granted"), "the grant of w.client")
				require.Zero(t, e.count("lost"))
				require.NoError(t, other.Release())
				l := a.Get()
				w.stands(l)
				require.NotEqual(t, first[0].Name, l.Check().Path[len("/line/"):])
				require.NoError(t, l.Release())
			}, standStill)
		})
	}
}

// The same for the signal of a holder that releases.
func TestB11SignalReadAfterTheSessionExpiredGrantsNothing(t *testing.T) {
	for _, side := range sides {
		t.Run(side.name, func(t *testing.T) {
			var c *harness.Link
			var once sync.Once
			standStill := zktest.OnChange(func(ch zktest.Change) {
				// The holder leaves. It sends a signal if it held alone.
				if !ch.Created && strings.HasPrefix(ch.Path, "/line/") {
					once.Do(func() { c.Stop() })
				}
			})
			side.inBubble(t, func(t *testing.T, w *sideWorld) {
				c = harness.NewLink(w.srv)
				waits := w.stranger(&Options{Dialer: c.Dial})
				holder := w.excludes(w.stranger(nil))
				a := w.waits(waits)
				behind := w.rivalWaits(w.stranger(nil))
				require.Len(t, w.line(), 3)

				require.NoError(t, holder.Release())
				require.Len(t, w.line(), 2)
				synctest.Wait()
				require.True(t, a.Waiting())
				require.True(t, behind.Waiting())
				c.Lose() // the client reads the signal, but not that its session has expired
				time.Sleep(11 * time.Second)
				l := behind.Get() // the server has deleted the place ahead with its session
				w.plan.Add(zktest.Fault{Do: zktest.Refuse, Times: 3})
				c.Resume()
				time.Sleep(time.Second)
				require.True(t, a.Waiting(), "the signal was for a place of the expired session")
				require.Len(t, w.line(), 2, "it has joined again at the tail")
				w.stands(l)
				require.NoError(t, l.Release())
				w.stands(a.Get())
			}, standStill)
		})
	}
}

// The session expires at each request on the way to a grant.
func TestB11ExpiryAtEachRequestOfAWaitIsNeverReportedHeld(t *testing.T) {
	for _, op := range []string{opJoin, "getChildren2", "getData", opACLProbe} {
		for _, after := range []bool{false, true} {
			for _, side := range sides {
				if op == opACLProbe && !side.signalled() {
					continue // no client sends it
				}
				t.Run(fmt.Sprintf("%s after=%v %s", op, after, side.name), func(t *testing.T) {
					side.inBubble(t, func(t *testing.T, w *sideWorld) {
						var e events
						c, other := w.client(&Options{Trace: e.trace()}), w.client(nil)
						session := sessionID(c)
						holder := w.excludes(other)
						w.plan.Add(zktest.Fault{Do: zktest.Expire, After: after, Op: op})
						a := w.waits(c)
						time.Sleep(3 * time.Second)
						require.NotEqual(t, session, sessionID(c))
						require.True(t, a.Waiting())
						require.Len(t, w.line(), 2)
						require.NoError(t, holder.Release())
						l := a.Get()
						w.stands(l)
						require.Len(t, w.line(), 1)
						synctest.Wait()
						require.Equal(t, 2, e.count("granted"), "this one and the grant of w.client")
						require.Zero(t, e.count("lost"))
						require.NoError(t, l.Release())
					})
				})
			}
		}
	}
}

func TestB11ExpiryAtTheJoinOfAFreeLockIsNeverReportedHeld(t *testing.T) {
	for name, after := range map[string]bool{"before": false, "after": true} {
		t.Run(name, func(t *testing.T) {
			eachSideInBubble(t, func(t *testing.T, w *sideWorld) {
				c := w.client(nil)
				session := sessionID(c)
				w.plan.Add(zktest.Fault{Do: zktest.Expire, After: after, Op: opJoin})
				l := w.holds(c)
				require.NotEqual(t, session, sessionID(c))
				w.stands(l)
				require.Len(t, w.line(), 1)
				require.NoError(t, l.Release())
			})
		})
	}
}

// The holder releases and the waiter's session expires at the same moment, in either
// order.
func TestB11ExpiryRacingAReleaseIsNeverReportedHeld(t *testing.T) {
	for _, releaseFirst := range []bool{false, true} {
		t.Run(fmt.Sprintf("release first=%v", releaseFirst), func(t *testing.T) {
			eachSideInBubble(t, func(t *testing.T, w *sideWorld) {
				c := w.client(nil)
				holder := w.excludes(w.client(nil))
				a := w.waits(c)
				session := sessionID(c)
				if releaseFirst {
					require.NoError(t, holder.Release())
				}
				require.True(t, w.srv.Expire(session))
				if !releaseFirst {
					require.NoError(t, holder.Release())
				}
				l := a.Get()
				time.Sleep(time.Second)
				if err := l.Err(); err != nil { // it was granted before the expiry, and has noticed that
					require.True(t, releaseFirst)
					require.ErrorIs(t, err, ErrLost)
					require.ErrorIs(t, l.Release(), ErrLost)
				} else {
					w.stands(l)
					require.NoError(t, l.Release())
				}
				require.Empty(t, w.line())
			})
		})
	}
}

func TestB10WaiterWhoseSessionExpiresJoinsAgainAtTheTail(t *testing.T) {
	eachSideInBubble(t, func(t *testing.T, w *sideWorld) {
		holder := w.excludes(w.stranger(nil))
		c := w.stranger(nil)
		expires := w.waits(c)
		var behind []*harness.Call[*Lease]
		for range 3 {
			behind = append(behind, w.waits(w.stranger(nil)))
		}
		before := w.line()
		require.True(t, w.srv.Expire(sessionID(c)))
		time.Sleep(3 * time.Second)
		for _, a := range append(behind, expires) {
			require.True(t, a.Waiting())
		}
		after := w.line()
		require.Equal(t, before[2:], after[1:4], "the places behind have moved up by one")
		require.Len(t, after, 5)
		require.NotEqual(t, before[1].Name, after[4].Name)
		require.NoError(t, holder.Release())
		for _, a := range append(behind, expires) {
			l := a.Get()
			require.Equal(t, after[1].Name, l.Check().Path[len(w.path)+1:])
			after = after[1:]
			require.NoError(t, l.Release())
		}
	})
}

func TestB20ExpiryOfTheMiddleWaiterLinksTheOneBehindToTheOneAhead(t *testing.T) {
	eachSideInBubble(t, func(t *testing.T, w *sideWorld) {
		holder := w.excludes(w.stranger(nil))
		c := w.stranger(nil)
		middle := w.rivalWaits(c)
		last := w.waits(w.stranger(nil))
		requests := w.requests(func() {
			require.True(t, w.srv.Expire(sessionID(c)))
			middle.Cancel(nil) // so that it does not join again
		})
		require.True(t, last.Waiting())
		require.Len(t, w.line(), 2)
		require.Equal(t, 1, requests["getChildren2"], "it lists once")
		require.Equal(t, 1, requests["getData"], "and watches the next place ahead")
		requests = w.requests(func() { require.NoError(t, holder.Release()) })
		want := map[string]int{w.freed: 1}
		if !w.signalled() {
			want["getChildren2"] = 1
		}
		require.Equal(t, want, requests)
		w.stands(last.Get())
	})
}

func TestB21ReleaseWhileDisconnectedTakesOneListingAfterTheReconnect(t *testing.T) {
	eachSideInBubble(t, func(t *testing.T, w *sideWorld) {
		c := w.client(nil)
		holder := w.excludes(w.client(nil))
		a := w.waits(c)
		w.plan.Add(zktest.Fault{Do: zktest.Refuse, Times: 3})
		require.True(t, w.srv.Disconnect(sessionID(c)))
		require.NoError(t, holder.Release())
		synctest.Wait()
		require.True(t, a.Waiting())
		requests := w.requests(func() { w.stands(a.Get()) })
		require.Equal(t, map[string]int{"connect": 1, "auth": 1, "setWatches": 1, "getChildren2": 1}, requests)
		require.Equal(t, 3, w.plan.Fired()["refuse"])
	})
}

// After a reconnect a watch was armed again, so that its event is only a hint and the
// waiter lists even if the event is a signal.
func TestB49SignalAfterAReconnectIsOnlyAHint(t *testing.T) {
	eachSideInBubble(t, func(t *testing.T, w *sideWorld) {
		c, other := w.client(nil), w.client(nil)
		holder := w.excludes(other)
		a := w.waits(c)
		require.Equal(t, map[string]int{"connect": 1, "auth": 1, "setWatches": 1}, w.requests(func() {
			require.True(t, w.srv.Disconnect(sessionID(c)))
			time.Sleep(500 * time.Millisecond)
		}), "the waiter sends nothing")
		requests := w.requests(func() {
			require.NoError(t, holder.Release())
			w.stands(a.Get())
		})
		require.Equal(t, map[string]int{w.freed: 1, "getChildren2": 1}, requests)
	})
}
