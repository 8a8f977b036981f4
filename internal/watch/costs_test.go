package watch_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// Readers of one Client share their requests, and the server keeps one watch for them.
func TestWatchesOfOneClientReadTogether(t *testing.T) {
	recipetest.InWatchBubble(t, func(t *testing.T, w *recipetest.WatchWorld, a, _ *zkrecipes.Client) {
		w.Creates(w.Path, "1")
		require.Equal(t, 1, w.ReadsOf(func() {
			for range 10 {
				recipetest.WatchesAt(t, a, w.Path)
			}
		})["getData"])
		require.Equal(t, 1, recipetest.WatchesOf(a))
		require.Equal(t, 1, recipetest.Sum(w.ReadsOf(func() { w.Sets(w.Path, "2") })))
		require.Equal(t, 1, recipetest.Sum(w.ReadsOf(func() { w.Deletes(w.Path) })))
	})
}
