package zkconn_test

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Watches across lost connections. Each is armed again and misses no change in the
// meantime.

// createNodes creates znodes below path, with paths of the given length. There are
// just enough of them that arming a watch on each takes that many setWatches requests.
// chunk is the number of watches in one request of 128 KiB.
func createNodes(t testing.TB, conn *zk.Conn, path string, length, chunks int) (nodes []string, chunk int) {
	t.Helper()
	chunk = 128 << 10 / (4 + length)
	for i := range chunk * chunks {
		nodes = append(nodes, fmt.Sprintf("%s/%0*d", path, length-len(path)-1, i))
	}
	recipetest.InChunks(t, conn, nodes, func(node string) any {
		return &zk.CreateRequest{Path: node, Acl: zk.WorldACL(zk.PermAll)}
	})
	return nodes, chunk
}

// sharedNode creates a znode and its parents on the shared server.
func sharedNode(t testing.TB) (conn *zk.Conn, path string) {
	t.Helper()
	conn, path = harness.Raw(t), harness.NewPath(t)
	harness.MakeParents(t, conn, path)
	return conn, path
}

// manyNodes creates znodes in a bubble, for so many requests of setWatches.
func manyNodes(t testing.TB, w *recipetest.World, chunks int) []string {
	look := w.Bare()
	harness.MakeParents(t, look, "/nodes")
	nodes, _ := createNodes(t, look, "/nodes", 900, chunks)
	return nodes
}

// requireArmed requires that no watch has fired and that each is armed. It deletes the
// znodes to see the watches fire.
func requireArmed(t testing.TB, s *session.Session, look *zk.Conn, nodes []string, watches []*zkconn.Watch) {
	t.Helper()
	require.NoError(t, recipetest.ReadOnce(s, "/")) // after all events under way
	require.False(t, slices.ContainsFunc(watches, (*zkconn.Watch).HasFired))
	recipetest.InChunks(t, look, nodes, func(node string) any { return &zk.DeleteRequest{Path: node, Version: -1} })
	recipetest.RequireFired(t, watches, jute.EventDeleted)
}

// The connection is lost while the first watches of waiters of every side are asked for.
func TestWaitersWhoseWatchesAreLostSleepOnceTheWatchesAreArmed(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		taps, other := harness.NewTapsVia(w.Srv.DialContext), w.Stranger(nil)
		c := w.Stranger(&zkrecipes.Options{Dialer: taps.Dial})
		nodes := manyNodes(t, w, 2)
		for _, node := range nodes {
			recipetest.WatchesAt(t, c, node)
		}
		const waiters = 24
		var asked atomic.Int32
		var holders []*zkrecipes.Lease
		var waiting []*harness.Call[*zkrecipes.Lease]
		for i := range waiters {
			side, path := recipetest.Sides[i%len(recipetest.Sides)], fmt.Sprint("/line-", i)
			require.NoError(t, side.Ours(c, path).Do(t.Context(), recipetest.Nothing))
			holders = append(holders, recipetest.Held(t, side.Theirs(other, path).Lock))
		}
		taps.OnWrite(func(_ *harness.Tap, op string, _ []byte) (bool, error) {
			if op != "getData" {
				return false, nil
			}
			asked.Add(1)
			return true, nil
		})
		for i := range waiters {
			side := recipetest.Sides[i%len(recipetest.Sides)]
			waiting = append(waiting, recipetest.Later(t, side.Ours(c, fmt.Sprint("/line-", i)).Lock))
			synctest.Wait() // one after the other: what is written together with a getData is swallowed, too
			require.Greater(t, int(asked.Load()), i)
		}
		cut(w, recipetest.SessionID(c), taps)
		taps.OnWrite(nil)
		taps.Release()
		time.Sleep(time.Second)
		require.Len(t, w.SessionOf(c).Watches, len(nodes)+2*waiters, "all sleep")
		ops := taps.Newest().Sent()
		require.Equal(t, []string{"connect", "setWatches", "setWatches"}, ops[:3])
		require.NotContains(t, ops[3:], "setWatches")
		for i, a := range waiting {
			require.True(t, a.Waiting())
			require.NoError(t, holders[i].Release())
			require.NoError(t, a.Get().Release())
		}
		synctest.Wait()
		require.Equal(t, nodes, w.SessionOf(c).Watches)
	})
}

func TestRealWatchesSurviveADropBetweenTwoChunks(t *testing.T) {
	const chunks = 4
	look, path := sharedNode(t)
	nodes, chunk := createNodes(t, look, path, 126, chunks)
	require.GreaterOrEqual(t, len(nodes), 4000)
	taps := harness.NewTaps(harness.Server())
	s := recipetest.NewCore(t, recipetest.ServerNames(5), taps.Dial).S
	watches := recipetest.WatchNodes(t, s, nodes)
	taps.Hold()
	taps.Newest().Close()
	harness.Eventually(t, "dialling", func() bool { return len(taps.Asked()) > 1 })
	recipetest.InChunks(t, look, nodes[:len(nodes)/2], func(node string) any { return &zk.SetDataRequest{Path: node, Data: []byte("changed"), Version: -1} })
	taps.OnWrite(func(_ *harness.Tap, op string, _ []byte) (bool, error) {
		if op == "setWatches" && taps.Count(op) == 2 {
			return false, errors.New("connection reset")
		}
		return false, nil
	})
	taps.Release()
	harness.Eventually(t, "all sent again", func() bool { return taps.Count("setWatches") > 2 })
	harness.Eventually(t, "the session is up", func() bool { up, _ := s.Connected(); return up })
	require.Less(t, taps.Count("setWatches"), 2+chunks+1)
	recipetest.RequireFired(t, watches[:len(nodes)/2], jute.EventDataChanged)
	requireArmed(t, s, look, nodes[len(nodes)/2:], watches[len(nodes)/2:])
	t.Log(len(nodes), "watches,", chunk, "in a request")

	require.NoError(t, recipetest.ReadOnce(s, "/"))
	require.Zero(t, s.Watching())
}
