package election_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

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
					require.Equal(t, 2, recipetest.Sum(w.Requests(func() {
						require.NoError(t, term.Resign())
						term = call.Get()
					})))
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
