package zkrecipes

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

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Ten thousand places, readers and watches, and a thousand lines and waiters.

// stand creates n places with names like this library's and returns their paths.
func (w *world) stand(conn *zk.Conn, k line.Kind, n int) (paths []string) {
	w.t.Helper()
	for chunk := range slices.Chunk(make([]struct{}, n), 500) {
		var ops []any
		for range chunk {
			ops = append(ops, &zk.CreateRequest{
				Path: w.path + "/_c_" + line.NewUUID(true) + "-" + string(k), Acl: zk.WorldACL(zk.PermAll),
				Flags: zk.FlagEphemeral | zk.FlagSequence,
			})
		}
		rs, err := conn.Multi(ops...)
		require.NoError(w.t, err)
		for _, r := range rs {
			paths = append(paths, r.String)
		}
	}
	return paths
}

func TestTryLockOnALongLineDoesNotListIt(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		known := w.client(nil)
		l := lockOn(t, NewMutex(w.client(nil), w.path))
		middle := w.stand(w.bare(), line.KindLock, 3000)
		last := w.waits(NewMutex(w.stranger(nil), w.path))
		try := func(c *Client, want map[string]int) {
			t.Helper()
			before := w.srv.Counts()
			_, err := NewMutex(c, w.path).TryLock(t.Context())
			require.ErrorIs(t, err, ErrLocked)
			synctest.Wait()
			counts := w.srv.Counts().Sub(before)
			require.Equal(t, want, counts.Requests)
			if want["getChildren2"] == 0 {
				require.Less(t, counts.BytesOut, int64(1000))
			}
		}
		stranger := w.stranger(nil)
		try(stranger, map[string]int{"getData": 1})
		require.NoError(t, l.Release())
		try(stranger, map[string]int{"getData": 1, "exists": 1})
		try(known, map[string]int{"getChildren2": 1}) // the line was short
		try(known, map[string]int{"getData": 1, "exists": 1})
		last.Cancel(nil)
		_, err := last.Wait()
		require.Error(t, err)
		synctest.Wait()
		try(known, map[string]int{"getData": 1, "exists": 1, "getChildren2": 1})
		require.Len(t, middle, 3000)
	})
}

// Children that are no places do not make a lock held, however many there are.
func TestTryLockTakesALockWithManyOtherLocksBelowItsPath(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		m := NewMutex(w.client(nil), w.path)
		for i := range 10 {
			lockOn(t, NewMutex(w.stranger(nil), fmt.Sprint(w.path, "/", i)))
		}
		for _, m := range []*Mutex{m, NewMutex(w.stranger(nil), w.path), m} {
			l, err := m.TryLock(t.Context())
			require.NoError(t, err)
			_, err = NewMutex(w.stranger(nil), w.path).TryLock(t.Context())
			require.ErrorIs(t, err, ErrLocked)
			require.NoError(t, l.Release())
		}
	})
}

func TestB29ALineOfTenThousandPlacesCostsNoMoreRequests(t *testing.T) {
	const ours, places = 30, 10_000
	inBubble(t, func(t *testing.T, w *world) {
		c, other := w.client(nil), w.client(nil)
		l := lockOn(t, NewMutex(c, w.path))
		var first, last []*harness.Call[*Lease]
		wait := func(as *[]*harness.Call[*Lease]) {
			for i := range ours {
				*as = append(*as, w.lockLater([]*Client{c, other}[i%2]))
			}
		}
		wait(&first)
		conn := w.bare()
		middle := w.stand(conn, line.KindLock, places)
		joins := w.requests(func() { wait(&last) })
		// The first of them learns by a list who joined last, and the line tells the others.
		require.Equal(t, map[string]int{opJoin: ours, "getChildren2": 1, "getData": 3*ours + 1}, joins)
		require.Len(t, w.line(), 1+2*ours+places)

		// Each release grants the next place.
		handOff := func(as []*harness.Call[*Lease]) {
			for _, a := range as {
				before := w.srv.Counts()
				require.NoError(t, l.Release())
				l = a.Get()
				require.Equal(t, map[string]int{opRelease: 1}, w.srv.Counts().Sub(before).Requests)
				w.stands(l)
			}
		}
		handOff(first)

		// The ten thousand places are deleted, the last of them first. A deletion
		// wakes only the waiter right behind the deleted place. That waiter is granted
		// only when no place is ahead of it.
		requests := w.requests(func() { require.NoError(t, conn.Delete(middle[places-1], -1)) })
		require.Equal(t, map[string]int{"delete": 1, "getChildren2": 1, "getData": 1}, requests)
		for _, path := range middle[:10] {
			require.Equal(t, map[string]int{"delete": 1}, w.requests(func() { require.NoError(t, conn.Delete(path, -1)) }))
		}
		require.NoError(t, l.Release())
		synctest.Wait()
		require.True(t, last[0].Waiting())
		conn.Close()
		l = last[0].Get()
		handOff(last[1:])
		require.NoError(t, l.Release())
		require.Empty(t, w.line())
	})
}

// Ten thousand readers hold the lock. One more reader costs no more than beside a
// single one. A writer sleeps until the last reader has left. Only the writer wakes
// the readers behind it.
func TestB29ALineOfTenThousandReadersCostsNoMoreRequests(t *testing.T) {
	const places, behind = 10_000, 30
	inBubble(t, func(t *testing.T, w *world) {
		c, other := w.client(nil), w.client(nil)
		conn := w.bare()
		holders := w.stand(conn, line.KindRead, places)
		var l *Lease
		require.Equal(t, map[string]int{opJoin: 1, "getChildren2": 1}, w.requests(func() { l = held(t, NewRWLock(c, w.path).RLock) }))
		var writer *harness.Call[*Lease]
		require.Equal(t, map[string]int{opJoin: 1, "getChildren2": 1, "getData": 2},
			w.requests(func() { writer = later(t, NewRWLock(other, w.path).Lock) }))
		var readers []*harness.Call[*Lease]
		joins := w.requests(func() {
			for range behind {
				readers = append(readers, later(t, NewRWLock(c, w.path).RLock))
				synctest.Wait()
			}
		})
		// Each watches its own place. All share one watch on the writer's place. The
		// setData finds out, once, whether the server enforces ACLs, so that the
		// writer's signal can be trusted. The second reader asks the line who joined
		// last, since the first found the writer at the tail.
		require.Equal(t, map[string]int{opJoin: behind, "getChildren2": behind, "getData": behind + 2, opACLProbe: 1}, joins)

		requests := w.requests(func() {
			for _, path := range holders[:10] {
				require.NoError(t, conn.Delete(path, -1))
			}
		})
		require.Equal(t, map[string]int{"delete": 10}, requests, "no waiter wakes")
		conn.Close() // deletes the other places at once
		synctest.Wait()
		require.True(t, writer.Waiting(), "one reader is ahead")
		require.Equal(t, map[string]int{opReadRelease: 1, "getChildren2": 1},
			w.requests(func() { require.NoError(t, l.Release()) }), "the writer lists once")
		l = writer.Get()
		require.Equal(t, map[string]int{opRelease: 1}, w.requests(func() { require.NoError(t, l.Release()) }))
		for _, a := range readers {
			l := a.Get()
			w.stands(l)
			require.NoError(t, l.Release())
		}
		require.Empty(t, w.line())
	})
}

func TestB31TenThousandWatchesSurviveReconnects(t *testing.T) {
	const watches = 10_000
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		s, _ := c.client.Session()
		conn := w.bare()
		var nodes []string
		for i := range watches {
			nodes = append(nodes, fmt.Sprintf("/a-node-with-a-name-of-some-length-%05d", i))
		}
		inChunks(t, conn, nodes, func(node string) any {
			return &zk.CreateRequest{Path: node, Acl: zk.WorldACL(zk.PermAll)}
		})
		all := watchNodes(t, s, nodes)

		// Three times: changes made while the client is disconnected fire the watches
		// afterwards.
		for round := range 3 {
			require.True(t, w.srv.Disconnect(sessionID(c)))
			gone, changed := nodes[:100], nodes[100:200]
			deleteNodes(t, conn, gone)
			changeNodes(t, conn, changed)
			require.False(t, slices.ContainsFunc(all, (*zkconn.Watch).HasFired))
			requests := w.requests(func() { awaitUp(t, s) })
			require.Greater(t, requests["setWatches"], 2, "round %d", round)
			requireFired(t, all[:100], jute.EventDeleted)
			requireFired(t, all[100:200], jute.EventDataChanged)
			nodes, all = nodes[200:], all[200:]
			require.False(t, slices.ContainsFunc(all, (*zkconn.Watch).HasFired))
		}
		half := len(nodes) / 2
		before := w.srv.Counts()
		deleteNodes(t, conn, nodes[:half])
		changeNodes(t, conn, nodes[half:])
		requireFired(t, all[:half], jute.EventDeleted)
		requireFired(t, all[half:], jute.EventDataChanged)
		synctest.Wait()
		require.Equal(t, map[string]int{"NodeDeleted": half, "NodeDataChanged": len(nodes) - half}, w.srv.Counts().Sub(before).Events)
		require.Empty(t, s.Inspect().Watches)
	})
}

// One client waits in a thousand lines at once and loses its connection.
func TestB31WaitersInAThousandLinesAreGrantedAcrossAReconnect(t *testing.T) {
	const lines = 1000
	inBubble(t, func(t *testing.T, w *world) {
		holder, c := w.stranger(nil), w.stranger(nil)
		leases, waiting := make([]*Lease, lines), make([]*harness.Call[*Lease], lines)
		for i := range lines {
			path := fmt.Sprintf("/locks/%04d", i)
			side := sides[i%len(sides)]
			leases[i] = held(t, side.theirs(holder, path).Lock)
			waiting[i] = later(t, side.ours(c, path).Lock)
		}
		synctest.Wait()
		require.True(t, w.srv.Disconnect(sessionID(c)))
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
	opts := &Options{Dialer: sent.Dial, Trace: &Trace{
		Queued:     func(context.Context, TraceQueued) { queued.Add(1) },
		AcquireEnd: func(context.Context, TraceAcquireEnd) { grants.Add(1) },
	}}
	clients := make([]*Client, 1+n) // the first one is the holder's
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
	granted := make(chan *Lease, 1+n)
	var waiters sync.WaitGroup
	each(func(i int) {
		c, err := Dial(ctx, harness.Servers(), opts)
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
	current := lockOn(t, NewMutex(clients[0], path))
	sleeps(t, clients[0], 1)
	each(func(i int) {
		if i == 0 {
			return
		}
		waiters.Go(func() {
			l, err := NewMutex(clients[i], path).Lock(ctx)
			if err != nil {
				if !errors.Is(err, ErrClosed) { // the test has failed already
					t.Error(err)
				}
				return
			}
			granted <- l
		})
		sleeps(t, clients[i], 2)
	})
	harness.Eventually(t, "all Queued hooks", func() bool { return queued.Load() == n }) // they are called later
	line, err := NewMutex(clients[0], path).Contenders(ctx)
	require.NoError(t, err)
	require.Len(t, line, 1+n)

	sent.Reset()
	for i := range n {
		require.NoError(t, current.Release())
		current = <-granted
		require.Equal(t, line[i+1].Token, current.Token(), "in the order of the line")
		require.Equal(t, map[string]int{opRelease: i + 1}, sent.Count(), "releases and nothing else")
		require.Empty(t, granted, "one wake per release")
	}
	require.NoError(t, current.Release())
	require.Equal(t, map[string]int{opRelease: 1 + n}, sent.Count())
	harness.Eventually(t, "all Granted hooks", func() bool { return grants.Load() == 1+n })
	require.EqualValues(t, n, queued.Load(), "no waiter has joined twice")
}
