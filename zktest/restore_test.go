package zktest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/conformance"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// lagging is a plan by which every connection lags once it has read.
func lagging() zktest.Option {
	return zktest.WithPlan(zktest.NewPlan(zktest.Fault{Do: zktest.Lag, Times: -1, Behind: 1, For: time.Minute}))
}

func list(c *conformance.Client, path string) []string {
	return c.Ok(conformance.GetChildren(path, false)).Children
}

func TestALaterSnapshotCanBeRestoredAfterAnEarlierOne(t *testing.T) {
	inMemory(t, func(t *testing.T, srv *zktest.Server) {
		c := open(t, srv)
		early := srv.Snapshot()
		for i := range 20 {
			c.Ok(conformance.Plain(fmt.Sprintf("/n%d", i)))
		}
		late := srv.Snapshot()
		srv.Restore(early)
		require.Len(t, list(open(t, srv), "/"), 1)
		srv.Restore(late)
		require.Len(t, list(open(t, srv), "/"), 21)
	}, lagging())
}

func TestAReplicaShowsTheSnapshotThatWasRestoredLast(t *testing.T) {
	inMemory(t, func(t *testing.T, srv *zktest.Server) {
		c := open(t, srv)
		c.Ok(conformance.Plain("/a"))
		early := srv.Snapshot()
		c.Ok(conformance.Plain("/b"))
		late := srv.Snapshot()
		srv.Restore(early)
		open(t, srv).Ok(conformance.Plain("/x"))
		srv.Restore(late)
		c = open(t, srv)
		require.Equal(t, []string{"a", "b", "zookeeper"}, list(c, "/"))
		c.Ok(conformance.Plain("/b/c"))
		require.Equal(t, []string{"c"}, list(c, "/b"))
	}, lagging())
}
