package zkconn_test

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// What plain go-zookeeper v1.0.4 does with watches. See zkconn_bare_test.go.

func TestBareConnDropsEvents(t *testing.T) {
	const n = 20
	look, path := bareNode(t)
	taps := harness.NewTaps(harness.Server())
	conn, events, err := zk.Connect(bareServers, 10*time.Second, zk.WithDialer(taps.DialTimeout), zk.WithLogger(harness.Quiet{}), zk.WithLogInfo(false))
	require.NoError(t, err)
	harness.Eventually(t, "a session", func() bool { return conn.State() == zk.StateHasSession })
	var watches []<-chan zk.Event
	for i := range n {
		node := fmt.Sprintf("%s/%d", path, i)
		_, _, watch, err := conn.ExistsW(node)
		require.NoError(t, err)
		watches = append(watches, watch)
		_, err = look.Create(node, nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
	}
	for _, watch := range watches {
		require.Equal(t, zk.EventNodeCreated, (<-watch).Type)
	}
	received := 0
	for len(events) > 0 {
		if e := <-events; e.Type == zk.EventNodeCreated {
			received++
		}
	}
	bareClosed(t, conn, events, taps)
	require.Less(t, received, n, bareBetter("wire.Session reads events from the frames"))
}

func TestBareWatchReportsNoDisconnect(t *testing.T) {
	p := harness.NewProxy(t, harness.Server())
	_, path := bareNode(t)
	conn, taps := bareConn(t, p.Addr(), 10*time.Second)
	_, _, watch, err := conn.GetW(path)
	require.NoError(t, err)
	p.Drop()
	bareReconnects(t, conn, taps, 2)
	require.False(t, bareFired(watch), bareBetter("connections are numbered, to know on which one a watch was confirmed"))
	id := conn.SessionID()
	password := p.Password(id)
	taps.Cut(t, p)
	harness.EndSession(t, harness.Server(), id, password)
	taps.Release()
	select {
	case e := <-watch:
		require.Equal(t, zk.EventNotWatching, e.Type)
	case <-time.After(20 * time.Second):
		require.Fail(t, "no event at the end of the session either")
	}
}

// bareWatches counts the channels in go-zookeeper's table.
func bareWatches(conn *zk.Conn) (n int) {
	for it := reflect.ValueOf(conn).Elem().FieldByName("watchers").MapRange(); it.Next(); {
		n += it.Value().Len()
	}
	return n
}

func TestBareConnAddsAWatchForEveryRequestAndRemovesNone(t *testing.T) {
	_, path := bareNode(t)
	conn, _ := bareConn(t, harness.Server(), 10*time.Second)
	for range 50 {
		_, _, _, err := conn.GetW(path)
		require.NoError(t, err)
	}
	require.Equal(t, 50, bareWatches(conn), bareBetter("one watch for all waiters on a path"))
	for i := range reflect.TypeOf(conn).NumMethod() {
		require.NotContains(t, reflect.TypeOf(conn).Method(i).Name, "RemoveWatch", bareBetter("one watch for all waiters on a path"))
	}

	_, _, _, err := conn.GetW(path + "/none")
	require.Equal(t, zk.ErrNoNode, err)
	require.Equal(t, 50, bareWatches(conn), "a failed GetW adds no watch")
	there, _, _, err := conn.ExistsW(path + "/none")
	require.NoError(t, err)
	require.False(t, there)
	require.Equal(t, 51, bareWatches(conn), bareBetter("watches are set with GetW, not ExistsW"))
}

func TestBareConnSendsQueuedRequestsBeforeSetWatches(t *testing.T) {
	p := harness.NewProxy(t, harness.Server())
	_, path := bareNode(t)
	conn, taps := bareConn(t, p.Addr(), 10*time.Second)
	_, _, _, err := conn.GetW(path)
	require.NoError(t, err)
	taps.Cut(t, p)
	var wg sync.WaitGroup
	for range 16 { // the capacity of its channel
		wg.Go(func() { conn.Get(path) })
	}
	harness.Eventually(t, "queued", func() bool { return recipetest.QueuedRequests(conn) == 16 })
	first := p.On("getData", 1, harness.Hold) // see TestBareConnRacesRepliesAgainstSetWatches
	taps.Release()
	harness.Eventually(t, "setWatches", func() bool { return slices.Contains(taps.Newest().Sent(), "setWatches") })
	first.Release()
	wg.Wait()
	ops := taps.Newest().Sent()
	require.Equal(t, slices.Repeat([]string{"getData"}, 16), ops[1:17], bareBetter("the gate in wire.Conn"))
}

// The reply to a request that was sent before setWatches advances the zxid. If the
// connection is lost before the reply to setWatches, the next setWatches carry a zxid
// that already includes the change, so the server sends no event for it.
func TestBareConnLosesAChangeWhenARequestOvertakesSetWatches(t *testing.T) {
	p := harness.NewProxy(t, harness.Server())
	look, path := bareNode(t)
	conn, taps := bareConn(t, p.Addr(), 10*time.Second)
	_, _, watch, err := conn.GetW(path)
	require.NoError(t, err)
	taps.Cut(t, p)
	_, err = look.Set(path, []byte("changed"), -1)
	require.NoError(t, err)
	overtakes := make(chan error, 1)
	go func() {
		_, _, err := conn.Get(path)
		overtakes <- err
	}()
	harness.Eventually(t, "queued", func() bool { return recipetest.QueuedRequests(conn) == 1 })
	get, set := p.On("getData", 1, harness.Hold), p.On("setWatches", 1, harness.Hold)
	taps.Release()
	harness.Eventually(t, "setWatches", func() bool { return slices.Contains(taps.Newest().Sent(), "setWatches") })
	get.Release()
	require.NoError(t, <-overtakes)
	p.Await(set)
	p.Drop()
	bareReconnects(t, conn, taps, 3)
	harness.Eventually(t, "setWatches once more", func() bool { return p.CountOf("setWatches") == 2 })
	_, _, err = conn.Get(path) // after all events that setWatches may have caused
	require.NoError(t, err)
	require.False(t, bareFired(watch), bareBetter("the gate in wire.Conn, and its own zxid"))

	require.NoError(t, look.Delete(path, -1))
	require.Equal(t, zk.EventNodeDeleted, (<-watch).Type, "the watch is armed, but the change was lost")
}

// go-zookeeper stores the zxid of a reply without a lock and concurrently reads it for
// setWatches. Whether the race detector catches this is a matter of luck. Many watches
// and many connections make it likely.
func TestBareConnRacesRepliesAgainstSetWatches(t *testing.T) {
	bareNeedsRaceDetector(t)
	child, output, err := bareChild(t)
	if !child {
		require.Error(t, err, bareBetter("the gate in wire.Conn, and that wire.Conn hides zxids from go-zookeeper"))
		require.Contains(t, output, "DATA RACE")
		require.Contains(t, output, "zk.(*Conn).sendSetWatches")
		return
	}
	conn, taps := bareConn(t, harness.Server(), 10*time.Second)
	var wg sync.WaitGroup
	for i := range 600 {
		wg.Go(func() { conn.ExistsW(fmt.Sprintf("/none-of-this-name-%0900d", i)) })
	}
	wg.Wait()
	for n := 2; n < 200; n++ {
		taps.Hold()
		taps.Newest().Close()
		harness.Eventually(t, "dialling", func() bool { return len(taps.Asked()) == n })
		for range 16 {
			wg.Go(func() { conn.Get("/") })
		}
		harness.Eventually(t, "queued", func() bool { return recipetest.QueuedRequests(conn) == 16 })
		taps.Release()
		wg.Wait()
	}
	bareSays("no race")
}

// The reply to one setWatches advances the zxid of the next.
func TestBareConnLosesWatchesWhenDroppedBetweenChunks(t *testing.T) {
	const chunks = 4
	p := harness.NewProxy(t, harness.Server())
	look, path := bareNode(t)
	nodes, chunk := createNodes(t, look, path, 900, chunks)
	conn, taps := bareConn(t, p.Addr(), 10*time.Second)
	var watches []<-chan zk.Event
	for _, node := range nodes {
		_, _, watch, err := conn.GetW(node)
		require.NoError(t, err)
		watches = append(watches, watch)
	}
	taps.Cut(t, p)
	recipetest.ChangeNodes(t, look, nodes)
	p.On("setWatches", 2, harness.DropBefore)
	taps.Release()
	bareReconnects(t, conn, taps, 3)
	// The first chunk and the dropped one, then the remaining ones.
	harness.Eventually(t, "all setWatches", func() bool { return p.CountOf("setWatches") == 2+chunks-1 })
	_, _, err := conn.Get("/") // after all their events
	require.NoError(t, err)
	fired := 0
	for _, watch := range watches {
		if bareFired(watch) {
			fired++
		}
	}
	require.Less(t, fired, len(nodes), bareBetter("wire.Conn hides zxids from go-zookeeper and fills in its own"))
	require.Equal(t, chunk, fired, "the watches of the first chunk")
}

func TestBareConnAdvancesNoZxidByEvents(t *testing.T) {
	p := harness.NewProxy(t, harness.Server())
	look, path := bareNode(t)
	conn, taps := bareConn(t, p.Addr(), 10*time.Second)
	_, _, watch, err := conn.GetW(path)
	require.NoError(t, err)
	stat, err := look.Set(path, []byte("changed"), -1)
	require.NoError(t, err)
	require.Equal(t, zk.EventNodeDataChanged, (<-watch).Type)
	p.Drop()
	bareReconnects(t, conn, taps, 2)
	tap := taps.Newest()
	tap.Mu.Lock()
	defer tap.Mu.Unlock()
	require.Less(t, tap.LastSeen, stat.Mzxid, bareBetter("the sync that wire.Conn sends while a lease is held"))
}
