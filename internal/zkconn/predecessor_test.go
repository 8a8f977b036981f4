package zkconn_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const predecessor = "/predecessor"

// watchesPredecessor creates a znode by hand, and has a client watch it.
func watchesPredecessor(t *testing.T, w *recipetest.World) (hand *zk.Conn, s *session.Session, watch *zkconn.PredecessorWatch) {
	t.Helper()
	hand = w.Bare()
	s = w.NewCore().S
	return hand, s, watchAgain(t, hand, s)
}

func watchAgain(t *testing.T, hand *zk.Conn, s *session.Session) *zkconn.PredecessorWatch {
	t.Helper()
	_, err := hand.Create(predecessor, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	watch, err := s.WatchPredecessor(t.Context(), predecessor)
	require.NoError(t, err)
	return watch
}

func setPredecessor(t *testing.T, hand *zk.Conn) {
	t.Helper()
	_, err := hand.Set(predecessor, []byte("released"), -1)
	require.NoError(t, err)
}

func deletePredecessor(t *testing.T, hand *zk.Conn) {
	t.Helper()
	require.NoError(t, hand.Delete(predecessor, -1))
}

func setAndDeletePredecessor(t *testing.T, hand *zk.Conn) {
	t.Helper()
	_, err := hand.Multi(&zk.SetDataRequest{Path: predecessor, Version: -1}, &zk.DeleteRequest{Path: predecessor, Version: -1})
	require.NoError(t, err)
}

func TestPredecessorIsReleasedByASetAndADeletionInOneTransaction(t *testing.T) {
	for _, version := range []zktest.Version{zktest.ZooKeeper38, zktest.ZooKeeper39} {
		for name, tt := range map[string]struct {
			leave    func(t *testing.T, hand *zk.Conn)
			released bool
		}{
			"set and deleted at once": {setAndDeletePredecessor, version == zktest.ZooKeeper39},
			"deleted":                 {deletePredecessor, false},
			"set, and then deleted": {func(t *testing.T, hand *zk.Conn) {
				setPredecessor(t, hand)
				deletePredecessor(t, hand)
			}, false},
			"set, and then set and deleted at once": {func(t *testing.T, hand *zk.Conn) {
				setPredecessor(t, hand)
				setAndDeletePredecessor(t, hand)
			}, false}, // the first set has used up the watch
			"its session ends": {func(_ *testing.T, hand *zk.Conn) { hand.Close() }, false},
		} {
			t.Run(fmt.Sprint(version, " ", name), func(t *testing.T) {
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					hand, _, watch := watchesPredecessor(t, w)
					tt.leave(t, hand)
					synctest.Wait()
					require.True(t, watch.HasFired())
					require.False(t, watch.IsLost())
					require.Equal(t, tt.released, watch.IsReleased())
				}, zktest.Emulate(version))
			})
		}
	}
}

func TestPredecessorWhoseDataAreSetStands(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		hand, _, watch := watchesPredecessor(t, w)
		setPredecessor(t, hand)
		synctest.Wait()
		require.False(t, watch.HasFired())
	})
}

func TestPredecessorIsLostWithItsConnection(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		hand, s, watch := watchesPredecessor(t, w)
		require.True(t, w.Srv.Disconnect(s.ID()))
		synctest.Wait()
		require.True(t, watch.HasFired())
		require.True(t, watch.IsLost())
		require.False(t, watch.IsReleased())

		again, err := s.WatchPredecessor(harness.Within(t, recipetest.LongSession), predecessor)
		require.NoError(t, err)
		setAndDeletePredecessor(t, hand)
		synctest.Wait()
		require.True(t, again.IsReleased())
	})
}

// Where events bear no zxids, the watch that tells of the set is of no use. The first event of a
// connection shows it.
func TestPredecessorCostsOneRequestWhereEventsBearNoZxids(t *testing.T) {
	for version, want := range map[zktest.Version]int{zktest.ZooKeeper38: 0, zktest.ZooKeeper39: 1} {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			hand, s, _ := watchesPredecessor(t, w)
			deletePredecessor(t, hand)
			requests := w.Requests(func() { watchAgain(t, hand, s) })
			require.Equal(t, want, requests["getData"], version)
			require.Equal(t, 1, requests["getChildren"], version)
		}, zktest.Emulate(version))
	}
}
