package line_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// What the delay depends on is how a real server counts the changes of a line.
func TestRealLockDelayFollowsADeletionAndNoRelease(t *testing.T) {
	t.Parallel()
	r := recipetest.NewRig(t, nil)
	const delay = 5 * time.Second
	path := r.Path + "-delayed"
	first := zkrecipes.NewMutex(r.C, path, zkrecipes.LockDelay(delay))
	second := zkrecipes.NewMutex(recipetest.Dial(t, nil), path, zkrecipes.LockDelay(delay))
	evict := func(l *zkrecipes.Lease) (at time.Time) {
		at = time.Now()
		require.NoError(t, r.Raw.Delete(l.Check().Path, -1))
		return at
	}

	l := recipetest.LockOn(t, first)
	next := recipetest.LockLater(t, second)
	began := time.Now()
	require.NoError(t, l.Release())
	l = next.Get()
	require.Less(t, time.Since(began), delay, "after a release, to a waiter")
	began = time.Now()
	require.NoError(t, l.Release())
	l = recipetest.LockOn(t, first)
	require.Less(t, time.Since(began), delay, "after a release, to a newcomer")

	next = recipetest.LockLater(t, second)
	began = evict(l)
	l = next.Get()
	require.GreaterOrEqual(t, time.Since(began), delay, "after an eviction, to a waiter")
	began = evict(l)
	l = recipetest.LockOn(t, first)
	require.GreaterOrEqual(t, time.Since(began), delay, "after an eviction, to a newcomer")
	require.NoError(t, l.Release())
}
