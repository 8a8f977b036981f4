package zktest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// lagging is a plan by which every connection lags once it has read.
func lagging() Option {
	return WithPlan(NewPlan(Fault{Do: Lag, Times: -1, Behind: 1, For: time.Minute}))
}

func TestALaterSnapshotCanBeRestoredAfterAnEarlierOne(t *testing.T) {
	inMemory(t, func(t *testing.T, srv *Server) {
		c := dialSession(t, srv, 0, nil, 0)
		early := srv.Snapshot()
		for i := range 20 {
			c.create(fmt.Sprintf("/n%d", i), 0)
		}
		late := srv.Snapshot()
		srv.Restore(early)
		require.Len(t, dialSession(t, srv, 0, nil, 0).list("/"), 1)
		srv.Restore(late)
		require.Len(t, dialSession(t, srv, 0, nil, 0).list("/"), 21)
	}, lagging())
}

func TestAReplicaShowsTheSnapshotThatWasRestoredLast(t *testing.T) {
	inMemory(t, func(t *testing.T, srv *Server) {
		c := dialSession(t, srv, 0, nil, 0)
		c.create("/a", 0)
		early := srv.Snapshot()
		c.create("/b", 0)
		late := srv.Snapshot()
		srv.Restore(early)
		dialSession(t, srv, 0, nil, 0).create("/x", 0)
		srv.Restore(late)
		c = dialSession(t, srv, 0, nil, 0)
		require.ElementsMatch(t, []string{"a", "b", "zookeeper"}, c.list("/"))
		require.Zero(t, c.roundTrip(jute.OpCreate, createRecord("/b/c", 0)).err)
		require.Equal(t, []string{"c"}, c.list("/b"))
	}, lagging())
}
