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

// The requests that groups take, by operation.

func TestJoinUpdateAndLeaveTakeFourRequests(t *testing.T) {
	recipetest.InGroupBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, b *zkrecipes.Client) {
		w.Joins(b, "0", "")
		var m *zkrecipes.Membership
		require.Equal(t, map[string]int{"multi(create)": 1, "getChildren2": 1}, w.Requests(func() { m = w.Joins(a, "1", "x") }))
		require.Equal(t, map[string]int{"multi(setData)": 1}, w.Requests(func() {
			require.NoError(t, m.Update(t.Context(), []byte("x2")))
		}))
		require.Equal(t, map[string]int{"multi(delete)": 1}, w.Requests(func() { require.NoError(t, m.Leave()) }))
	})
}

// A change costs each watcher one listing and a read for a new member, or one read for an
// updated one.
func TestAGroupsWatcherReadsWhatHasChanged(t *testing.T) {
	recipetest.InGroupBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, b *zkrecipes.Client) {
		for i := range 20 {
			w.Joins(b, fmt.Sprint(i), "")
		}
		for range 3 { // of one Client: they share the requests, except the first sync
			w.Sees(b)
		}
		r := w.Sees(a)
		reads := func(f func()) map[string]int {
			counts := w.ReadsOf(func() { f(); recipetest.Settle() })
			for _, op := range []string{"multi(create)", "multi(setData)", "multi(delete)"} {
				delete(counts, op)
			}
			return counts
		}
		var m *zkrecipes.Membership
		require.Equal(t, map[string]int{"getChildren2": 3, "getData": 2}, reads(func() { m = w.Joins(a, "x", "") }), "and the member's watch on itself")
		require.Equal(t, map[string]int{"getData": 2}, reads(func() { require.NoError(t, m.Update(t.Context(), nil)) }))
		require.Equal(t, map[string]int{"getChildren2": 2}, reads(func() { require.NoError(t, m.Leave()) }))
		require.Empty(t, reads(func() { time.Sleep(time.Hour) }))
		require.Len(t, r.Texts(), 4)
	})
}

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
