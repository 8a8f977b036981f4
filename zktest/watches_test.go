package zktest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

func TestMultiFiresWatchesInOrderBeforeItsReply(t *testing.T) {
	srv := NewServer(t)
	c := dialSession(t, srv, 0, nil, 0)
	c.create("/a", 0)
	require.Zero(t, c.roundTrip(jute.OpGetData, watchRecord("/a")).err)
	require.Equal(t, jute.ErrNoNode, c.roundTrip(jute.OpExists, watchRecord("/b")).err)
	require.Zero(t, c.roundTrip(jute.OpGetChildren, watchRecord("/")).err)
	b := append(appendHeader(nil, jute.OpSetData, false, -1), dataRecord("/a", "x", -1)...)
	b = append(appendHeader(b, jute.OpCreate, false, -1), createRecord("/b", 0)...)
	b = append(appendHeader(b, jute.OpDelete, false, -1), versionRecord("/a", -1)...)
	c.write(frame(9, jute.OpMulti, appendHeader(b, -1, true, -1)))
	c.requireEvents(watchEvent{jute.EventDataChanged, "/a"}, watchEvent{jute.EventCreated, "/b"}, watchEvent{jute.EventChildrenChanged, "/"})
	require.Equal(t, int32(9), c.read().xid) // and no more events: each watch fires once
}

func TestDeletionFiresDataAndChildWatchOnce(t *testing.T) {
	srv := NewServer(t)
	c := dialSession(t, srv, 0, nil, 0)
	c.create("/a", 0)
	require.Zero(t, c.roundTrip(jute.OpGetData, watchRecord("/a")).err)
	require.Zero(t, c.roundTrip(jute.OpGetChildren, watchRecord("/a")).err)
	c.write(frame(9, jute.OpDelete, versionRecord("/a", -1)))
	c.requireEvents(watchEvent{jute.EventDeleted, "/a"})
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
	owner.create("/a", 0, mine)
	require.Equal(t, jute.ErrNoAuth, other.roundTrip(jute.OpGetData, watchRecord("/a")).err) // the next frame is the reply: no event was sent
	require.Empty(t, srv.Counts().Events)
}

func TestSetWatchesFiresMissedEventsAndSetsTheRest(t *testing.T) {
	srv := NewServer(t)
	c := dialSession(t, srv, 0, nil, 0)
	for _, path := range []string{"/same", "/set", "/parent", "/calm"} {
		c.create(path, 0)
	}
	seen := c.roundTrip(jute.OpExists, append(pathRecord("/"), 0)).zxid
	require.Zero(t, c.roundTrip(jute.OpSetData, dataRecord("/set", "x", -1)).err)
	c.create("/parent/child", 0)
	c.create("/made", 0)
	c = dialSession(t, srv, c.id, c.pass, seen)
	b := jute.AppendInt64(nil, seen)
	b = jute.AppendStrings(b, []string{"/same", "/set", "/gone"})
	b = jute.AppendStrings(b, []string{"/made", "/unmade"})
	b = jute.AppendStrings(b, []string{"/parent", "/calm", "/gone2"})
	c.write(frame(jute.XidSetWatches, jute.OpSetWatches, b))
	c.requireEvents(
		watchEvent{jute.EventDataChanged, "/set"}, watchEvent{jute.EventDeleted, "/gone"}, watchEvent{jute.EventCreated, "/made"},
		watchEvent{jute.EventChildrenChanged, "/parent"}, watchEvent{jute.EventDeleted, "/gone2"},
	)
	a := c.read()
	require.Equal(t, jute.XidSetWatches, a.xid)
	require.Zero(t, a.err)
	// The other watches are set.
	c.write(frame(1, jute.OpCreate, createRecord("/unmade", 0)))
	c.requireEvents(watchEvent{jute.EventCreated, "/unmade"})
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
	c.requireEvents( // none of them NodeChildrenChanged
		watchEvent{jute.EventCreated, "/a/b"}, watchEvent{jute.EventDataChanged, "/a/b"}, watchEvent{jute.EventDeleted, "/a/b"},
	)
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

func TestWatchesOfDifferentModesExistSideBySideSince39(t *testing.T) {
	for version, events := range map[Version]int{ZooKeeper38: 1, ZooKeeper39: 2} {
		srv := NewServer(t, Emulate(version))
		c := dialSession(t, srv, 0, nil, 0)
		c.create("/a", 0)
		require.Zero(t, c.roundTrip(jute.OpAddWatch, versionRecord("/a", jute.WatchPersistent)).err)
		require.Zero(t, c.roundTrip(jute.OpGetData, watchRecord("/a")).err)
		other := dialSession(t, srv, 0, nil, 0)
		for range 2 {
			require.Zero(t, other.roundTrip(jute.OpSetData, dataRecord("/a", "", -1)).err)
		}
		require.Equal(t, map[string]int{"NodeDataChanged": events}, srv.Counts().Events, version)
	}
}
