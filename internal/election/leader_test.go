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
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The leader's znode: what operators, evicted leaders and other programs do to it.

func TestALeaderWhoseZnodeIsDeletedLosesItsTerm(t *testing.T) {
	type evicts = func(*recipetest.ElectionWorld, *zkrecipes.Term)
	cases := map[string]evicts{
		"place":         func(w *recipetest.ElectionWorld, term *zkrecipes.Term) { w.Evict(term.Checks()[0]) },
		"leader":        func(w *recipetest.ElectionWorld, _ *zkrecipes.Term) { w.DeleteLeader() },
		"leader remade": func(w *recipetest.ElectionWorld, _ *zkrecipes.Term) { w.RemakeLeader() },
		"all":           func(w *recipetest.ElectionWorld, term *zkrecipes.Term) { w.DeleteBoth(term) },
	}
	for _, after := range []time.Duration{0, 5 * time.Second} {
		each(t, cases, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election, evict evicts) {
			term := recipetest.Campaigns(t, a, "a")
			next := recipetest.CampaignLater(t, b, "b")
			time.Sleep(after) // 5 s: both znodes are watched
			evict(w, term)
			time.Sleep(w.ClientOf(a).Status().Timeout / 10)
			synctest.Wait()
			require.ErrorIs(t, term.Err(), zkrecipes.ErrLost)
			second := next.Get()
			require.Greater(t, second.Token(), term.Token())
			w.LeaderIs("b")
			require.ErrorIs(t, term.Resign(), zkrecipes.ErrLost)
			_, err := term.Commit(t.Context())
			require.ErrorIs(t, err, zkrecipes.ErrLost)
			time.Sleep(time.Minute)
			w.LeaderIs("b")
			require.NoError(t, second.Err())
			require.NoError(t, second.Resign())
			w.NoLeader()
		})
	}
}

// The client may not know of the deletion yet: the servers check both znodes.
func TestNoTermCommitsOnceTheLeadersZnodeWasDeleted(t *testing.T) {
	for _, age := range []time.Duration{0, 5 * time.Second} {
		each(t, map[string]func(context.Context, *zkrecipes.Term) error{
			"commit": func(ctx context.Context, term *zkrecipes.Term) error {
				_, err := term.Commit(ctx, zkrecipes.OpCreate("/done", nil, 0, nil))
				return err
			},
			"check":    func(ctx context.Context, term *zkrecipes.Term) error { _, err := term.Commit(ctx); return err },
			"proclaim": func(ctx context.Context, term *zkrecipes.Term) error { return term.Proclaim(ctx, []byte("still a")) },
		}, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election, commit func(context.Context, *zkrecipes.Term) error) {
			term := recipetest.Campaigns(t, a, "a")
			next := recipetest.CampaignLater(t, b, "b")
			time.Sleep(age)
			w.DeleteLeader()
			require.ErrorIs(t, commit(t.Context(), term), zkrecipes.ErrLost)
			require.ErrorIs(t, term.Err(), zkrecipes.ErrLost)
			require.NotContains(t, w.Srv.Children("/"), "done")
			second := next.Get()
			require.Greater(t, second.Token(), term.Token())
			_, err := second.Commit(t.Context())
			require.NoError(t, err)
			w.LeaderIs("b")
			require.NoError(t, second.Resign())
			w.NoLeader()
		})
	}
}

// What waits for a turn to delete the znode is evicted, too.
func TestAnEvictedLeaderDeletesItsZnodeAlthoughItIsEvictedAgain(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, _ *zkrecipes.Election) {
		term := recipetest.Campaigns(t, a, "a")
		other := w.JoinByHand()
		time.Sleep(5 * time.Second)
		w.Evict(term.Checks()[0])
		for range 3 {
			time.Sleep(time.Second)
			line := w.Line()
			require.Len(t, line, 2)
			require.NoError(t, w.Operator.Delete(w.Path+"/"+line[1].Name, -1))
		}
		w.LeaderIs("a")
		require.NoError(t, w.Operator.Delete(other, -1))
		time.Sleep(w.ClientOf(a).Status().Timeout)
		w.NoLeader()
	})
}

// The evicted leader cannot clean up: the next one replaces its znode.
func TestTheNextLeaderReplacesWhatAnEvictedOneLeft(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		o := recipetest.Follow(t, b)
		first := recipetest.Campaigns(t, a, "a")
		synctest.Wait()
		w.Away(w.ClientOf(a))
		w.Evict(first.Checks()[0])
		w.Plan.Stop()
		w.Plan.Add(zktest.Fault{Do: zktest.Silence, Times: -1}) // a cannot come back
		requests := w.Requests(func() {
			term := recipetest.Campaigns(t, b, "b")
			require.Greater(t, term.Token(), first.Token())
			w.LeaderIs("b")
		})
		require.Equal(t, 1, requests[recipetest.OpElect])
		require.Equal(t, 1, requests[recipetest.OpSucceed])
		synctest.Wait()
		require.Equal(t, []string{"none", "a", "b"}, o.Texts())
		w.Back()
		time.Sleep(time.Minute)
		require.ErrorIs(t, first.Err(), zkrecipes.ErrLost)
		w.LeaderIs("b")
	})
}

// The sequence numbers of the line are used up, and an evicted leader has left its znode.
func TestAnElectionBeginsItsNumbersAnew(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		first := recipetest.Campaigns(t, a, "a")
		w.Away(w.ClientOf(a))
		w.Evict(first.Checks()[0])
		w.Plan.Stop()
		w.Plan.Add(zktest.Fault{Do: zktest.Silence, Times: -1})
		require.NoError(t, w.Srv.SetCounter(w.Path, math.MaxInt32-10))
		term := recipetest.Campaigns(t, b, "b")
		require.EqualValues(t, 1, w.Line()[0].Number, "a container has had a child when it is new")
		require.Greater(t, term.Token(), first.Token())
		w.LeaderIs("b")
		require.NoError(t, term.Resign())
		w.NoLeader()
	})
}

// Only one that somebody else's session has created is replaced.
func TestSomebodysOwnZnodeAtTheLeadersPathIsKept(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		require.NoError(t, recipetest.Campaigns(t, a, "a").Resign())
		w.CreateByHand(0)
		_, err := a.Campaign(t.Context(), nil)
		require.ErrorIs(t, err, zkrecipes.ErrPathInUse)
		require.ErrorContains(t, err, w.Path+"/leader is not ephemeral")
		_, err = b.Leader(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrNoLeader)
		synctest.Wait()
		require.Empty(t, w.Line())
		w.LeaderIs("by hand")
		w.DeleteLeader()
		// Such a znode is replaced
		w.CreateByHand(zk.FlagEphemeral)
		term := recipetest.Campaigns(t, a, "a")
		w.LeaderIs("a")
		require.NoError(t, term.Resign())
		w.NoLeader()
	})
}

func TestACampaignThatIsCanceledKeepsSomebodysZnodeAtTheLeadersPath(t *testing.T) {
	each(t, map[string]zktest.Fault{
		"reply to the election delayed": {Do: zktest.Delay, After: true, For: 3 * time.Second, Op: recipetest.OpElect},
		"election withheld":             {Do: zktest.Withhold, Op: recipetest.OpElect},
		"reply to a read delayed":       {Do: zktest.Delay, After: true, For: 3 * time.Second, Op: "exists"},
	}, func(t *testing.T, w *recipetest.ElectionWorld, a, _ *zkrecipes.Election, fault zktest.Fault) {
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
}

func TestACampaignThatIsRefusedKeepsSomebodysZnodeAtTheLeadersPath(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		term := recipetest.Campaigns(t, b, "b")
		next := recipetest.CampaignLater(t, a, "a")
		w.DeleteLeader()
		w.CreateByHand(0)
		mayDo(w, zk.PermAll&^zk.PermCreate)
		w.Evict(term.Checks()[0])
		_, err := next.Wait()
		require.Error(t, err)
		time.Sleep(time.Minute)
		w.LeaderIs("by hand")
		require.Empty(t, w.Line())
	})
}

func TestATermThatEndsKeepsSomebodysZnodeAtTheLeadersPath(t *testing.T) {
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

func TestSomebodysZnodeAtTheLeadersPathKeepsTheNumbersFromBeginningAnew(t *testing.T) {
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
		require.EqualValues(t, 1, w.Line()[0].Number, "a container has had a child when it is new")
		require.NoError(t, term.Resign())
	})
}
