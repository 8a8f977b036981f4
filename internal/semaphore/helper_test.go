package semaphore_test

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

// inBubble runs f, and requires that nothing is held and nobody waits afterwards.
func inBubble(t *testing.T, f func(t *testing.T, w *recipetest.World), opts ...zktest.Option) {
	t.Helper()
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		f(t, w)
		w.SemaphoreAtRest()
	}, opts...)
}

// requireLocked requires that a try returns ErrLocked.
func requireLocked(t *testing.T, x *zkrecipes.Semaphore, k int) {
	t.Helper()
	_, err := x.TryAcquireN(harness.Within(t, time.Minute), k)
	require.ErrorIs(t, err, zkrecipes.ErrLocked)
}

// requireSize requires that Acquire and TryAcquire of k slots fail because of these sizes.
func requireSize(t *testing.T, x *zkrecipes.Semaphore, k int, says string) {
	t.Helper()
	_, err := x.AcquireN(harness.Within(t, time.Minute), k)
	recipetest.RequireSize(t, err, says)
	_, err = x.TryAcquireN(harness.Within(t, time.Minute), k)
	recipetest.RequireSize(t, err, says)
}

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

// served has calls that wait get their slots, one after the other, and gives these back.
func served(t *testing.T, as ...*harness.Call[*zkrecipes.SlotLease]) {
	t.Helper()
	for _, a := range as {
		recipetest.ReleaseSlots(t, a.Get())
	}
}

func resize(t *testing.T, x *zkrecipes.Semaphore, n int) {
	t.Helper()
	require.NoError(t, x.Resize(harness.Within(t, time.Minute), n))
}

func clientOf(x *zkrecipes.Semaphore) *zkrecipes.Client {
	return recipetest.ClientOf(recipetest.SlotsOf(x).Line.Client)
}

// waits takes k slots of n, and requires that the call waits.
func waits(w *recipetest.World, n, k int) *harness.Call[*zkrecipes.SlotLease] {
	w.T.Helper()
	return recipetest.WaitsFor(w.T, w.Semaphore(n), k)
}

// stillWaits requires that calls still wait when all is quiet.
func stillWaits(t *testing.T, as ...*harness.Call[*zkrecipes.SlotLease]) {
	t.Helper()
	synctest.Wait()
	for _, a := range as {
		require.True(t, a.Waiting())
	}
}
