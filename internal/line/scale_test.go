package line_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Nobody wakes who cannot be granted, however many wait: ten thousand places, readers and
// watches, and a thousand lines and waiters. internal/costs counts what else a lock costs.

// longSessions are those of clients that watch no place of their own, so that each event is one
// that wakes a waiter.
var longSessions = &zkrecipes.Options{SessionTimeout: recipetest.LongSession}

// A hundred sessions wait
func TestAReleaseWakesOneWaiterAndTheHandOverTakesNoRequest(t *testing.T) {
	for _, n := range []int{1, 2, 16, 100} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				current := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(longSessions), w.Path))
				var waiters []*harness.Call[*zkrecipes.Lease]
				for range n {
					waiters = append(waiters, w.LockLater(w.Stranger(longSessions)))
				}
				watched := 0 // a waiter watches its own place from the beginning, and that fires as well
				for i, next := range waiters {
					before := w.Srv.Counts()
					require.NoError(t, current.Release())
					current = next.Get()
					synctest.Wait()
					did := w.Srv.Counts().Sub(before)
					require.Equal(t, 1, recipetest.Sum(did.Requests), "the release")
					require.Equal(t, 2+watched, recipetest.Sum(did.Events), "of the release's two operations")
					watched = 1
					if i+1 < n {
						require.True(t, waiters[i+1].Waiting())
					}
				}
				require.NoError(t, current.Release())
			}, zktest.SessionTimeouts(0, recipetest.LongSession))
		})
	}
}

// The readers ignore the writer behind them
func TestAWritersReleaseWakesTheReadersThatMayGo(t *testing.T) {
	for _, n := range []int{1, 5, 50} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				lock := func() *zkrecipes.RWLock { return zkrecipes.NewRWLock(w.Stranger(longSessions), "/rw") }
				readersWait := func(n int) (as []*harness.Call[*zkrecipes.Lease]) {
					for range n {
						as = append(as, recipetest.Later(t, lock().RLock))
						synctest.Wait()
					}
					return as
				}
				l := recipetest.Held(t, lock().Lock)
				readers := readersWait(n)
				writer := recipetest.Later(t, lock().Lock)
				synctest.Wait()
				more := readersWait(3)
				wakes := func(f func()) int {
					synctest.Wait()
					before := w.Srv.Counts().Events
					f()
					synctest.Wait()
					return w.Srv.Counts().Events["NodeDataChanged"] - before["NodeDataChanged"]
				}
				requests := w.Requests(func() {
					require.Equal(t, n, wakes(func() { require.NoError(t, l.Release()) }), "each reader, and nobody else")
				})
				require.Equal(t, 1, recipetest.Sum(requests), "no reader has sent anything")
				require.True(t, writer.Waiting())

				// The writer lists only when its predecessor leaves, the last of the readers.
				requests = w.Requests(func() {
					for _, a := range readers[:n-1] {
						require.NoError(t, a.Get().Release())
					}
				})
				require.Equal(t, n-1, recipetest.Sum(requests))
				requests = w.Requests(func() { require.NoError(t, readers[n-1].Get().Release()) })
				require.Equal(t, 1, requests["getChildren2"])
				require.Equal(t, 3+1, wakes(func() { require.NoError(t, writer.Get().Release()) }), "and the watch on its own place")
				for _, a := range more {
					require.NoError(t, a.Get().Release())
				}
			}, zktest.SessionTimeouts(0, recipetest.LongSession))
		})
	}
}

// Children that are no places do not make a lock held, however many there are.
func TestTryLockTakesALockWithManyOtherLocksBelowItsPath(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		m := zkrecipes.NewMutex(w.Client(nil), w.Path)
		for i := range 10 {
			recipetest.LockOn(t, zkrecipes.NewMutex(w.Stranger(nil), fmt.Sprint(w.Path, "/", i)))
		}
		for _, m := range []*zkrecipes.Mutex{m, zkrecipes.NewMutex(w.Stranger(nil), w.Path), m} {
			l, err := m.TryLock(t.Context())
			require.NoError(t, err)
			_, err = zkrecipes.NewMutex(w.Stranger(nil), w.Path).TryLock(t.Context())
			require.ErrorIs(t, err, zkrecipes.ErrLocked)
			require.NoError(t, l.Release())
		}
	})
}

func TestALineOfTenThousandPlacesCostsNoMoreRequests(t *testing.T) {
	const ours, places = 30, 10_000
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c, other := w.Client(nil), w.Client(nil)
		l := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
		var first, last []*harness.Call[*zkrecipes.Lease]
		wait := func(as *[]*harness.Call[*zkrecipes.Lease]) {
			for i := range ours {
				*as = append(*as, w.LockLater([]*zkrecipes.Client{c, other}[i%2]))
			}
		}
		wait(&first)
		conn := w.Bare()
		middle := w.Stand(conn, layout.KindLock, places)
		joins := w.Requests(func() { wait(&last) })
		// The first of them learns by a list who joined last, and the line tells the others.
		require.Equal(t, 1, joins["getChildren2"])
		require.LessOrEqual(t, recipetest.Sum(joins), 5*ours+3)
		require.Len(t, w.Line(), 1+2*ours+places)

		// Each release grants the next place.
		handOff := func(as []*harness.Call[*zkrecipes.Lease]) {
			for _, a := range as {
				before := w.Srv.Counts()
				require.NoError(t, l.Release())
				l = a.Get()
				require.Equal(t, 1, recipetest.Sum(w.Srv.Counts().Sub(before).Requests), "the release")
				w.Stands(l)
			}
		}
		handOff(first)

		// The ten thousand places are deleted, the last of them first. A deletion
		// wakes only the waiter right behind the deleted place. That waiter is granted
		// only when no place is ahead of it.
		requests := w.Requests(func() { require.NoError(t, conn.Delete(middle[places-1], -1)) })
		require.Equal(t, 1+3, recipetest.Sum(requests), "one waiter lists, and sets both watches on another place")
		for _, path := range middle[:10] {
			require.Equal(t, 1, recipetest.Sum(w.Requests(func() { require.NoError(t, conn.Delete(path, -1)) })), "nobody wakes")
		}
		require.NoError(t, l.Release())
		synctest.Wait()
		require.True(t, last[0].Waiting())
		conn.Close()
		l = last[0].Get()
		handOff(last[1:])
		require.NoError(t, l.Release())
		require.Empty(t, w.Line())
	})
}

// Ten thousand readers hold the lock. One more reader costs no more than beside a
// single one. A writer sleeps until the last reader has left. Only the writer wakes
// the readers behind it.
func TestALineOfTenThousandReadersCostsNoMoreRequests(t *testing.T) {
	const places, behind = 10_000, 30
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c, other := w.Client(nil), w.Client(nil)
		conn := w.Bare()
		holders := w.Stand(conn, layout.KindRead, places)
		var l *zkrecipes.Lease
		require.Equal(t, 2, recipetest.Sum(w.Requests(func() { l = recipetest.Held(t, zkrecipes.NewRWLock(c, w.Path).RLock) })))
		var writer *harness.Call[*zkrecipes.Lease]
		require.Equal(t, 5, recipetest.Sum(w.Requests(func() { writer = recipetest.Later(t, zkrecipes.NewRWLock(other, w.Path).Lock) })))
		var readers []*harness.Call[*zkrecipes.Lease]
		joins := w.Requests(func() {
			for range behind {
				readers = append(readers, recipetest.Later(t, zkrecipes.NewRWLock(c, w.Path).RLock))
				synctest.Wait()
			}
		})
		// Each watches its own place. All share one pair of watches on the writer's place.
		// The second reader asks the line who joined last, since the first found the writer
		// at the tail.
		require.Equal(t, behind, joins["getChildren2"])
		require.Equal(t, behind+2, joins["getData"])

		requests := w.Requests(func() {
			for _, path := range holders[:10] {
				require.NoError(t, conn.Delete(path, -1))
			}
		})
		require.Equal(t, 10, recipetest.Sum(requests), "no waiter wakes")
		conn.Close() // deletes the other places at once
		synctest.Wait()
		require.True(t, writer.Waiting(), "one reader is ahead")
		require.Equal(t, 2, recipetest.Sum(w.Requests(func() { require.NoError(t, l.Release()) })), "the writer lists once")
		l = writer.Get()
		require.Equal(t, 1, recipetest.Sum(w.Requests(func() { require.NoError(t, l.Release()) })), "no reader sends anything")
		for _, a := range readers {
			l := a.Get()
			w.Stands(l)
			require.NoError(t, l.Release())
		}
		require.Empty(t, w.Line())
	})
}

func TestTenThousandWatchesSurviveReconnects(t *testing.T) {
	const watches = 10_000
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		s, _ := recipetest.Core(c).Session()
		conn := w.Bare()
		var nodes []string
		for i := range watches {
			nodes = append(nodes, fmt.Sprintf("/a-node-with-a-name-of-some-length-%05d", i))
		}
		recipetest.InChunks(t, conn, nodes, func(node string) any {
			return &zk.CreateRequest{Path: node, Acl: zk.WorldACL(zk.PermAll)}
		})
		all := recipetest.WatchNodes(t, s, nodes)

		// Three times: changes made while the client is disconnected fire the watches
		// afterwards.
		for round := range 3 {
			require.True(t, w.Srv.Disconnect(recipetest.SessionID(c)))
			gone, changed := nodes[:100], nodes[100:200]
			recipetest.DeleteNodes(t, conn, gone)
			recipetest.ChangeNodes(t, conn, changed)
			require.False(t, slices.ContainsFunc(all, (*zkconn.Watch).HasFired))
			requests := w.Requests(func() { recipetest.AwaitUp(t, s) })
			require.Greater(t, requests["setWatches"], 2, "round %d", round)
			recipetest.RequireFired(t, all[:100], jute.EventDeleted)
			recipetest.RequireFired(t, all[100:200], jute.EventDataChanged)
			nodes, all = nodes[200:], all[200:]
			require.False(t, slices.ContainsFunc(all, (*zkconn.Watch).HasFired))
		}
		half := len(nodes) / 2
		before := w.Srv.Counts()
		recipetest.DeleteNodes(t, conn, nodes[:half])
		recipetest.ChangeNodes(t, conn, nodes[half:])
		recipetest.RequireFired(t, all[:half], jute.EventDeleted)
		recipetest.RequireFired(t, all[half:], jute.EventDataChanged)
		synctest.Wait()
		require.Equal(t, map[string]int{"NodeDeleted": half, "NodeDataChanged": len(nodes) - half}, w.Srv.Counts().Sub(before).Events)
		require.Empty(t, s.Inspect().Watches)
	})
}

// One client waits in a thousand lines at once and loses its connection.
func TestWaitersInAThousandLinesAreGrantedAcrossAReconnect(t *testing.T) {
	const lines = 1000
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		holder, c := w.Stranger(nil), w.Stranger(nil)
		leases, waiting := make([]*zkrecipes.Lease, lines), make([]*harness.Call[*zkrecipes.Lease], lines)
		for i := range lines {
			path := fmt.Sprintf("/locks/%04d", i)
			side := recipetest.Sides[i%len(recipetest.Sides)]
			leases[i] = recipetest.Held(t, side.Theirs(holder, path).Lock)
			waiting[i] = recipetest.Later(t, side.Ours(c, path).Lock)
		}
		synctest.Wait()
		require.True(t, w.Srv.Disconnect(recipetest.SessionID(c)))
		for i, l := range leases {
			if i == lines/2 { // half while the client is disconnected, half afterwards
				time.Sleep(time.Second)
			}
			require.NoError(t, l.Release())
		}
		for _, a := range waiting {
			require.NoError(t, a.Get().Release())
		}
	})
}
