package election_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// The requests that an Election sends, by operation.

func TestA35FreeElectionAndResignationTakeThreeRequests(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, _ *zkrecipes.Election) {
		require.NoError(t, recipetest.Campaigns(t, a, "a").Resign())
		require.Equal(t, map[string]int{recipetest.OpJoin: 1, recipetest.OpElect: 1, recipetest.OpResign: 1}, w.Requests(func() {
			require.NoError(t, recipetest.Campaigns(t, a, "a").Resign())
		}))
	})
}

// Both znodes of a term that lasts are watched, once.
func TestA35ALongTermTakesTwoMoreRequests(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, _ *zkrecipes.Election) {
		term := recipetest.Campaigns(t, a, "a")
		require.Equal(t, map[string]int{"getData": 1, "getChildren2": 1, recipetest.OpProclaim: 5}, w.RequestsWithoutPings(func() {
			time.Sleep(time.Minute)
			for range 5 { // fires neither watch
				require.NoError(t, term.Proclaim(t.Context(), nil))
			}
			time.Sleep(time.Minute)
		}))
		require.NoError(t, term.Resign())
	})
}

// However many wait, a resignation wakes one candidate, whose only request is the
// transaction by which it leads.
func TestA35AChangeOfLeaderWakesOneCandidate(t *testing.T) {
	for _, n := range []int{1, 2, 16, 200} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, _ *zkrecipes.Election) {
				term := recipetest.Campaigns(t, a, "a")
				var calls []*harness.Call[*zkrecipes.Term]
				for range n {
					e := w.Election(nil)
					calls = append(calls, recipetest.CampaignLater(t, e, "b"))
					recipetest.AskOnce(t, recipetest.ClientOf(recipetest.LineOf(e).Client))
				}
				for i, call := range calls {
					before := w.Srv.Counts()
					require.Equal(t, map[string]int{recipetest.OpResign: 1, recipetest.OpElect: 1}, w.Requests(func() {
						require.NoError(t, term.Resign())
						term = call.Get()
					}))
					events := 0
					for _, n := range w.Srv.Counts().Sub(before).Events {
						events += n
					}
					require.LessOrEqual(t, events, 4, "the successor's, and the resigned leader's own")
					if i == 20 {
						break
					}
				}
				require.NoError(t, term.Resign())
			})
		})
	}
}

// Each observer sends one request each time that the leader's znode is created, changed
// or deleted, and none while nothing changes.
func TestA35EachObserverReadsOnceForAChange(t *testing.T) {
	for _, n := range []int{1, 20} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
				var followers []*recipetest.Follower
				for range n {
					followers = append(followers, recipetest.Follow(t, w.Election(nil)))
				}
				require.NoError(t, recipetest.Campaigns(t, a, "").Resign())
				synctest.Wait()
				var term *zkrecipes.Term
				reads := func(f func()) map[string]int {
					counts := w.RequestsWithoutPings(f)
					for _, op := range []string{recipetest.OpJoin, recipetest.OpElect, recipetest.OpResign, recipetest.OpProclaim} {
						delete(counts, op)
					}
					return counts
				}
				require.Equal(t, map[string]int{"getData": n}, reads(func() { term = recipetest.Campaigns(t, a, "a") }), "a leader")
				require.Equal(t, map[string]int{"getData": n}, reads(func() {
					require.NoError(t, term.Proclaim(t.Context(), []byte("a2")))
				}), "another value")
				require.Equal(t, map[string]int{"exists": n}, reads(func() { require.NoError(t, term.Resign()) }), "none")
				require.Equal(t, map[string]int{"exists": 1, "delete": 1}, reads(func() { time.Sleep(time.Hour) }), "the candidate deletes the idle line")
				for _, o := range followers {
					all := o.Values()
					require.Equal(t, []string{"a", "a2", "none"}, all[len(all)-3:])
				}
			})
		})
	}
}

// Observers of one Client share their requests.
func TestA35ObserversOfOneClientReadTogether(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		for range 10 {
			recipetest.Follow(t, b)
		}
		require.Equal(t, 1, w.Requests(func() { recipetest.Campaigns(t, a, "a") })["getData"]-1, "and one of the first join")
	})
}

func TestA35LeaderTakesTwoRequests(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, b *zkrecipes.Election) {
		recipetest.Campaigns(t, a, "a")
		require.Equal(t, map[string]int{"sync": 1, "getData": 1}, w.Requests(func() {
			_, err := b.Leader(t.Context())
			require.NoError(t, err)
		}))
	})
}

// A second call of Lead in a process takes no place.
func TestA35ASecondLeadOfAProcessTakesNoRequest(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, a, _ *zkrecipes.Election) {
		l := recipetest.Lead(t, a, false)
		require.Empty(t, w.Requests(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			require.ErrorIs(t, a.Lead(ctx, nil, l.Run), context.DeadlineExceeded)
		}))
		l.Ret <- nil
		l.Get()
	})
}
