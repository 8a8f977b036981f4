package semaphore_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

// requireInUse requires that a semaphore's path is somebody else's, which it leaves alone.
func requireInUse(t *testing.T, x *zkrecipes.Semaphore, says string) {
	t.Helper()
	for _, err := range []error{second(x.Acquire(t.Context())), second(x.TryAcquire(t.Context())), x.Resize(t.Context(), 3)} {
		require.ErrorIs(t, err, zkrecipes.ErrPathInUse)
		require.ErrorContains(t, err, says)
	}
}

func second[A any](_ A, err error) error { return err }

// cycle takes k slots and gives them back.
func cycle(t *testing.T, x *zkrecipes.Semaphore, k int) {
	t.Helper()
	recipetest.ReleaseSlots(t, recipetest.Acquire(t, x, k))
}
