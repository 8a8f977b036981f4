package zktest

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

func TestWatchesFirePerOperationOfAMultiInOrderAndBeforeItsReply(t *testing.T) {
	srv := NewServer(t)
	c := hello(t, srv, 0, nil, 0)
	require.Zero(t, c.ask(jute.OpCreate, createRecord("/a", 0)).err)
	require.Zero(t, c.ask(jute.OpGetData, watchRecord("/a")).err)
	require.Equal(t, jute.ErrNoNode, c.ask(jute.OpExists, watchRecord("/b")).err)
	require.Zero(t, c.ask(jute.OpGetChildren, watchRecord("/")).err)
	b := append(appendHeader(nil, jute.OpSetData, false, -1), dataRecord("/a", "x", -1)...)
	b = append(appendHeader(b, jute.OpCreate, false, -1), createRecord("/b", 0)...)
	b = append(appendHeader(b, jute.OpDelete, false, -1), versionRecord("/a", -1)...)
	c.write(frame(9, jute.OpMulti, appendHeader(b, -1, true, -1)))
	for _, want := range []struct {
		event int32
		path  string
	}{{jute.EventDataChanged, "/a"}, {jute.EventCreated, "/b"}, {jute.EventChildrenChanged, "/"}} {
		event, path := c.event()
		require.Equal(t, want.event, event)
		require.Equal(t, want.path, path)
	}
	require.Equal(t, int32(9), c.read().xid) // and no more: each fires once
}

func TestWhoWatchesDataAndChildrenHearsOfADeletionOnce(t *testing.T) {
	srv := NewServer(t)
	c := hello(t, srv, 0, nil, 0)
	require.Zero(t, c.ask(jute.OpCreate, createRecord("/a", 0)).err)
	require.Zero(t, c.ask(jute.OpGetData, watchRecord("/a")).err)
	require.Zero(t, c.ask(jute.OpGetChildren, watchRecord("/a")).err)
	c.write(frame(9, jute.OpDelete, versionRecord("/a", -1)))
	event, path := c.event()
	require.Equal(t, jute.EventDeleted, event)
	require.Equal(t, "/a", path)
	require.Equal(t, int32(9), c.read().xid)
	require.Equal(t, map[string]int{"NodeDeleted": 1}, srv.Events())
}

func TestEventsAreKeptFromThoseWhoMayNotRead(t *testing.T) {
	srv := NewServer(t)
	owner, other := hello(t, srv, 0, nil, 0), hello(t, srv, 0, nil, 0)
	auth := jute.AppendString(jute.AppendString(jute.AppendInt32(nil, 0), "digest"), "me:pw")
	owner.write(frame(jute.XidAuth, jute.OpAuth, auth))
	require.Zero(t, owner.read().err)
	require.Equal(t, jute.ErrNoNode, other.ask(jute.OpExists, watchRecord("/a")).err)
	mine := jute.ACL{Perms: jute.PermAll, Scheme: "auth"}
	require.Zero(t, owner.ask(jute.OpCreate, createRecord("/a", 0, mine)).err)
	require.Equal(t, jute.ErrNoAuth, other.ask(jute.OpGetData, watchRecord("/a")).err) // no event came
	require.Empty(t, srv.Events())
}

func TestWatchesAreArmedAgainAgainstAZxid(t *testing.T) {
	srv := NewServer(t)
	c := hello(t, srv, 0, nil, 0)
	for _, path := range []string{"/same", "/set", "/parent", "/calm"} {
		require.Zero(t, c.ask(jute.OpCreate, createRecord(path, 0)).err)
	}
	seen := c.ask(jute.OpExists, append(pathRecord("/"), 0)).zxid
	require.Zero(t, c.ask(jute.OpSetData, dataRecord("/set", "x", -1)).err)
	require.Zero(t, c.ask(jute.OpCreate, createRecord("/parent/child", 0)).err)
	require.Zero(t, c.ask(jute.OpCreate, createRecord("/made", 0)).err)
	c = hello(t, srv, c.id, c.pass, seen)
	b := jute.AppendInt64(nil, seen)
	b = jute.AppendStrings(b, []string{"/same", "/set", "/gone"})
	b = jute.AppendStrings(b, []string{"/made", "/unmade"})
	b = jute.AppendStrings(b, []string{"/parent", "/calm", "/gone2"})
	c.write(frame(jute.XidSetWatches, jute.OpSetWatches, b))
	type pair struct {
		event int32
		path  string
	}
	var got []pair
	for range 5 {
		event, path := c.event()
		got = append(got, pair{event, path})
	}
	require.Equal(t, []pair{
		{jute.EventDataChanged, "/set"}, {jute.EventDeleted, "/gone"}, {jute.EventCreated, "/made"},
		{jute.EventChildrenChanged, "/parent"}, {jute.EventDeleted, "/gone2"},
	}, got)
	a := c.read()
	require.Equal(t, jute.XidSetWatches, a.xid)
	require.Zero(t, a.err)
	// The others are armed.
	c.write(frame(1, jute.OpCreate, createRecord("/unmade", 0)))
	event, path := c.event()
	require.Equal(t, pair{jute.EventCreated, "/unmade"}, pair{event, path})
}

func TestPersistentWatchesStay(t *testing.T) {
	srv := NewServer(t)
	c, writer := hello(t, srv, 0, nil, 0), connect(t, srv, 10*time.Second)
	create(t, writer, "/a", 0)
	a := c.ask(jute.OpAddWatch, versionRecord("/a", jute.WatchPersistentRecursive))
	require.Zero(t, a.err)
	require.Zero(t, a.Int32())
	require.Zero(t, c.ask(jute.OpCheckWatches, versionRecord("/a", jute.WatcherAny)).err)
	create(t, writer, "/a/b", 0)
	_, err := writer.Set("/a/b", nil, -1)
	require.NoError(t, err)
	require.NoError(t, writer.Delete("/a/b", -1))
	for _, want := range []int32{jute.EventCreated, jute.EventDataChanged, jute.EventDeleted} {
		event, path := c.event() // of children's lists nothing
		require.Equal(t, want, event)
		require.Equal(t, "/a/b", path)
	}
	require.Zero(t, c.ask(jute.OpRemoveWatches, versionRecord("/a", jute.WatcherAny)).err)
	require.Equal(t, jute.ErrNoWatcher, c.ask(jute.OpRemoveWatches, versionRecord("/a", jute.WatcherAny)).err)
	create(t, writer, "/a/c", 0)
	require.Zero(t, c.ask(jute.OpSync, pathRecord("/")).err)
}

func TestAnEndedConnectionLeavesNoWatches(t *testing.T) {
	srv := NewServer(t)
	c := connect(t, srv, 10*time.Second)
	create(t, c, "/a", 0)
	for range 20 {
		r := hello(t, srv, 0, nil, 0)
		require.Zero(t, r.ask(jute.OpGetData, watchRecord("/a")).err)
		require.Zero(t, r.ask(jute.OpGetChildren, watchRecord("/a")).err)
		require.Zero(t, r.ask(jute.OpAddWatch, versionRecord("/a", jute.WatchPersistentRecursive)).err)
		require.Zero(t, r.ask(jute.OpClose, nil).err)
	}
	srv.mu.Lock()
	defer srv.mu.Unlock()
	require.Empty(t, srv.leader.data.table)
	require.Empty(t, srv.leader.child.table)
	require.Zero(t, srv.leader.data.recursive+srv.leader.child.recursive)
}

func TestGoZookeeperArmsItsWatchesAgain(t *testing.T) {
	if raceEnabled {
		t.Skip("go-zookeeper races with itself there")
	}
	srv := NewServer(t)
	c, other := connect(t, srv, 10*time.Second), connect(t, srv, 10*time.Second)
	create(t, other, "/a", 0)
	_, _, w, err := c.GetW("/a")
	require.NoError(t, err)
	srv.Disconnect(c.SessionID())
	_, err = other.Set("/a", []byte("x"), -1)
	require.NoError(t, err)
	require.Equal(t, zk.EventNodeDataChanged, (<-w).Type)
}
