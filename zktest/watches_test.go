package zktest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/conformance"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestClosedConnectionLeavesNoWatches(t *testing.T) {
	srv := zktest.NewServer(t)
	for range 20 {
		c := open(t, srv)
		c.Ok(conformance.GetData("/", true), conformance.GetChildren("/", true), conformance.AddWatch("/", jute.WatchPersistentRecursive))
		sessions := srv.Sessions()
		require.Equal(t, []string{"/"}, sessions[len(sessions)-1].Watches)
		require.NotZero(t, srv.Leftovers().Recursive)
		c.End()
	}
	left := srv.Leftovers()
	require.Zero(t, left.Watched+left.Recursive)
}
