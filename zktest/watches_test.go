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
