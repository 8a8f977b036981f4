package line_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// What each fault at each request of a LockAll does is in the table of faults.

// The call waits for a lock, or is about to return: the context of the last lease is made
// of the caller's when all locks are held.
func TestLockAllWhoseClientIsClosedReturnsErrClosed(t *testing.T) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, _, _ *zkrecipes.Election) {
		c, other := w.Stranger(nil), w.Stranger(nil)
		recipetest.LockOn(t, zkrecipes.NewMutex(w.Stranger(nil), "/b"))
		held := recipetest.LockAll(t, recipetest.Mutexes(c, "/c", "/d")...)
		var waiting []*harness.Call[*zkrecipes.Leases]
		for i := range 200 {
			waiting = append(waiting, recipetest.LockAllLater(t, recipetest.Mutexes(c, fmt.Sprintf("/a%d", i), "/b")...))
		}
		var once sync.Once
		_, err := zkrecipes.LockAll(recipetest.Hooked{Context: t.Context(), F: func() {
			if len(w.Srv.Children("/e")) > 0 {
				once.Do(func() { require.NoError(t, other.Close()) })
			}
		}}, zkrecipes.NewMutex(other, "/e"))
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		require.ErrorContains(t, err, "zkrecipes: lock all /e")

		require.NoError(t, c.Close())
		for _, call := range waiting {
			_, err := call.Wait()
			require.ErrorIs(t, err, zkrecipes.ErrClosed)
			require.ErrorContains(t, err, "zkrecipes: lock all /")
		}
		require.ErrorIs(t, held.Err(), zkrecipes.ErrClosed)
		require.ErrorIs(t, held.Release(), zkrecipes.ErrClosed)
		w.IsFree("/c", "/d")
	})
}
