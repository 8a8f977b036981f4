package zktest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

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
