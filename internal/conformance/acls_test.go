package conformance

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
)

func TestZktestCountsACLsLikeZooKeeper(t *testing.T) {
	forEachVersion(t, func(t *testing.T, version string) {
		real, node := reference(t, zkserver.Config{Version: version})
		if real.CounterNearEnd == nil {
			t.Skip("the real server's files are not accessible")
		}
		double, srv := Double(t, real.Version, real.TickTime)
		Run(t, "ZooKeeper", real, aclNumbers)
		Run(t, "zktest", double, aclNumbers)
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
