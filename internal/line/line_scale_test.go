package line_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Ten thousand places, readers and watches, and a thousand lines and waiters.

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

func TestB29ALineOfTenThousandPlacesCostsNoMoreRequests(t *testing.T) {
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
		middle := w.Stand(conn, placename.KindLock, places)
		joins := w.Requests(func() { wait(&last) })
		// The first of them learns by a list who joined last, and the line tells the others.
		require.Equal(t, 1, joins["getChildren2"])
		require.LessOrEqual(t, recipetest.Sum(joins), 4*ours+2)
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
		require.Equal(t, 1+2, recipetest.Sum(requests), "one waiter lists, and watches another place")
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
func TestB29ALineOfTenThousandReadersCostsNoMoreRequests(t *testing.T) {
	const places, behind = 10_000, 30
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c, other := w.Client(nil), w.Client(nil)
		conn := w.Bare()
		holders := w.Stand(conn, placename.KindRead, places)
		var l *zkrecipes.Lease
		require.Equal(t, 2, recipetest.Sum(w.Requests(func() { l = recipetest.Held(t, zkrecipes.NewRWLock(c, w.Path).RLock) })))
		var writer *harness.Call[*zkrecipes.Lease]
		require.Equal(t, 4, recipetest.Sum(w.Requests(func() { writer = recipetest.Later(t, zkrecipes.NewRWLock(other, w.Path).Lock) })))
		var readers []*harness.Call[*zkrecipes.Lease]
		joins := w.Requests(func() {
			for range behind {
				readers = append(readers, recipetest.Later(t, zkrecipes.NewRWLock(c, w.Path).RLock))
				synctest.Wait()
			}
		})
		// Each watches its own place. All share one watch on the writer's place. The
		// setData finds out, once, whether the server enforces ACLs, so that the
		// writer's signal can be trusted. The second reader asks the line who joined
		// last, since the first found the writer at the tail.
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

func TestB31TenThousandWatchesSurviveReconnects(t *testing.T) {
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
func TestB31WaitersInAThousandLinesAreGrantedAcrossAReconnect(t *testing.T) {
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

// A thousand sessions wait. A release wakes only the next one in line, and no request
// is sent but the release itself.
func TestB30EachReleaseWakesOneOfAThousandWaiters(t *testing.T) {
	const n = 1000
	ctx, path := harness.Within(t, 60*time.Second), harness.NewPath(t)
	sent := &harness.RequestCounter{}
	var grants, queued atomic.Int32
	opts := &zkrecipes.Options{Dialer: sent.Dial, Trace: &zkrecipes.Trace{
		Queued:     func(context.Context, zkrecipes.TraceQueued) { queued.Add(1) },
		AcquireEnd: func(context.Context, zkrecipes.TraceAcquireEnd) { grants.Add(1) },
	}}
	clients := make([]*zkrecipes.Client, 1+n) // the first one is the holder's
	// Only a few at a time, or each would wait for the long listings of the others.
	each := func(f func(i int)) {
		var wg sync.WaitGroup
		running := make(chan struct{}, 8)
		for i := range clients {
			running <- struct{}{}
			wg.Go(func() {
				defer func() { <-running }() // even if f fails the test
				f(i)
			})
		}
		wg.Wait()
	}
	granted := make(chan *zkrecipes.Lease, 1+n)
	var waiters sync.WaitGroup
	each(func(i int) {
		c, err := zkrecipes.Dial(ctx, harness.Servers(), opts)
		if err != nil {
			t.Error(err)
			return
		}
		clients[i] = c
	})
	defer waiters.Wait()
	defer each(func(i int) {
		if clients[i] != nil {
			clients[i].Close()
		}
	})
	require.False(t, t.Failed())
	current := recipetest.LockOn(t, zkrecipes.NewMutex(clients[0], path))
	recipetest.Sleeps(t, clients[0], 1)
	each(func(i int) {
		if i == 0 {
			return
		}
		waiters.Go(func() {
			l, err := zkrecipes.NewMutex(clients[i], path).Lock(ctx)
			if err != nil {
				if !errors.Is(err, zkrecipes.ErrClosed) { // the test has failed already
					t.Error(err)
				}
				return
			}
			granted <- l
		})
		recipetest.Sleeps(t, clients[i], 2)
	})
	harness.Eventually(t, "all Queued hooks", func() bool { return queued.Load() == n }) // they are called later
	line, err := zkrecipes.NewMutex(clients[0], path).Contenders(ctx)
	require.NoError(t, err)
	require.Len(t, line, 1+n)

	sent.Reset()
	for i := range n {
		require.NoError(t, current.Release())
		current = <-granted
		require.Equal(t, line[i+1].Token, current.Token(), "in the order of the line")
		require.Equal(t, i+1, recipetest.Sum(sent.Count()), "releases and nothing else")
		require.Empty(t, granted, "one wake per release")
	}
	require.NoError(t, current.Release())
	require.Equal(t, 1+n, recipetest.Sum(sent.Count()))
	harness.Eventually(t, "all Granted hooks", func() bool { return grants.Load() == 1+n })
	require.EqualValues(t, n, queued.Load(), "no waiter has joined twice")
}
