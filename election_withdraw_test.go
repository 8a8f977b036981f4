package zkrecipes

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// An evicted leader's session lives on, and nobody else replaces its znode.

// joinByHand takes a place in the line without the library, and returns its path.
func (w *electionWorld) joinByHand() string {
	w.t.Helper()
	path, err := w.operator.Create(w.path+"/_c_"+curatorUUID(1)+"-lock-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	require.NoError(w.t, err)
	return path
}

func TestB36AnEvictedLeaderThatMayNotJoinDeletesItsZnodeLater(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		term := campaigns(t, a, "a")
		time.Sleep(5 * time.Second)
		_, err := w.operator.SetACL(w.path, zk.WorldACL(zk.PermAll&^zk.PermCreate), -1)
		require.NoError(t, err)
		w.evict(term.lease)
		time.Sleep(time.Hour)
		w.leaderIs("a")
		_, err = w.operator.SetACL(w.path, zk.WorldACL(zk.PermAll), -1)
		require.NoError(t, err)
		time.Sleep(a.line.Client.Timeout)
		w.noLeader()
	})
}

// What waits for a turn to delete the znode is evicted, too.
func TestB22AnEvictedLeaderDeletesItsZnodeAlthoughItIsEvictedAgain(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, _ *Election) {
		term := campaigns(t, a, "a")
		other := w.joinByHand()
		time.Sleep(5 * time.Second)
		w.evict(term.lease)
		for range 3 {
			time.Sleep(time.Second)
			line := w.line()
			require.Len(t, line, 2)
			require.NoError(t, w.operator.Delete(w.path+"/"+line[1].Name, -1))
		}
		w.leaderIs("a")
		require.NoError(t, w.operator.Delete(other, -1))
		time.Sleep(a.line.Client.Timeout)
		w.noLeader()
	})
}

func TestB22AnEvictedLeaderStopsItsAttemptsWithItsClient(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, _ *Election) {
		term := campaigns(t, a, "a")
		time.Sleep(5 * time.Second)
		_, err := w.operator.SetACL(w.path, zk.WorldACL(zk.PermAll&^zk.PermCreate), -1)
		require.NoError(t, err)
		w.evict(term.lease)
		time.Sleep(time.Minute)
		began := time.Now()
		require.NoError(t, clientOf(a.line.Client).Close())
		require.Less(t, time.Since(began), time.Second)
		w.noLeader()
	})
}
