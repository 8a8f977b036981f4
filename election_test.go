package zkrecipes_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

func TestOneCandidateLeadsAndResignationHandsOver(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		first := recipetest.Campaigns(t, a, "a")
		w.LeaderIs("a")
		second := recipetest.CampaignLater(t, b, "b")
		require.True(t, second.Waiting())
		require.NoError(t, first.Resign())
		require.ErrorIs(t, first.Err(), zkrecipes.ErrReleased)
		next := second.Get()
		w.LeaderIs("b")
		require.Greater(t, next.Token(), first.Token())
		require.NoError(t, next.Resign())
		w.NoLeader()
	})
}

func TestAnElectionWorksUnderAPrefix(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, _, _ *zkrecipes.Election) {
		inside, outside := zkrecipes.NewElection(w.Stranger(&zkrecipes.Options{Prefix: "/apps/one"}), "/shards/7/leader"), zkrecipes.NewElection(w.Stranger(nil), "/apps/one/shards/7/leader")
		term := recipetest.Campaigns(t, inside, "a")
		seen, err := outside.Leader(t.Context())
		require.NoError(t, err)
		require.Equal(t, "a", string(seen.Value))
		require.NoError(t, term.Proclaim(t.Context(), []byte("b")))
		seen, err = inside.Leader(t.Context())
		require.NoError(t, err)
		require.Equal(t, "b", string(seen.Value))
		require.NoError(t, term.Resign())
	})
}

func TestTheLeaderReentersAndTheLastResignationEndsTheTerm(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, _ *zkrecipes.Election) {
		term := recipetest.Campaigns(t, a, "a")
		requests := w.Requests(func() {
			again, err := a.Campaign(term.Reentrant(t.Context()), []byte("ignored"))
			require.NoError(t, err)
			require.Equal(t, term.Token(), again.Token())
			require.NoError(t, again.Resign())
		})
		require.Empty(t, requests)
		w.LeaderIs("a")
		require.NoError(t, term.Resign())
		w.NoLeader()
	})
}

func TestCampaignAndLeadWithTheLeadersContextReturnErrDeadlock(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		term := recipetest.Campaigns(t, a, "a")
		ctx := term.Context(t.Context())
		lead := func(ctx context.Context, e *zkrecipes.Election) error {
			return e.Lead(ctx, nil, func(context.Context, *zkrecipes.Term) error { return errors.New("called") })
		}
		_, err := a.Campaign(ctx, nil)
		require.ErrorIs(t, err, zkrecipes.ErrDeadlock)
		_, err = zkrecipes.NewElection(w.ClientOf(a), w.Path).Campaign(ctx, nil)
		require.ErrorIs(t, err, zkrecipes.ErrDeadlock)
		require.ErrorIs(t, lead(ctx, a), zkrecipes.ErrDeadlock)
		require.ErrorIs(t, lead(term.Reentrant(t.Context()), a), zkrecipes.ErrDeadlock)

		other, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		require.ErrorIs(t, lead(other, b), context.DeadlineExceeded, "another session's candidate waits")
		require.NoError(t, term.Resign())
		require.EqualError(t, lead(t.Context(), a), "called")
	})
}

func TestProclaimPublishesAnotherValueOfTheSameTerm(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		term := recipetest.Campaigns(t, a, "a")
		began, err := b.Leader(t.Context())
		require.NoError(t, err)
		require.Equal(t, zkrecipes.Leader{Value: []byte("a"), Token: term.Token(), Session: recipetest.SessionID(w.ClientOf(a)), Since: began.Since}, began)
		require.WithinDuration(t, time.Now(), began.Since, time.Second)
		require.NoError(t, term.Proclaim(t.Context(), []byte("a2")))
		now, err := b.Leader(t.Context())
		require.NoError(t, err)
		require.Equal(t, zkrecipes.Leader{Value: []byte("a2"), Token: term.Token(), Session: recipetest.SessionID(w.ClientOf(a)), Since: began.Since}, now)
		require.NoError(t, term.Resign())
		require.ErrorIs(t, term.Proclaim(t.Context(), nil), zkrecipes.ErrReleased)
	})
}

// An operator deposes the leader: its place stands for up to a tenth of the session timeout.
func TestChecksOfATermGuardItsPlaceAndTheLeadersZnode(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, _ *zkrecipes.Election) {
		term := recipetest.Campaigns(t, a, "a")
		var ops []any
		for _, check := range term.Checks() {
			ops = append(ops, check)
		}
		require.Len(t, ops, 2)
		_, err := w.Operator.Multi(ops...)
		require.NoError(t, err)
		require.NoError(t, w.Operator.Delete(w.Path+"/leader", -1))
		_, err = w.Operator.Multi(ops[0])
		require.NoError(t, err, "the place alone proves nothing")
		_, err = w.Operator.Multi(ops...)
		require.ErrorIs(t, err, zk.ErrNoNode)
		require.ErrorIs(t, first(term.Commit(t.Context())), zkrecipes.ErrLost)
	})
}

// Other libraries' places in the line, such as those of Curator's LeaderSelector.
func TestACandidateWaitsForOtherLibrariesPlaces(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, _ *zkrecipes.Election) {
		require.NoError(t, recipetest.Campaigns(t, a, "a").Resign())
		name := w.JoinByHand()
		next := recipetest.CampaignLater(t, a, "a")
		require.True(t, next.Waiting())
		require.ErrorIs(t, errOf(a.Leader)(t.Context()), zkrecipes.ErrNoLeader)
		require.NoError(t, w.Operator.Delete(name, -1))
		require.NoError(t, next.Get().Resign())
	})
}

// A LeaderLatch decides by another rule who leads, so both would lead.
func TestElectionRefusesThePathOfALeaderLatch(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		latch := func() (path string) {
			path, err := w.Operator.Create(w.Path+"/_c_"+recipetest.CuratorUUID(1)+"-latch-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			return path
		}
		w.Write(w.Path, "")
		first := latch()
		_, err := a.Campaign(harness.Within(t, time.Minute), nil)
		require.ErrorIs(t, err, zkrecipes.ErrPathInUse)
		require.ErrorContains(t, err, first[len(w.Path)+1:])
		require.ErrorIs(t, a.Lead(harness.Within(t, time.Minute), nil, func(context.Context, *zkrecipes.Term) error { return nil }), zkrecipes.ErrPathInUse)
		require.ErrorIs(t, errOf(zkrecipes.NewMutex(w.ClientOf(a), w.Path).TryLock)(harness.Within(t, time.Minute)), zkrecipes.ErrPathInUse)
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

func TestLeadResignsOnceItsFunctionHasReturned(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, _ *zkrecipes.Election) {
		broken := errors.New("broken")
		for _, want := range []error{nil, broken} {
			err := a.Lead(t.Context(), []byte("a"), func(ctx context.Context, term *zkrecipes.Term) error {
				require.NoError(t, term.Err())
				w.LeaderIs("a")
				return want
			})
			require.Equal(t, want, err)
			w.NoLeader()
		}
		require.PanicsWithValue(t, "oh", func() {
			_ = a.Lead(t.Context(), nil, func(context.Context, *zkrecipes.Term) error { panic("oh") })
		})
		w.NoLeader()
		require.EqualError(t, a.Lead(t.Context(), nil, func(context.Context, *zkrecipes.Term) error { return broken }), "broken")
	})
}

func TestLeadEndsWithItsContextWhileItCampaigns(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		term := recipetest.Campaigns(t, a, "a")
		why := errors.New("why")
		first, second := recipetest.Lead(t, b, false), recipetest.Lead(t, b, false)
		second.Cancel(why) // it waits in the process
		recipetest.Fails(t, second.Call, context.Canceled, why)
		first.Cancel(why)
		require.ErrorContains(t, recipetest.Fails(t, first.Call, why), "zkrecipes: lead "+w.Path)
		synctest.Wait()
		require.Len(t, w.Line(), 1)
		require.NoError(t, term.Resign())
	})
}

func TestObserveYieldsEachLeaderAndNone(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		o := recipetest.Follow(t, w.Election(nil)) // the path does not exist yet
		first := recipetest.Campaigns(t, a, "a")
		synctest.Wait()
		require.NoError(t, first.Proclaim(t.Context(), []byte("a2")))
		synctest.Wait()
		require.NoError(t, first.Proclaim(t.Context(), []byte("a2")), "the same again")
		synctest.Wait()
		require.NoError(t, first.Resign())
		synctest.Wait()
		second := recipetest.Campaigns(t, b, "")
		synctest.Wait()
		w.Srv.Expire(recipetest.SessionID(w.ClientOf(b)))
		synctest.Wait()
		require.Equal(t, []string{"none", "a", "a2", "none", "", "none"}, o.Texts())
		require.Equal(t, first.Token(), o.Seen[1].Token)
		require.Equal(t, first.Token(), o.Seen[2].Token)
		require.Equal(t, second.Token(), o.Seen[4].Token)
		require.Equal(t, recipetest.SessionID(w.ClientOf(a)), o.Seen[1].Session)
		o.Stop()
		require.ErrorIs(t, o.Ended(), context.Canceled)
	})
}
