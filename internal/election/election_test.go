package election_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// What users of elections rely on.

func TestA09OneCandidateLeadsAndResignationHandsOver(t *testing.T) {
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

func TestA10CandidatesLeadInTheOrderOfTheirCampaigns(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, _, _ *zkrecipes.Election) {
		term := recipetest.Campaigns(t, w.Election(nil), "first")
		var calls []*harness.Call[*zkrecipes.Term]
		for i := range 5 {
			calls = append(calls, recipetest.CampaignLater(t, w.Election(nil), fmt.Sprint(i)))
		}
		for i, call := range calls {
			require.NoError(t, term.Resign())
			synctest.Wait()
			for _, later := range calls[i+1:] {
				require.True(t, later.Waiting())
			}
			next := call.Get()
			require.Greater(t, next.Token(), term.Token())
			w.LeaderIs(fmt.Sprint(i))
			term = next
		}
		require.NoError(t, term.Resign())
	})
}

func TestA03ACandidateLeadsAfterTheLeadersSessionExpires(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		term := recipetest.Campaigns(t, a, "a")
		work := term.Context(t.Context())
		next := recipetest.CampaignLater(t, b, "b")
		w.Srv.Expire(recipetest.SessionID(recipetest.ClientOf(recipetest.LineOf(a).Client)))
		second := next.Get()
		w.LeaderIs("b")
		<-work.Done()
		require.ErrorIs(t, context.Cause(work), zkrecipes.ErrLost)
		require.ErrorIs(t, term.Resign(), zkrecipes.ErrLost)
		w.LeaderIs("b")
		require.NoError(t, second.Resign())
	})
}

func TestA05AnElectionWorksUnderAPrefix(t *testing.T) {
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

func TestA06TheLeaderReentersAndTheLastResignationEndsTheTerm(t *testing.T) {
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

func TestA07CampaignAndLeadWithTheLeadersContextReturnErrDeadlock(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		term := recipetest.Campaigns(t, a, "a")
		ctx := term.Context(t.Context())
		lead := func(ctx context.Context, e *zkrecipes.Election) error {
			return e.Lead(ctx, nil, func(context.Context, *zkrecipes.Term) error { return errors.New("called") })
		}
		_, err := a.Campaign(ctx, nil)
		require.ErrorIs(t, err, zkrecipes.ErrDeadlock)
		_, err = zkrecipes.NewElection(recipetest.ClientOf(recipetest.LineOf(a).Client), w.Path).Campaign(ctx, nil)
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

func TestA12ACanceledCampaignLeavesNoZnodeAndNoWatch(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		term := recipetest.Campaigns(t, a, "a")
		for range 200 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			_, err := b.Campaign(ctx, nil)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		time.Sleep(time.Second)
		require.Len(t, w.Srv.Children(w.Path), 2, "the leader's place and its znode")
		w.LeaderIs("a")
		require.LessOrEqual(t, recipetest.WatchesOf(recipetest.ClientOf(recipetest.LineOf(b).Client)), 1)
		require.NoError(t, term.Resign())
		w.NoLeader()
	})
}

func TestA16CancelingACandidateInTheMiddleElectsNobodyAndKeepsTheLeader(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, _, _ *zkrecipes.Election) {
		term := recipetest.Campaigns(t, w.Election(nil), "a")
		middle := recipetest.CampaignLater(t, w.Election(nil), "b")
		last := recipetest.CampaignLater(t, w.Election(nil), "c")
		middle.Cancel(nil)
		synctest.Wait()
		require.True(t, last.Waiting())
		w.LeaderIs("a")
		require.NoError(t, term.Resign())
		require.NoError(t, last.Get().Resign())
		w.NoLeader()
	})
}

func TestA13CampaignsOnOneValueExcludeEachOther(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, _, _ *zkrecipes.Election) {
		e := w.Election(nil)
		leading := 0
		var calls []*harness.Call[struct{}]
		for range 20 {
			calls = append(calls, harness.GoErr(t, func(ctx context.Context) error {
				term, err := e.Campaign(ctx, nil)
				if err != nil {
					return err
				}
				leading++ // the race detector looks, too
				time.Sleep(time.Millisecond)
				if leading--; leading != 0 {
					return errors.New("two leaders")
				}
				return term.Resign()
			}))
		}
		for _, call := range calls {
			_, err := call.Wait()
			require.NoError(t, err)
		}
		w.NoLeader()
	})
}

func TestA35ProclaimPublishesAnotherValueOfTheSameTerm(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		term := recipetest.Campaigns(t, a, "a")
		began, err := b.Leader(t.Context())
		require.NoError(t, err)
		require.Equal(t, zkrecipes.Leader{Value: []byte("a"), Token: term.Token(), Session: recipetest.SessionID(recipetest.ClientOf(recipetest.LineOf(a).Client)), Since: began.Since}, began)
		require.WithinDuration(t, time.Now(), began.Since, time.Second)
		require.NoError(t, term.Proclaim(t.Context(), []byte("a2")))
		now, err := b.Leader(t.Context())
		require.NoError(t, err)
		require.Equal(t, zkrecipes.Leader{Value: []byte("a2"), Token: term.Token(), Session: recipetest.SessionID(recipetest.ClientOf(recipetest.LineOf(a).Client)), Since: began.Since}, now)
		require.NoError(t, term.Resign())
		require.ErrorIs(t, term.Proclaim(t.Context(), nil), zkrecipes.ErrReleased)
	})
}

// The path is known to the servers for as long as there are candidates.
func TestA04AnIdleElectionsPathIsReapedAndObserversGoOn(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		require.NoError(t, recipetest.Campaigns(t, a, "a").Resign())
		o := recipetest.Follow(t, b)
		time.Sleep(3 * time.Hour)
		require.NotContains(t, w.Srv.Children("/"), w.Path[1:], "reaped")
		term := recipetest.Campaigns(t, a, "a2")
		synctest.Wait()
		require.Equal(t, []string{"none", "a2"}, o.Values())
		require.NoError(t, term.Resign())
	})
}

func TestA14AnElectionIsUsableAgainAfterEachFailure(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		term := recipetest.Campaigns(t, a, "a")
		waits := recipetest.CampaignLater(t, b, "b")
		require.NoError(t, w.Operator.Delete(w.Path+"/"+w.Line()[1].Name, -1))
		_, err := waits.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrEvicted)
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = b.Campaign(canceled, nil)
		require.ErrorIs(t, err, context.Canceled)
		w.Srv.Expire(recipetest.SessionID(recipetest.ClientOf(recipetest.LineOf(b).Client)))
		require.NoError(t, term.Resign())
		require.NoError(t, recipetest.Campaigns(t, b, "b").Resign())
		w.NoLeader()
	})
}
