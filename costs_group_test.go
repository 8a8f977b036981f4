package zkrecipes

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/group"
)

// The requests that groups take, by operation.

func TestJoinUpdateAndLeaveTakeFourRequests(t *testing.T) {
	inGroupBubble(t, func(t *testing.T, w *watchWorld, a, b *Client) {
		w.joins(b, "0", "")
		var m *Membership
		require.Equal(t, map[string]int{"multi(create)": 1, "getChildren2": 1}, w.requests(func() { m = w.joins(a, "1", "x") }))
		require.Equal(t, map[string]int{"multi(setData)": 1}, w.requests(func() {
			require.NoError(t, m.Update(t.Context(), []byte("x2")))
		}))
		require.Equal(t, map[string]int{"multi(delete)": 1}, w.requests(func() { require.NoError(t, m.Leave()) }))
	})
}

// A change costs each watcher one listing and a read for a new member, or one read for an
// updated one.
func TestAGroupsWatcherReadsWhatHasChanged(t *testing.T) {
	inGroupBubble(t, func(t *testing.T, w *watchWorld, a, b *Client) {
		for i := range 20 {
			w.joins(b, fmt.Sprint(i), "")
		}
		for range 3 { // of one Client: they share the requests, except the first sync
			w.sees(b)
		}
		r := w.sees(a)
		reads := func(f func()) map[string]int {
			counts := w.readsOf(func() { f(); settle() })
			for _, op := range []string{"multi(create)", "multi(setData)", "multi(delete)"} {
				delete(counts, op)
			}
			return counts
		}
		var m *Membership
		require.Equal(t, map[string]int{"getChildren2": 3, "getData": 2}, reads(func() { m = w.joins(a, "x", "") }), "and the member's watch on itself")
		require.Equal(t, map[string]int{"getData": 2}, reads(func() { require.NoError(t, m.Update(t.Context(), nil)) }))
		require.Equal(t, map[string]int{"getChildren2": 2}, reads(func() { require.NoError(t, m.Leave()) }))
		require.Empty(t, reads(func() { time.Sleep(time.Hour) }))
		require.Len(t, r.texts(), 4)
	})
}

// A thousand members restart within a second. Listings of each watcher are a pause apart at
// least, and each new member is read once.
func TestB104AThousandMembersThatRestartTakeFewListings(t *testing.T) {
	inGroupBubble(t, func(t *testing.T, w *watchWorld, a, b *Client) {
		const n, clients = 1000, 20
		members := make([][]*Membership, clients)
		owners := make([]*Client, clients)
		for i := range members {
			owners[i] = w.stranger(nil)
			for j := range n / clients {
				members[i] = append(members[i], w.joins(owners[i], fmt.Sprintf("%d-%d", i, j), "old"))
			}
		}
		readers := []*readout{w.sees(a), w.sees(b)}
		settle()
		began := time.Now()
		counts := w.readsOf(func() {
			for i := range members {
				for j, m := range members[i] {
					require.NoError(t, m.Leave())
					members[i][j] = w.joins(owners[i], m.ID(), "new")
					time.Sleep(time.Millisecond)
				}
			}
			settle()
		})
		rounds := int(time.Since(began)/group.Pause) + 1
		require.LessOrEqual(t, counts["getChildren2"]-n, len(readers)*rounds, "without those of the members themselves")
		require.LessOrEqual(t, counts["getData"], len(readers)*2*n)
		for _, r := range readers {
			require.LessOrEqual(t, len(r.texts()), rounds+1)
			require.NotContains(t, r.last(), "old")
			require.Len(t, r.last(), len(readers[0].last()))
		}
		require.LessOrEqual(t, rounds, 30)
	})
}
