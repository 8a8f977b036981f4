package watch_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// The requests that watches send, by operation.

// Each reader's client sends one request for each change, and none while nothing changes.
func TestEachWatchReadsOnceForAChange(t *testing.T) {
	for _, n := range []int{1, 20} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, _, _ *zkrecipes.Client) {
				var readers []*recipetest.Readout
				for range n {
					c := w.Stranger(nil)
					require.Equal(t, map[string]int{"sync": 1, "getData": 1, "exists": 1}, w.ReadsOf(func() {
						readers = append(readers, recipetest.WatchesAt(t, c, w.Path))
					}))
				}
				require.Equal(t, map[string]int{"getData": n}, w.ReadsOf(func() { w.Creates(w.Path, "1") }))
				require.Equal(t, map[string]int{"getData": n}, w.ReadsOf(func() { w.Sets(w.Path, "2") }))
				require.Equal(t, map[string]int{"exists": n}, w.ReadsOf(func() { w.Deletes(w.Path) }))
				require.Empty(t, w.ReadsOf(func() { time.Sleep(time.Hour) }))
				for _, r := range readers {
					require.Equal(t, []string{"none", "1", "2", "none"}, r.Texts())
				}
			})
		})
	}
}

func TestEachWatchOfChildrenListsOnceForAChange(t *testing.T) {
	recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, _ *zkrecipes.Client) {
		require.Equal(t, map[string]int{"sync": 1, "getChildren2": 1, "exists": 1}, w.ReadsOf(func() { recipetest.ListsOf(t, a, w.Path) }))
		require.Equal(t, map[string]int{"getChildren2": 1}, w.ReadsOf(func() { w.Creates(w.Path, "1") }))
		require.Empty(t, w.ReadsOf(func() { w.Sets(w.Path, "2") }))
		require.Equal(t, map[string]int{"getChildren2": 1}, w.ReadsOf(func() { w.Creates(w.Path+"/a", "") }))
		require.Equal(t, map[string]int{"getChildren2": 1}, w.ReadsOf(func() { w.Deletes(w.Path + "/a") }))
		require.Equal(t, map[string]int{"exists": 1}, w.ReadsOf(func() { w.Deletes(w.Path) }))
	})
}

// Readers of one Client share their requests, and the server keeps one watch for them.
func TestWatchesOfOneClientReadTogether(t *testing.T) {
	recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, _ *zkrecipes.Client) {
		w.Creates(w.Path, "1")
		require.Equal(t, map[string]int{"sync": 10, "getData": 1}, w.ReadsOf(func() {
			for range 10 {
				recipetest.WatchesAt(t, a, w.Path)
			}
		}))
		require.Equal(t, 1, recipetest.WatchesOf(a))
		require.Equal(t, map[string]int{"getData": 1}, w.ReadsOf(func() { w.Sets(w.Path, "2") }))
		require.Equal(t, map[string]int{"exists": 1}, w.ReadsOf(func() { w.Deletes(w.Path) }))
	})
}
