package line_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Joins and waits whose session expires, whose replies are lost, or whose server lags. What
// each fault does at each request is in the table of faults (faults_test.go).

// The reply that says that a place is the first arrives after the session has expired.
// Somebody else may hold the lock by then, so the reply must not grant it.
func TestJoinAnsweredAfterTheSessionExpiredGrantsNothing(t *testing.T) {
	for _, side := range recipetest.Sides {
		t.Run(side.Name, func(t *testing.T) {
			var c *harness.Link
			joins := 0
			standStill := zktest.OnChange(func(ch zktest.Change) {
				if ch.Created && strings.HasPrefix(ch.Path, "/line/_c_") {
					if joins++; joins == 2 { // the first was that of w.client
						c.Stop()
					}
				}
			})
			side.InBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
				c = harness.NewLink(w.Srv)
				a := w.Waits(w.Client(&zkrecipes.Options{Dialer: c.Dial}))
				first := w.Line()
				require.Len(t, first, 1)
				time.Sleep(11 * time.Second) // the session's timeout, and some ticks
				require.Empty(t, w.Line(), "expired")

				other := w.Excludes(w.Client(nil))
				c.Resume()
				time.Sleep(time.Second)
				require.True(t, a.Waiting(), "another client holds")
				require.NoError(t, other.Release())
				l := a.Get()
				w.Stands(l)
				require.NotEqual(t, first[0].Name, l.Check().Path[len("/line/"):])
			}, standStill)
		})
	}
}

// A place is evicted, so its successor then has the same predecessor. Both waiters receive the
// predecessor's signal, but only one of them still has a place. The evicted one receives both
// events at once.
func TestAWaiterThatWasEvictedUnheardIsGrantedNothing(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		link := harness.NewLink(w.Srv)
		c, other, raw := w.Client(&zkrecipes.Options{Dialer: link.Dial}), w.Client(nil), w.Bare()
		for range 20 {
			holder := w.Excludes(other)
			evicted, behind := w.Waits(c), w.RivalWaits(w.Stranger(nil))
			link.Stop()
			require.NoError(t, raw.Delete(w.Path+"/"+w.Line()[1].Name, -1))
			require.NoError(t, holder.Release())
			link.Resume()
			_, err := evicted.Wait()
			require.ErrorIs(t, err, zkrecipes.ErrEvicted)
			require.NoError(t, behind.Get().Release())
		}
	})
}

func TestAGrantSignalledOnAnEarlierConnectionIsHandedOutAtOnce(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		core := w.NewCore()
		holder := recipetest.LockOn(t, zkrecipes.NewMutex(w.Stranger(nil), w.Path))
		p, _, err := core.MutexLine(w.Path).Join(t.Context(), core.S, layout.KindLock)
		require.NoError(t, err)
		turn := harness.GoErr(t, func(ctx context.Context) error { return p.AwaitTurn(ctx, nil) })
		synctest.Wait()
		require.NoError(t, holder.Release())
		turn.Get()
		require.True(t, p.HasTurn)
		w.Srv.Disconnect(core.S.ID())
		time.Sleep(time.Second)
		require.Empty(t, w.Requests(func() {
			g, err := p.Grant(t.Context())
			require.NoError(t, err)
			_, err = g.AddHandle(true)
			require.NoError(t, err)
		}), "no server takes the session that is behind the event")
	})
}

// eachSideLagging runs a test for each side. All but the first connections lead to a server
// that lags that many transactions behind.
func eachSideLagging(t *testing.T, first, behind int, f func(t *testing.T, w *recipetest.SideWorld)) {
	for _, side := range recipetest.Sides {
		t.Run(side.Name, func(t *testing.T) { side.InBubble(t, f, recipetest.Behind(first, behind)) })
	}
}

// The replica does not have the join, which is the last transaction.
func TestSearchForAJoinFollowsASync(t *testing.T) {
	for name, held := range map[string]bool{"alone": false, "behind another": true} {
		clients := 1
		if held {
			clients = 2
		}
		t.Run(name, func(t *testing.T) {
			eachSideLagging(t, clients, 1, func(t *testing.T, w *recipetest.SideWorld) {
				c := w.Client(nil)
				var holder *zkrecipes.Lease
				if held {
					holder = w.Excludes(w.Client(nil))
				}
				w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: recipetest.OpJoin})
				var a *harness.Call[*zkrecipes.Lease]
				requests := w.Requests(func() {
					a = w.Waits(c)
					time.Sleep(time.Second)
				})
				require.Equal(t, 1, requests["connect"])
				require.Equal(t, 1, requests[recipetest.OpJoin], "the join is found, not repeated")
				require.Equal(t, 1, requests["sync"])
				if held {
					require.True(t, a.Waiting())
					require.NoError(t, holder.Release())
				}
				l := a.Get()
				require.Len(t, w.Line(), 1)
				w.Stands(l)
				_, stat, err := l.Get(t.Context(), l.Check().Path)
				require.NoError(t, err)
				require.Equal(t, recipetest.NewToken(stat.Czxid, 0), l.Token())
			})
		})
	}
}

func TestLeaseSeesEarlierCommitsAfterAReconnectToALaggingServer(t *testing.T) {
	eachSideLagging(t, 2, 2, func(t *testing.T, w *recipetest.SideWorld) {
		if !w.Signalled() {
			return // the waiter lists, and then a lagging server refuses its connection
		}
		c, other := w.Client(nil), w.Client(nil)
		before := w.Excludes(other)
		_, err := before.Commit(t.Context(), zkrecipes.OpCreate("/data", []byte("old"), 0, nil))
		require.NoError(t, err)
		a := w.Waits(c)

		// Two transactions of which c sees nothing but a watch event.
		_, err = before.Commit(t.Context(), zkrecipes.OpSet("/data", []byte("new"), -1), zkrecipes.OpCreate("/data/new", nil, 0, nil))
		require.NoError(t, err)
		require.NoError(t, before.Release())
		l := a.Get()
		requests := w.Requests(func() {
			require.True(t, w.Srv.Disconnect(recipetest.SessionID(c)))
			time.Sleep(5500 * time.Millisecond) // the replica has caught up
		})
		require.Greater(t, requests["connect"], 1, "as long as it lags, it is behind the event, and does not take the session")
		require.Zero(t, requests["sync"])
		data, _, err := l.Get(t.Context(), "/data")
		require.NoError(t, err)
		require.Equal(t, "new", string(data))
		names, _, err := l.Children(t.Context(), "/data")
		require.NoError(t, err)
		require.Equal(t, []string{"new"}, names)
		w.Stands(l)
	})
}

func TestSearchEndsWithTheSession(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		c := w.Client(nil)
		w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: recipetest.OpJoin}, zktest.Fault{Do: zktest.Delay, Op: "sync", For: time.Second})
		a := w.Waits(c)
		time.Sleep(500 * time.Millisecond)
		w.Expire(c)
		w.Stands(a.Get()) // in the next session
		require.Len(t, w.Line(), 1)
	})
}

func TestAPlaceOfAnotherSessionIsNotAdopted(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		core, uuid := w.NewCore(), layout.NewUUID()
		w.Client(nil) // makes the line
		_, err := w.Bare().Create(w.Path+"/_c_"+uuid+"-"+string(w.Kind), nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		_, err = core.MutexLine(w.Path).FindLostJoin(core.S, line.JoinOf(uuid))
		require.ErrorIs(t, err, zkconn.ErrNotSent)
		require.Len(t, w.Line(), 1, "the place is not deleted either")
	})
}

func TestPlaceOfALostJoinWhoseCallerHasLeftIsDeleted(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "getChildren2", For: time.Second})
		w.RefuseSearch(2)
		a := w.LockLater(c)
		a.Cancel(nil)
		_, err := a.Wait()
		require.ErrorIs(t, err, context.Canceled)
		require.Len(t, w.Line(), 1)
		time.Sleep(time.Minute)
		require.Empty(t, w.Line())
	})
}

func TestSearchThatIsRefusedForLongSlowsDownAndEndsWithTheSessionOrTheClient(t *testing.T) {
	recipetest.EachInBubble(t, map[string]func(t *testing.T, w *recipetest.World, c *zkrecipes.Client){
		"it is answered":   func(t *testing.T, w *recipetest.World, c *zkrecipes.Client) { w.Plan.Stop() },
		"session expires":  func(t *testing.T, w *recipetest.World, c *zkrecipes.Client) { w.Expire(c) },
		"client is closed": func(t *testing.T, w *recipetest.World, c *zkrecipes.Client) { require.NoError(t, c.Close()) },
	}, func(t *testing.T, w *recipetest.World, end func(t *testing.T, w *recipetest.World, c *zkrecipes.Client)) {
		c := w.Client(nil)
		w.RefuseSearch(-1)
		_, err := zkrecipes.NewMutex(c, w.Path).Lock(harness.Within(t, time.Minute))
		require.ErrorIs(t, err, zkrecipes.ErrUncertain)
		_, err = zkrecipes.NewBarrier(c, "/other", 1).Wait(harness.Within(t, time.Second))
		require.NoError(t, err, "another path is not delayed")
		time.Sleep(time.Minute)
		n := w.Requests(func() { time.Sleep(time.Hour) })["getChildren2"]
		require.InDelta(t, 360, n, 2, "one in a session timeout")
		require.Len(t, w.Line(), 1)
		began := time.Now()
		end(t, w, c)
		require.Less(t, time.Since(began), 10*time.Second)
		time.Sleep(11 * time.Second)
		require.Empty(t, w.Line())
		require.Zero(t, w.Requests(func() { time.Sleep(time.Hour) })["getChildren2"])
	})
}

// A place that is left may count as a member. So the next call of the same Client waits until
// it is deleted.
func TestNextCallOfABarrierIsNotCountedWithAPlaceThatIsLeft(t *testing.T) {
	type row struct {
		line string
		skip int // requests like the join
		wait func(context.Context, *zkrecipes.Client) error
	}
	recipetest.EachInBubble(t, map[string]row{
		"Barrier": {"/line/round", 1, func(ctx context.Context, c *zkrecipes.Client) error {
			return only(zkrecipes.NewBarrier(c, "/line", 2).Wait)(ctx)
		}},
		"DoubleBarrier": {"/line", 0, func(ctx context.Context, c *zkrecipes.Client) error {
			return only(zkrecipes.NewDoubleBarrier(c, "/line", 2).Enter)(ctx)
		}},
	}, func(t *testing.T, w *recipetest.World, b row) {
		c, other := w.Stranger(nil), w.Stranger(nil)
		w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: "multi", Path: b.line + "/_c_*", Skip: b.skip},
			zktest.Fault{Do: zktest.Answer, Code: jute.ErrNoAuth, Op: "getChildren2", Path: b.line, Times: -1})
		err := b.wait(t.Context(), c)
		require.ErrorIs(t, err, zkrecipes.ErrUncertain)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		err = b.wait(harness.Within(t, time.Minute), c)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, zkrecipes.ErrUncertain, "it has written nothing")

		w.Plan.Stop()
		a := harness.GoErr(t, func(ctx context.Context) error { return b.wait(ctx, c) })
		time.Sleep(time.Minute)
		require.True(t, a.Waiting(), "it is alone")
		require.NoError(t, b.wait(t.Context(), other))
		a.Get()
	})
}
