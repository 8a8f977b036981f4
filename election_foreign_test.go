package zkrecipes

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Somebody's own znode at the leader's path, which is not ephemeral, is never deleted.

func TestB48ACampaignThatIsCanceledKeepsSomebodysZnodeAtTheLeadersPath(t *testing.T) {
	for name, fault := range map[string]zktest.Fault{
		"reply to the election delayed": {Do: zktest.Delay, After: true, For: 3 * time.Second, Op: opElect},
		"election withheld":             {Do: zktest.Withhold, Op: opElect},
		"reply to a read delayed":       {Do: zktest.Delay, After: true, For: 3 * time.Second, Op: "exists"},
	} {
		t.Run(name, func(t *testing.T) {
			inElectionBubble(t, func(t *testing.T, w *electionWorld, a, _ *Election) {
				require.NoError(t, campaigns(t, a, "a").Resign())
				w.createByHand(0)
				w.plan.Add(fault)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := a.Campaign(ctx, nil)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				w.plan.Stop()
				time.Sleep(time.Minute)
				w.leaderIs("by hand")
				require.Empty(t, w.line())
			})
		})
	}
}

func TestB48ACampaignThatIsRefusedKeepsSomebodysZnodeAtTheLeadersPath(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		term := campaigns(t, b, "b")
		next := campaignLater(t, a, "a")
		w.deleteLeader()
		w.createByHand(0)
		_, err := w.operator.SetACL(w.path, zk.WorldACL(zk.PermAll&^zk.PermCreate), -1)
		require.NoError(t, err)
		w.evict(term.lease)
		_, err = next.Wait()
		require.Error(t, err)
		time.Sleep(time.Minute)
		w.leaderIs("by hand")
		require.Empty(t, w.line())
	})
}

func TestB48ATermThatEndsKeepsSomebodysZnodeAtTheLeadersPath(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, _ *Election) {
		term := campaigns(t, a, "a")
		w.deleteLeader()
		w.createByHand(0)
		time.Sleep(time.Minute)
		require.ErrorIs(t, term.Err(), ErrLost)
		w.leaderIs("by hand")
		require.Empty(t, w.line())
	})
}

func TestB87SomebodysZnodeAtTheLeadersPathKeepsTheNumbersFromBeginningAnew(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, _ *Election) {
		require.NoError(t, campaigns(t, a, "a").Resign())
		w.createByHand(0)
		require.NoError(t, w.srv.SetCounter(w.path, math.MaxInt32-10))
		_, err := a.Campaign(t.Context(), nil)
		require.ErrorIs(t, err, ErrExhausted)
		require.ErrorContains(t, err, `"leader" stands in it and is not ephemeral`)
		w.leaderIs("by hand")
		w.deleteLeader()
		term := campaigns(t, a, "a")
		require.Zero(t, w.line()[0].Number)
		require.NoError(t, term.Resign())
	})
}

// A LeaderLatch decides by another rule who leads, so both would lead.
func TestB101ElectionRefusesThePathOfALeaderLatch(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		latch := func() (path string) {
			path, err := w.operator.Create(w.path+"/_c_"+curatorUUID(1)+"-latch-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			return path
		}
		_, err := w.operator.Create(w.path, nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		first := latch()
		_, err = a.Campaign(harness.Within(t, time.Minute), nil)
		require.ErrorIs(t, err, ErrPathInUse)
		require.ErrorContains(t, err, first[len(w.path)+1:])
		require.ErrorIs(t, a.Lead(harness.Within(t, time.Minute), nil, func(context.Context, *Term) error { return nil }), ErrPathInUse)
		_, err = NewMutex(clientOf(a.line.Client), w.path).TryLock(harness.Within(t, time.Minute))
		require.ErrorIs(t, err, ErrPathInUse)
		synctest.Wait()
		require.Len(t, w.srv.Children(w.path), 1, "nothing is left")

		require.NoError(t, w.operator.Delete(first, -1))
		term := campaigns(t, a, "a")
		latch() // which comes second
		_, err = b.Campaign(harness.Within(t, time.Minute), nil)
		require.ErrorIs(t, err, ErrPathInUse)
		require.NoError(t, term.Resign())
	})
}
