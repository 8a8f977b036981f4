package conformance

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestZktestCountsACLsLikeZooKeeper(t *testing.T) {
	needsOwn(t)
	forEachVersion(t, func(t *testing.T, version string) {
		node, err := provider.Start(t.Context(), zkserver.Config{Version: version})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, node.Remove(context.Background())) })
		real := reference(t, node.Addr(), node)
		if real.CounterNearEnd == nil {
			t.Skip("the real server's files are not accessible")
		}
		srv := zktest.NewServer(t, zktest.Emulate(real.Version), zktest.TickTime(real.TickTime),
			zktest.ContainerCheckInterval(500*time.Millisecond))
		Run(t, "ZooKeeper", real, aclNumbers)
		Run(t, "zktest", emulated(srv, real.Version, real.TickTime), aclNumbers)
		require.NoError(t, real.Restart())
		known, last := knownACLs(t, node)
		require.Equal(t, known, srv.ACLs())
		require.Equal(t, last, srv.Counts().NewACLs)
	})
}

// knownACLs returns how many ACLs a server knows that has just started, and the highest of
// their numbers. It reads them from the snapshot that the server writes when it starts
// (FileSnap.serialize). No request shows them.
func knownACLs(t *testing.T, node *zkserver.Node) (known, last int) {
	dir, err := dataDir(t.Context(), node)
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(dir, "snapshot.*"))
	require.NoError(t, err)
	newest, highest := "", int64(-1)
	for _, name := range files {
		zxid, err := strconv.ParseInt(strings.TrimPrefix(filepath.Ext(name), "."), 16, 64)
		require.NoError(t, err)
		if zxid > highest {
			newest, highest = name, zxid
		}
	}
	b, err := os.ReadFile(newest)
	require.NoError(t, err)
	d := jute.NewDecoder(b)
	require.Equal(t, "ZKSN", string(jute.AppendInt32(nil, d.Int32())))
	d.Int32() // version of the format
	d.Int64() // id of the database
	for range d.Int32() {
		d.Int64() // session
		d.Int32() // its timeout
	}
	for range d.Int32() {
		last = max(last, int(d.Int64()))
		d.ACLs()
		known++
	}
	require.NoError(t, d.Err)
	return known, last
}
