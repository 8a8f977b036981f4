package group_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/group"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// A thousand members restart within a second. Listings of each watcher are a pause apart at
// least, and each new member is read once.
func TestB104AThousandMembersThatRestartTakeFewListings(t *testing.T) {
	recipetest.InGroupBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, b *zkrecipes.Client) {
		const n, clients = 1000, 20
		members := make([][]*zkrecipes.Membership, clients)
		owners := make([]*zkrecipes.Client, clients)
		for i := range members {
			owners[i] = w.Stranger(nil)
			for j := range n / clients {
				members[i] = append(members[i], w.Joins(owners[i], fmt.Sprintf("%d-%d", i, j), "old"))
			}
		}
		readers := []*recipetest.Readout{w.Sees(a), w.Sees(b)}
		recipetest.Settle()
		began := time.Now()
		counts := w.ReadsOf(func() {
			for i := range members {
				for j, m := range members[i] {
					require.NoError(t, m.Leave())
					members[i][j] = w.Joins(owners[i], m.ID(), "new")
					time.Sleep(time.Millisecond)
				}
			}
			recipetest.Settle()
		})
		rounds := int(time.Since(began)/group.Pause) + 1
		require.LessOrEqual(t, counts["getChildren2"]-n, len(readers)*rounds, "without those of the members themselves")
		require.LessOrEqual(t, counts["getData"], len(readers)*2*n)
		for _, r := range readers {
			require.LessOrEqual(t, len(r.Texts()), rounds+1)
			require.NotContains(t, r.Last(), "old")
			require.Len(t, r.Last(), len(readers[0].Last()))
		}
		require.LessOrEqual(t, rounds, 30)
	})
}
