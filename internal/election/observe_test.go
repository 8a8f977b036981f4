package election_test

import (
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/election"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// What observers of elections see.

func TestAValueDoesNotShareMemoryWithTheNext(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		value := []byte("a")
		next := recipetest.CampaignLater(t, b, "b") // b leads, and a waits
		done := make(chan *zkrecipes.Term)
		go func() {
			term, err := a.Campaign(t.Context(), value)
			require.NoError(t, err)
			done <- term
		}()
		synctest.Wait()
		value[0] = 'x'
		require.NoError(t, next.Get().Resign())
		term := <-done
		w.LeaderIs("a")
		for range 2 { // both share the watch
			for l, err := range b.Observe(t.Context()) {
				require.NoError(t, err)
				require.Equal(t, "a", string(l.Value))
				l.Value[0] = 'x'
				break
			}
		}
		require.NoError(t, term.Resign())
	})
}

// Leader is asked of a server that lags.
func TestLeaderFollowsASync(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		lags := zkrecipes.NewElection(w.Stranger(nil), w.Path)
		_, err := lags.Leader(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrNoLeader)
		term := recipetest.Campaigns(t, a, "a")
		seen, err := lags.Leader(t.Context())
		require.NoError(t, err)
		require.Equal(t, term.Token(), seen.Token)
		require.NoError(t, term.Resign())
		none, err := lags.Leader(t.Context())
		require.EqualError(t, err, "zkrecipes: look at "+w.Path+": nobody leads")
		require.ErrorIs(t, err, zkrecipes.ErrNoLeader)
		require.Equal(t, zkrecipes.Leader{}, none)
	}, recipetest.Behind(3, 20))
}

func TestAnObserverThatMayNotReadGetsNoAuth(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, _, b *zkrecipes.Election) {
		conn := w.Operator
		require.NoError(t, conn.AddAuth("digest", []byte("owner:x")))
		w.Write(w.Path, "")
		_, err := conn.Create(w.Path+election.LeaderName, nil, zk.FlagEphemeral, zk.DigestACL(zk.PermAll, "owner", "x"))
		require.NoError(t, err)
		o := recipetest.Follow(t, b)
		require.ErrorIs(t, o.Ended(), zk.ErrNoAuth)
		require.ErrorContains(t, o.Err, "zkrecipes: observe "+w.Path)
		require.Empty(t, o.Texts())
		_, err = b.Leader(t.Context())
		require.ErrorIs(t, err, zk.ErrNoAuth)
	})
}
