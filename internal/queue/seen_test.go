package queue_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// A claim ends just as its item is handed out. Either no consumer gets the item, or that was an
// attempt: no consumer sees an attempt that another one has seen.
func TestAnAttemptIsSeenOnce(t *testing.T) {
	eachInBubble(t, map[string]bool{"ended before": false, "ended after": true}, func(t *testing.T, w *recipetest.World, after bool) {
		q := recipetest.QueueOf(w.Queue(w.Stranger(nil)))
		recipetest.PutOn(t, w.Queue(w.Stranger(nil)), "x")
		items, err := q.Take(t.Context(), 1)
		require.NoError(t, err)
		it := items[0]
		if after {
			require.True(t, it.Seen())
		}
		require.NoError(t, it.Handle.Release())
		synctest.Wait()
		seen := 0
		if it.Seen() {
			seen = it.Claim.Attempt
		}
		next := recipetest.TakeOn(t, w.Queue(w.Stranger(nil)))
		require.Equal(t, seen+1, next.Attempt)
		require.Equal(t, after, seen == 1)
	})
}
