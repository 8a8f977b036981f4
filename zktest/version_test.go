package zktest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

func TestEventsHaveTheZxidOfTheChangeSince39(t *testing.T) {
	for version, want := range map[Version]int64{ZooKeeper38: -1, ZooKeeper39: 2} {
		c := dialSession(t, NewServer(t, Emulate(version)), 0, nil, 0)
		require.Equal(t, jute.ErrNoNode, c.roundTrip(jute.OpExists, watchRecord("/a")).err)
		c.write(frame(9, jute.OpCreate, createRecord("/a", 0)))
		event := c.read()
		require.Equal(t, jute.XidEvent, event.xid)
		require.Equal(t, want, event.zxid, version)
	}
}

func TestWatchesOfDifferentModesExistSideBySideSince39(t *testing.T) {
	for version, events := range map[Version]int{ZooKeeper38: 1, ZooKeeper39: 2} {
		srv := NewServer(t, Emulate(version))
		c := dialSession(t, srv, 0, nil, 0)
		require.Zero(t, c.roundTrip(jute.OpCreate, createRecord("/a", 0)).err)
		require.Zero(t, c.roundTrip(jute.OpAddWatch, versionRecord("/a", jute.WatchPersistent)).err)
		require.Zero(t, c.roundTrip(jute.OpGetData, watchRecord("/a")).err)
		other := dialSession(t, srv, 0, nil, 0)
		for range 2 {
			require.Zero(t, other.roundTrip(jute.OpSetData, dataRecord("/a", "", -1)).err)
		}
		require.Equal(t, map[string]int{"NodeDataChanged": events}, srv.Counts().Events, version)
	}
}

func TestMalformedWritesTakeNoZxidSince39(t *testing.T) {
	for version, want := range map[Version]int64{ZooKeeper38: 2, ZooKeeper39: 1} {
		c := dialSession(t, NewServer(t, Emulate(version)), 0, nil, 0)
		reply := c.roundTrip(jute.OpDelete, pathRecord("/a"))
		require.Equal(t, jute.ErrMarshalling, reply.err)
		require.Equal(t, want, reply.zxid, version)
	}
}

func TestCheckAloneIsRefusedSince39(t *testing.T) {
	for version, want := range map[Version]int32{ZooKeeper38: jute.ErrNoNode, ZooKeeper39: jute.ErrUnimplemented} {
		c := dialSession(t, NewServer(t, Emulate(version)), 0, nil, 0)
		require.Equal(t, want, c.roundTrip(jute.OpCheck, versionRecord("/a", -1)).err, version)
	}
}

func TestCreate2InAMultiReturnsAStatSince39(t *testing.T) {
	for version, want := range map[Version]int32{ZooKeeper38: jute.OpCreate, ZooKeeper39: jute.OpCreate2} {
		c := dialSession(t, NewServer(t, Emulate(version)), 0, nil, 0)
		b := append(appendHeader(nil, jute.OpCreate2, false, -1), createRecord("/a", 0)...)
		reply := c.roundTrip(jute.OpMulti, appendHeader(b, -1, true, -1))
		require.Zero(t, reply.err)
		require.Equal(t, want, reply.Int32(), version)
	}
}
