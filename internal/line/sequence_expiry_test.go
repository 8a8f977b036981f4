package line_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Sessions that expire between two given requests.

// The reply that says that a place is the first arrives after the session has expired.
// Somebody else may hold the lock by then, so the reply must not grant it.
func TestB11JoinAnsweredAfterTheSessionExpiredGrantsNothing(t *testing.T) {
	for _, side := range recipetest.Sides {
		t.Run(side.Name, func(t *testing.T) {
			var c *harness.Link
			joins := 0
			standStill := zktest.OnChange(func(ch zktest.Change) {
				if ch.Created && strings.HasPrefix(ch.Path, "/line/") {
					if joins++; joins == 2 { // the first was that of w.client
						c.Stop()
					}
				}
			})
			side.InBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
				c = harness.NewLink(w.Srv)
				var e recipetest.Events
				a := w.Waits(w.Client(&zkrecipes.Options{Dialer: c.Dial, Trace: e.Trace()}))
				first := w.Line()
				require.Len(t, first, 1)
				time.Sleep(11 * time.Second) // the session's timeout, and some ticks
				require.Empty(t, w.Line(), "expired")
				require.True(t, a.Waiting())

				other := w.Excludes(w.Client(nil))
				c.Resume()
				time.Sleep(time.Second)
				require.True(t, a.Waiting(), "another client holds")
				require.Equal(t, 1, e.Count("granted"), "the grant of w.client")
				require.Zero(t, e.Count("lost"))
				require.NoError(t, other.Release())
				l := a.Get()
				w.Stands(l)
				require.NotEqual(t, first[0].Name, l.Check().Path[len("/line/"):])
				require.NoError(t, l.Release())
			}, standStill)
		})
	}
}

// The same for the signal of a holder that releases.
func TestB11SignalReadAfterTheSessionExpiredGrantsNothing(t *testing.T) {
	for _, side := range recipetest.Sides {
		t.Run(side.Name, func(t *testing.T) {
			var c *harness.Link
			var once sync.Once
			standStill := zktest.OnChange(func(ch zktest.Change) {
				// The holder leaves. It sends a signal if it held alone.
				if !ch.Created && strings.HasPrefix(ch.Path, "/line/") {
					once.Do(func() { c.Stop() })
				}
			})
			side.InBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
				c = harness.NewLink(w.Srv)
				waits := w.Stranger(&zkrecipes.Options{Dialer: c.Dial})
				holder := w.Excludes(w.Stranger(nil))
				a := w.Waits(waits)
				behind := w.RivalWaits(w.Stranger(nil))
				require.Len(t, w.Line(), 3)

				require.NoError(t, holder.Release())
				require.Len(t, w.Line(), 2)
				synctest.Wait()
				require.True(t, a.Waiting())
				require.True(t, behind.Waiting())
				c.Lose() // the client reads the signal, but not that its session has expired
				time.Sleep(11 * time.Second)
				l := behind.Get() // the server has deleted the place ahead with its session
				w.Plan.Add(zktest.Fault{Do: zktest.Refuse, Times: 3})
				c.Resume()
				time.Sleep(time.Second)
				require.True(t, a.Waiting(), "the signal was for a place of the expired session")
				require.Len(t, w.Line(), 2, "it has joined again at the tail")
				w.Stands(l)
				require.NoError(t, l.Release())
				w.Stands(a.Get())
			}, standStill)
		})
	}
}

// The holder releases and the waiter's session expires at the same moment, in either
// order.
func TestB11ExpiryRacingAReleaseIsNeverReportedHeld(t *testing.T) {
	for _, releaseFirst := range []bool{false, true} {
		t.Run(fmt.Sprintf("release first=%v", releaseFirst), func(t *testing.T) {
			recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
				c := w.Client(nil)
				holder := w.Excludes(w.Client(nil))
				a := w.Waits(c)
				session := recipetest.SessionID(c)
				if releaseFirst {
					require.NoError(t, holder.Release())
				}
				require.True(t, w.Srv.Expire(session))
				if !releaseFirst {
					require.NoError(t, holder.Release())
				}
				l := a.Get()
				time.Sleep(time.Second)
				if err := l.Err(); err != nil { // it was granted before the expiry, and has noticed that
					require.True(t, releaseFirst)
					require.ErrorIs(t, err, zkrecipes.ErrLost)
					require.ErrorIs(t, l.Release(), zkrecipes.ErrLost)
				} else {
					w.Stands(l)
					require.NoError(t, l.Release())
				}
				require.Empty(t, w.Line())
			})
		})
	}
}

func TestB10WaiterWhoseSessionExpiresJoinsAgainAtTheTail(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		holder := w.Excludes(w.Stranger(nil))
		c := w.Stranger(nil)
		expires := w.Waits(c)
		var behind []*harness.Call[*zkrecipes.Lease]
		for range 3 {
			behind = append(behind, w.Waits(w.Stranger(nil)))
		}
		before := w.Line()
		require.True(t, w.Srv.Expire(recipetest.SessionID(c)))
		time.Sleep(3 * time.Second)
		for _, a := range append(behind, expires) {
			require.True(t, a.Waiting())
		}
		after := w.Line()
		require.Equal(t, before[2:], after[1:4], "the places behind have moved up by one")
		require.Len(t, after, 5)
		require.NotEqual(t, before[1].Name, after[4].Name)
		require.NoError(t, holder.Release())
		for _, a := range append(behind, expires) {
			l := a.Get()
			require.Equal(t, after[1].Name, l.Check().Path[len(w.Path)+1:])
			after = after[1:]
			require.NoError(t, l.Release())
		}
	})
}

func TestB20ExpiryOfTheMiddleWaiterLinksTheOneBehindToTheOneAhead(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		holder := w.Excludes(w.Stranger(nil))
		c := w.Stranger(nil)
		middle := w.RivalWaits(c)
		last := w.Waits(w.Stranger(nil))
		requests := w.Requests(func() {
			require.True(t, w.Srv.Expire(recipetest.SessionID(c)))
			middle.Cancel(nil) // so that it does not join again
		})
		require.True(t, last.Waiting())
		require.Len(t, w.Line(), 2)
		require.Equal(t, 1, requests["getChildren2"], "it lists once")
		require.Equal(t, 1, requests["getData"], "and watches the next place ahead")
		requests = w.Requests(func() { require.NoError(t, holder.Release()) })
		require.Equal(t, w.Signalled(), requests["getChildren2"] == 0, "it lists unless it gets a signal")
		w.Stands(last.Get())
	})
}

func TestB21ReleaseWhileDisconnectedTakesOneListingAfterTheReconnect(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		c := w.Client(nil)
		holder := w.Excludes(w.Client(nil))
		a := w.Waits(c)
		w.Plan.Add(zktest.Fault{Do: zktest.Refuse, Times: 3})
		require.True(t, w.Srv.Disconnect(recipetest.SessionID(c)))
		require.NoError(t, holder.Release())
		synctest.Wait()
		require.True(t, a.Waiting())
		requests := w.Requests(func() { w.Stands(a.Get()) })
		require.Equal(t, 1, requests["getChildren2"])
		require.Zero(t, recipetest.Writes(requests))
		require.Equal(t, 3, w.Plan.Fired()["refuse"])
	})
}

// After a reconnect a watch was armed again, so that its event is only a hint and the
// waiter lists even if the event is a signal.
func TestB49SignalAfterAReconnectIsOnlyAHint(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		c, other := w.Client(nil), w.Client(nil)
		holder := w.Excludes(other)
		a := w.Waits(c)
		reconnects := w.Requests(func() {
			require.True(t, w.Srv.Disconnect(recipetest.SessionID(c)))
			time.Sleep(500 * time.Millisecond)
		})
		require.Equal(t, 1, reconnects["setWatches"])
		require.Zero(t, reconnects["getChildren2"]+reconnects["getData"]+recipetest.Writes(reconnects), "the waiter sends nothing")
		requests := w.Requests(func() {
			require.NoError(t, holder.Release())
			w.Stands(a.Get())
		})
		require.Equal(t, 1, requests["getChildren2"])
	})
}
