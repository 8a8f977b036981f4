package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
)

// What users of elections rely on.

func TestA09OneCandidateLeadsAndResignationHandsOver(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		first := campaigns(t, a, "a")
		w.leaderIs("a")
		second := campaignLater(t, b, "b")
		require.True(t, second.Waiting())
		require.NoError(t, first.Resign())
		require.ErrorIs(t, first.Err(), ErrReleased)
		next := second.Get()
		w.leaderIs("b")
		require.Greater(t, next.Token(), first.Token())
		require.NoError(t, next.Resign())
		w.noLeader()
	})
}

func TestA10CandidatesLeadInTheOrderOfTheirCampaigns(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, _, _ *Election) {
		term := campaigns(t, w.election(nil), "first")
		var calls []*harness.Call[*Term]
		for i := range 5 {
			calls = append(calls, campaignLater(t, w.election(nil), fmt.Sprint(i)))
		}
		for i, call := range calls {
			require.NoError(t, term.Resign())
			synctest.Wait()
			for _, later := range calls[i+1:] {
				require.True(t, later.Waiting())
			}
			next := call.Get()
			require.Greater(t, next.Token(), term.Token())
			w.leaderIs(fmt.Sprint(i))
			term = next
		}
		require.NoError(t, term.Resign())
	})
}

func TestA03ACandidateLeadsAfterTheLeadersSessionExpires(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		term := campaigns(t, a, "a")
		work := term.Context(t.Context())
		next := campaignLater(t, b, "b")
		w.srv.Expire(sessionID(clientOf(a.line.Client)))
		second := next.Get()
		w.leaderIs("b")
		<-work.Done()
		require.ErrorIs(t, context.Cause(work), ErrLost)
		require.ErrorIs(t, term.Resign(), ErrLost)
		w.leaderIs("b")
		require.NoError(t, second.Resign())
	})
}

func TestA05AnElectionWorksUnderAPrefix(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, _, _ *Election) {
		inside, outside := NewElection(w.stranger(&Options{Prefix: "/apps/one"}), "/shards/7/leader"), NewElection(w.stranger(nil), "/apps/one/shards/7/leader")
		term := campaigns(t, inside, "a")
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
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, _ *Election) {
		term := campaigns(t, a, "a")
		requests := w.requests(func() {
			again, err := a.Campaign(term.Reentrant(t.Context()), []byte("ignored"))
			require.NoError(t, err)
			require.Equal(t, term.Token(), again.Token())
			require.NoError(t, again.Resign())
		})
		require.Empty(t, requests)
		w.leaderIs("a")
		require.NoError(t, term.Resign())
		w.noLeader()
	})
}

func TestA07CampaignAndLeadWithTheLeadersContextReturnErrDeadlock(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		term := campaigns(t, a, "a")
		ctx := term.Context(t.Context())
		lead := func(ctx context.Context, e *Election) error {
			return e.Lead(ctx, nil, func(context.Context, *Term) error { return errors.New("called") })
		}
		_, err := a.Campaign(ctx, nil)
		require.ErrorIs(t, err, ErrDeadlock)
		_, err = NewElection(clientOf(a.line.Client), w.path).Campaign(ctx, nil)
		require.ErrorIs(t, err, ErrDeadlock)
		require.ErrorIs(t, lead(ctx, a), ErrDeadlock)
		require.ErrorIs(t, lead(term.Reentrant(t.Context()), a), ErrDeadlock)

		other, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		require.ErrorIs(t, lead(other, b), context.DeadlineExceeded, "another session's candidate waits")
		require.NoError(t, term.Resign())
		require.EqualError(t, lead(t.Context(), a), "called")
	})
}

func TestA12ACanceledCampaignLeavesNoZnodeAndNoWatch(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		term := campaigns(t, a, "a")
		for range 200 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			_, err := b.Campaign(ctx, nil)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		time.Sleep(time.Second)
		require.Len(t, w.srv.Children(w.path), 2, "the leader's place and its znode")
		w.leaderIs("a")
		require.LessOrEqual(t, watchesOf(clientOf(b.line.Client)), 1)
		require.NoError(t, term.Resign())
		w.noLeader()
	})
}

func TestA16CancelingACandidateInTheMiddleElectsNobodyAndKeepsTheLeader(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, _, _ *Election) {
		term := campaigns(t, w.election(nil), "a")
		middle := campaignLater(t, w.election(nil), "b")
		last := campaignLater(t, w.election(nil), "c")
		middle.Cancel(nil)
		synctest.Wait()
		require.True(t, last.Waiting())
		w.leaderIs("a")
		require.NoError(t, term.Resign())
		require.NoError(t, last.Get().Resign())
		w.noLeader()
	})
}

func TestA13CampaignsOnOneValueExcludeEachOther(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, _, _ *Election) {
		e := w.election(nil)
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
		w.noLeader()
	})
}

func TestA35ProclaimPublishesAnotherValueOfTheSameTerm(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		term := campaigns(t, a, "a")
		began, err := b.Leader(t.Context())
		require.NoError(t, err)
		require.Equal(t, Leader{[]byte("a"), term.Token(), sessionID(clientOf(a.line.Client)), began.Since}, began)
		require.WithinDuration(t, time.Now(), began.Since, time.Second)
		require.Equal(t, map[string]int{opProclaim: 1}, w.requests(func() {
			require.NoError(t, term.Proclaim(t.Context(), []byte("a2")))
		}))
		now, err := b.Leader(t.Context())
		require.NoError(t, err)
		require.Equal(t, Leader{[]byte("a2"), term.Token(), sessionID(clientOf(a.line.Client)), began.Since}, now)
		require.NoError(t, term.Resign())
		require.ErrorIs(t, term.Proclaim(t.Context(), nil), ErrReleased)
	})
}

// The path is known to the servers for as long as there are candidates.
func TestA04AnIdleElectionsPathIsReapedAndObserversGoOn(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		require.NoError(t, campaigns(t, a, "a").Resign())
		o := follow(t, b)
		time.Sleep(3 * time.Hour)
		require.NotContains(t, w.srv.Children("/"), w.path[1:], "reaped")
		term := campaigns(t, a, "a2")
		synctest.Wait()
		require.Equal(t, []string{"none", "a2"}, o.values())
		require.NoError(t, term.Resign())
	})
}

func TestA14AnElectionIsUsableAgainAfterEachFailure(t *testing.T) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, a, b *Election) {
		term := campaigns(t, a, "a")
		waits := campaignLater(t, b, "b")
		require.NoError(t, w.operator.Delete(w.path+"/"+w.line()[1].Name, -1))
		_, err := waits.Wait()
		require.ErrorIs(t, err, ErrEvicted)
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = b.Campaign(canceled, nil)
		require.ErrorIs(t, err, context.Canceled)
		w.srv.Expire(sessionID(clientOf(b.line.Client)))
		require.NoError(t, term.Resign())
		require.NoError(t, campaigns(t, b, "b").Resign())
		w.noLeader()
	})
}
