package election_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

const lockDelay = 15 * time.Second

func delayedElection(w *recipetest.ElectionWorld) *zkrecipes.Election {
	return zkrecipes.NewElection(w.Stranger(nil), w.Path, zkrecipes.LockDelay(lockDelay))
}

func clientOf(e *zkrecipes.Election) *zkrecipes.Client {
	return recipetest.ClientOf(recipetest.LineOf(e).Client)
}

func expire(t *testing.T, w *recipetest.ElectionWorld, e *zkrecipes.Election) {
	t.Helper()
	require.True(t, w.Srv.Expire(recipetest.SessionID(clientOf(e))))
	go clientOf(e).Close()
	synctest.Wait()
}

func TestLockDelayDelaysTheNextLeaderAfterALeaderThatDied(t *testing.T) {
	for _, waits := range []bool{true, false} {
		recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, _, _ *zkrecipes.Election) {
			a, b := delayedElection(w), delayedElection(w)
			recipetest.Campaigns(t, a, "a")
			var next *harness.Call[*zkrecipes.Term]
			if waits {
				next = recipetest.CampaignLater(t, b, "b")
			}
			expire(t, w, a)
			if !waits {
				next = recipetest.CampaignLater(t, b, "b")
			}
			time.Sleep(lockDelay - time.Millisecond)
			synctest.Wait()
			require.True(t, next.Waiting())
			require.NotContains(t, w.Srv.Children(w.Path), "leader", "no leader is published before the delay is over")
			time.Sleep(2 * time.Millisecond)
			term := next.Get()
			w.LeaderIs("b")
			require.NoError(t, term.Resign())
		})
	}
}

func TestLockDelayDelaysNothingAfterAResignation(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, _, _ *zkrecipes.Election) {
		a, b := delayedElection(w), delayedElection(w)
		began := time.Now()
		for range 3 {
			term := recipetest.Campaigns(t, a, "a")
			next := recipetest.CampaignLater(t, b, "b")
			require.NoError(t, term.Resign())
			require.NoError(t, next.Get().Resign())
		}
		require.Zero(t, time.Since(began))
	})
}

func TestLeadWaitsForTheLockDelayAfterItsOwnLoss(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, _, _ *zkrecipes.Election) {
		a := delayedElection(w)
		l := recipetest.Lead(t, a, false)
		require.EqualValues(t, 1, l.Terms.Load())
		w.Srv.Expire(recipetest.SessionID(clientOf(a)))
		time.Sleep(lockDelay - time.Millisecond)
		synctest.Wait()
		require.EqualValues(t, 1, l.Terms.Load())
		time.Sleep(lockDelay)
		synctest.Wait()
		require.EqualValues(t, 2, l.Terms.Load())
		l.Ret <- nil
		_, err := l.Wait()
		require.NoError(t, err)
	})
}

// An evicted candidate deletes its leader's znode at a turn in the line, and nobody is granted
// anything by that.
func TestEvictedLeaderWithdrawsWithoutALockDelay(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, _, _ *zkrecipes.Election) {
		a := delayedElection(w)
		term := recipetest.Campaigns(t, a, "a")
		time.Sleep(2 * time.Second) // the znodes are watched by now
		w.Evict(recipetest.LeaseOf(term))
		time.Sleep(lockDelay / 2)
		synctest.Wait()
		w.NoLeader()
	})
}
