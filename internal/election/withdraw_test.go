package election_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// An evicted leader's session lives on, and nobody else replaces its znode.

func TestB36AnEvictedLeaderThatMayNotJoinDeletesItsZnodeLater(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		term := recipetest.Campaigns(t, a, "a")
		time.Sleep(5 * time.Second)
		_, err := w.Operator.SetACL(w.Path, zk.WorldACL(zk.PermAll&^zk.PermCreate), -1)
		require.NoError(t, err)
		w.Evict(recipetest.LeaseOf(term))
		time.Sleep(time.Hour)
		w.LeaderIs("a")
		_, err = w.Operator.SetACL(w.Path, zk.WorldACL(zk.PermAll), -1)
		require.NoError(t, err)
		time.Sleep(recipetest.LineOf(a).Client.Timeout)
		w.NoLeader()
	})
}

// What waits for a turn to delete the znode is evicted, too.
func TestB22AnEvictedLeaderDeletesItsZnodeAlthoughItIsEvictedAgain(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, _ *zkrecipes.Election) {
		term := recipetest.Campaigns(t, a, "a")
		other := w.JoinByHand()
		time.Sleep(5 * time.Second)
		w.Evict(recipetest.LeaseOf(term))
		for range 3 {
			time.Sleep(time.Second)
			line := w.Line()
			require.Len(t, line, 2)
			require.NoError(t, w.Operator.Delete(w.Path+"/"+line[1].Name, -1))
		}
		w.LeaderIs("a")
		require.NoError(t, w.Operator.Delete(other, -1))
		time.Sleep(recipetest.LineOf(a).Client.Timeout)
		w.NoLeader()
	})
}

func TestB22AnEvictedLeaderStopsItsAttemptsWithItsClient(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, _ *zkrecipes.Election) {
		term := recipetest.Campaigns(t, a, "a")
		time.Sleep(5 * time.Second)
		_, err := w.Operator.SetACL(w.Path, zk.WorldACL(zk.PermAll&^zk.PermCreate), -1)
		require.NoError(t, err)
		w.Evict(recipetest.LeaseOf(term))
		time.Sleep(time.Minute)
		began := time.Now()
		require.NoError(t, recipetest.ClientOf(recipetest.LineOf(a).Client).Close())
		require.Less(t, time.Since(began), time.Second)
		w.NoLeader()
	})
}
