package semaphore_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/semaphore"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// A value that knows of free slots, and asks nobody, does not overtake either.
func TestSemaphoreThatRemembersFreeSlotsDoesNotOvertake(t *testing.T) {
	recipetest.InSemaphoreBubble(t, func(t *testing.T, w *recipetest.World) {
		x := w.WarmSemaphore(2)
		held := recipetest.Acquire(t, x, 1)
		large := w.WaitsForSlots(2, 2)
		small := recipetest.WaitsFor(t, x, 1)
		require.Equal(t, []int{0}, w.Taken())
		recipetest.ReleaseSlots(t, held)
		recipetest.Served(t, large, small)
	})
}

// The value knows free slots, and the version of a line which was deleted since. Another
// line has the same version.
func TestSemaphoreThatRemembersAnotherLineDoesNotOvertake(t *testing.T) {
	recipetest.InSemaphoreBubble(t, func(t *testing.T, w *recipetest.World) {
		x := w.WarmSemaphore(1)
		recipetest.RemoveTree(t, w.Bare(), "/s")
		held := recipetest.Acquire(t, w.Semaphore(1), 1)
		first := w.WaitsForSlots(1, 1)
		requests := w.Requests(func() {
			recipetest.RequireLocked(t, x, 1)
		})
		require.Equal(t, 1, requests[recipetest.OpTakeFree], "it was tried")
		synctest.Wait()
		require.Equal(t, []int{0}, w.Taken(), "and given back")
		next := recipetest.WaitsFor(t, x, 1)
		recipetest.ReleaseSlots(t, held)
		l := first.Get()
		recipetest.StillWaits(t, next)
		recipetest.ReleaseSlots(t, l)
		recipetest.Served(t, next)
	})
}

// After 2^32 takings the line's data have the version that stands for any.
func TestSemaphoreDoesNotRelyOnAVersionThatStandsForAny(t *testing.T) {
	recipetest.InSemaphoreBubble(t, func(t *testing.T, w *recipetest.World) {
		x := semaphore.New(w.NewCore().Client, "/s", 1)
		acquire := func(wait bool) (release func() error, err error) {
			g, err := x.Acquire(harness.Within(t, time.Minute), 1, wait)
			if err != nil {
				return nil, err
			}
			return g.Handle.Release, nil
		}
		use := func() {
			release, err := acquire(true)
			require.NoError(t, err)
			require.NoError(t, release())
		}
		use() // stands in line
		use()
		synctest.Wait()
		held := recipetest.Acquire(t, w.Semaphore(1), 1)
		x.SetKnownLine(-1)
		_, err := acquire(false)
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		require.Equal(t, []int{0}, w.Taken())
		recipetest.ReleaseSlots(t, held)
		use()
	})
}

// untilReturned has others use a slot until a call returns, and tells how often.
func untilReturned[R any](t *testing.T, a *harness.Call[R], use func()) (uses int) {
	t.Helper()
	for ; a.Waiting(); uses++ {
		require.Less(t, uses, 20*zkconn.MaxTries)
		use()
	}
	return uses
}

// A slot is free all the time, and each transaction that takes it comes too late.
func TestTryAcquireReturnsErrLockedIfOthersAreQuickerEachTime(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		x, use := w.DistantSemaphore()
		before := w.Srv.Counts()
		a := harness.Go(t, x.TryAcquire)
		uses := untilReturned(t, a, use)
		recipetest.Fails(t, a, zkrecipes.ErrLocked)
		require.Equal(t, uses+zkconn.MaxTries, w.Srv.Counts().Sub(before).Requests[recipetest.OpTakeFree])
		require.Empty(t, w.Srv.Children("/s/slots"))
		cycle(t, x, 2)
	})
}

// A caller that may wait stands in line then, and nobody is quicker any more.
func TestAcquireStandsInLineIfOthersAreQuickerEachTime(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		x, use := w.DistantSemaphore()
		before := w.Srv.Counts()
		a := recipetest.AcquireLater(t, x, 1)
		uses := untilReturned(t, a, use)
		did := w.Srv.Counts().Sub(before).Requests
		require.Positive(t, did[recipetest.OpTakeTurn])
		require.LessOrEqual(t, did[recipetest.OpTakeFree], uses+3, "after four attempts")
		recipetest.Served(t, a)
		require.Empty(t, w.Srv.Children("/s/slots"))
	})
}
