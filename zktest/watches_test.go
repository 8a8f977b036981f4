package zktest

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

func TestMultiFiresWatchesInOrderBeforeItsReply(t *testing.T) {
	srv := NewServer(t)
	c := dialSession(t, srv, 0, nil, 0)
	require.Zero(t, c.roundTrip(jute.OpCreate, createRecord("/a", 0)).err)
	require.Zero(t, c.roundTrip(jute.OpGetData, watchRecord("/a")).err)
	require.Equal(t, jute.ErrNoNode, c.roundTrip(jute.OpExists, watchRecord("/b")).err)
	require.Zero(t, c.roundTrip(jute.OpGetChildren, watchRecord("/")).err)
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
	require.Equal(t, int32(9), c.read().xid) // and no more events: each watch fires once
}

func TestDeletionFiresDataAndChildWatchOnce(t *testing.T) {
	srv := NewServer(t)
	c := dialSession(t, srv, 0, nil, 0)
	require.Zero(t, c.roundTrip(jute.OpCreate, createRecord("/a", 0)).err)
	require.Zero(t, c.roundTrip(jute.OpGetData, watchRecord("/a")).err)
	require.Zero(t, c.roundTrip(jute.OpGetChildren, watchRecord("/a")).err)
	c.write(frame(9, jute.OpDelete, versionRecord("/a", -1)))
	event, path := c.event()
	require.Equal(t, jute.EventDeleted, event)
	require.Equal(t, "/a", path)
	require.Equal(t, int32(9), c.read().xid)
	require.Equal(t, map[string]int{"NodeDeleted": 1}, srv.Counts().Events)
}

func TestEventsNeedReadPermission(t *testing.T) {
	srv := NewServer(t)
	owner, other := dialSession(t, srv, 0, nil, 0), dialSession(t, srv, 0, nil, 0)
	auth := jute.AppendString(jute.AppendString(jute.AppendInt32(nil, 0), "digest"), "me:pw")
	owner.write(frame(jute.XidAuth, jute.OpAuth, auth))
	require.Zero(t, owner.read().err)
	require.Equal(t, jute.ErrNoNode, other.roundTrip(jute.OpExists, watchRecord("/a")).err)
	mine := jute.ACL{Perms: jute.PermAll, Scheme: "auth"}
	require.Zero(t, owner.roundTrip(jute.OpCreate, createRecord("/a", 0, mine)).err)
	require.Equal(t, jute.ErrNoAuth, other.roundTrip(jute.OpGetData, watchRecord("/a")).err) // the next frame is the reply: no event was sent
	require.Empty(t, srv.Counts().Events)
}

func TestSetWatchesFiresMissedEventsAndSetsTheRest(t *testing.T) {
	srv := NewServer(t)
	c := dialSession(t, srv, 0, nil, 0)
	for _, path := range []string{"/same", "/set", "/parent", "/calm"} {
		require.Zero(t, c.roundTrip(jute.OpCreate, createRecord(path, 0)).err)
	}
	seen := c.roundTrip(jute.OpExists, append(pathRecord("/"), 0)).zxid
	require.Zero(t, c.roundTrip(jute.OpSetData, dataRecord("/set", "x", -1)).err)
	require.Zero(t, c.roundTrip(jute.OpCreate, createRecord("/parent/child", 0)).err)
	require.Zero(t, c.roundTrip(jute.OpCreate, createRecord("/made", 0)).err)
	c = dialSession(t, srv, c.id, c.pass, seen)
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
	// The other watches are set.
	c.write(frame(1, jute.OpCreate, createRecord("/unmade", 0)))
	event, path := c.event()
	require.Equal(t, pair{jute.EventCreated, "/unmade"}, pair{event, path})
}

func TestPersistentWatchesFireRepeatedly(t *testing.T) {
	srv := NewServer(t)
	c, writer := dialSession(t, srv, 0, nil, 0), connect(t, srv, 10*time.Second)
	create(t, writer, "/a", 0)
	a := c.roundTrip(jute.OpAddWatch, versionRecord("/a", jute.WatchPersistentRecursive))
	require.Zero(t, a.err)
	require.Zero(t, a.Int32())
	require.Zero(t, c.roundTrip(jute.OpCheckWatches, versionRecord("/a", jute.WatcherAny)).err)
	create(t, writer, "/a/b", 0)
	_, err := writer.Set("/a/b", nil, -1)
	require.NoError(t, err)
	require.NoError(t, writer.Delete("/a/b", -1))
	for _, want := range []int32{jute.EventCreated, jute.EventDataChanged, jute.EventDeleted} {
		event, path := c.event() // there are no NodeChildrenChanged events
		require.Equal(t, want, event)
		require.Equal(t, "/a/b", path)
	}
	require.Zero(t, c.roundTrip(jute.OpRemoveWatches, versionRecord("/a", jute.WatcherAny)).err)
	require.Equal(t, jute.ErrNoWatcher, c.roundTrip(jute.OpRemoveWatches, versionRecord("/a", jute.WatcherAny)).err)
	create(t, writer, "/a/c", 0)
	require.Zero(t, c.roundTrip(jute.OpSync, pathRecord("/")).err)
}

func TestClosedConnectionLeavesNoWatches(t *testing.T) {
	srv := NewServer(t)
	c := connect(t, srv, 10*time.Second)
	create(t, c, "/a", 0)
	for range 20 {
		r := dialSession(t, srv, 0, nil, 0)
		require.Zero(t, r.roundTrip(jute.OpGetData, watchRecord("/a")).err)
		require.Zero(t, r.roundTrip(jute.OpGetChildren, watchRecord("/a")).err)
		require.Zero(t, r.roundTrip(jute.OpAddWatch, versionRecord("/a", jute.WatchPersistentRecursive)).err)
		require.Zero(t, r.roundTrip(jute.OpClose, nil).err)
	}
	srv.mu.Lock()
	defer srv.mu.Unlock()
	require.Empty(t, srv.leader.dataWatches.table)
	require.Empty(t, srv.leader.childWatches.table)
	require.Zero(t, srv.leader.dataWatches.recursive+srv.leader.childWatches.recursive)
}

func TestGoZookeeperSetsItsWatchesAgain(t *testing.T) {
	if raceEnabled {
		t.Skip("go-zookeeper has a data race when it sets watches again")
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
