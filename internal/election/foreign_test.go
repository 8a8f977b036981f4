package election_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Somebody's own znode at the leader's path, which is not ephemeral, is never deleted.

func TestB48ACampaignThatIsCanceledKeepsSomebodysZnodeAtTheLeadersPath(t *testing.T) {
	for name, fault := range map[string]zktest.Fault{
		"reply to the election delayed": {Do: zktest.Delay, After: true, For: 3 * time.Second, Op: recipetest.OpElect},
		"election withheld":             {Do: zktest.Withhold, Op: recipetest.OpElect},
		"reply to a read delayed":       {Do: zktest.Delay, After: true, For: 3 * time.Second, Op: "exists"},
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, _ *zkrecipes.Election) {
				require.NoError(t, recipetest.Campaigns(t, a, "a").Resign())
				w.CreateByHand(0)
				w.Plan.Add(fault)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := a.Campaign(ctx, nil)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				w.Plan.Stop()
				time.Sleep(time.Minute)
				w.LeaderIs("by hand")
				require.Empty(t, w.Line())
			})
		})
	}
}

func TestB48ACampaignThatIsRefusedKeepsSomebodysZnodeAtTheLeadersPath(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		term := recipetest.Campaigns(t, b, "b")
		next := recipetest.CampaignLater(t, a, "a")
		w.DeleteLeader()
		w.CreateByHand(0)
		_, err := w.Operator.SetACL(w.Path, zk.WorldACL(zk.PermAll&^zk.PermCreate), -1)
		require.NoError(t, err)
		w.Evict(recipetest.LeaseOf(term))
		_, err = next.Wait()
		require.Error(t, err)
		time.Sleep(time.Minute)
		w.LeaderIs("by hand")
		require.Empty(t, w.Line())
	})
}

func TestB48ATermThatEndsKeepsSomebodysZnodeAtTheLeadersPath(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, _ *zkrecipes.Election) {
		term := recipetest.Campaigns(t, a, "a")
		w.DeleteLeader()
		w.CreateByHand(0)
		time.Sleep(time.Minute)
		require.ErrorIs(t, term.Err(), zkrecipes.ErrLost)
		w.LeaderIs("by hand")
		require.Empty(t, w.Line())
	})
}

func TestB87SomebodysZnodeAtTheLeadersPathKeepsTheNumbersFromBeginningAnew(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, _ *zkrecipes.Election) {
		require.NoError(t, recipetest.Campaigns(t, a, "a").Resign())
		w.CreateByHand(0)
		require.NoError(t, w.Srv.SetCounter(w.Path, math.MaxInt32-10))
		_, err := a.Campaign(t.Context(), nil)
		require.ErrorIs(t, err, zkrecipes.ErrExhausted)
		require.ErrorContains(t, err, `"leader" stands in it and is not ephemeral`)
		w.LeaderIs("by hand")
		w.DeleteLeader()
		term := recipetest.Campaigns(t, a, "a")
		require.Zero(t, w.Line()[0].Number)
		require.NoError(t, term.Resign())
	})
}

// A LeaderLatch decides by another rule who leads, so both would lead.
func TestB101ElectionRefusesThePathOfALeaderLatch(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		latch := func() (path string) {
			path, err := w.Operator.Create(w.Path+"/_c_"+recipetest.CuratorUUID(1)+"-latch-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			return path
		}
		_, err := w.Operator.Create(w.Path, nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		first := latch()
		_, err = a.Campaign(harness.Within(t, time.Minute), nil)
		require.ErrorIs(t, err, zkrecipes.ErrPathInUse)
		require.ErrorContains(t, err, first[len(w.Path)+1:])
		require.ErrorIs(t, a.Lead(harness.Within(t, time.Minute), nil, func(context.Context, *zkrecipes.Term) error { return nil }), zkrecipes.ErrPathInUse)
		_, err = zkrecipes.NewMutex(recipetest.ClientOf(recipetest.LineOf(a).Client), w.Path).TryLock(harness.Within(t, time.Minute))
		require.ErrorIs(t, err, zkrecipes.ErrPathInUse)
		synctest.Wait()
		require.Len(t, w.Srv.Children(w.Path), 1, "nothing is left")

		require.NoError(t, w.Operator.Delete(first, -1))
		term := recipetest.Campaigns(t, a, "a")
		latch() // which comes second
		_, err = b.Campaign(harness.Within(t, time.Minute), nil)
		require.ErrorIs(t, err, zkrecipes.ErrPathInUse)
		require.NoError(t, term.Resign())
	})
}
