package semaphore_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// A departure wakes the first in line. If that enters, it wakes its successor, which is
// then the first. Nobody else wakes, however many wait.
func TestSemaphoreDepartureWakesTheFirstOf200Waiters(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		const n = 200
		var held []*zkrecipes.SlotLease
		holder := w.Semaphore(3)
		for range 3 {
			held = append(held, recipetest.Acquire(t, holder, 1))
		}
		cr := &recipetest.Crowd{W: w}
		first := recipetest.AcquireLater(t, zkrecipes.NewSemaphore(cr.Client(), "/s", 3), 3)
		synctest.Wait()
		var as []*harness.Call[*zkrecipes.SlotLease]
		for range n {
			as = append(as, recipetest.AcquireLater(t, zkrecipes.NewSemaphore(cr.Client(), "/s", 3), 1))
			synctest.Wait()
		}
		require.Len(t, w.Srv.Children("/s/line"), n+1)
		for range 2 {
			require.Equal(t, 1, cr.Woken(func() { recipetest.ReleaseSlots(t, held[0]) }), "the first, which cannot enter yet")
			held = held[1:]
		}
		require.Equal(t, 2, cr.Woken(func() { recipetest.ReleaseSlots(t, held[0]) }), "the first, and its successor")
		require.Equal(t, 5, cr.Woken(func() { recipetest.ReleaseSlots(t, first.Get()) }), "the client that leaves, the three that enter, and the next")
		for i := range 10 {
			before := w.Srv.Counts()
			require.Equal(t, 3, cr.Woken(func() { recipetest.ReleaseSlots(t, as[i].Get()) }), "the client that leaves, the first, and its successor")
			did := w.Srv.Counts().Sub(before)
			require.Equal(t, 5, recipetest.Sum(did.Requests))
			require.Equal(t, 2, did.Events["NodeChildrenChanged"], "the departure to the first, and its entry to itself")
			require.True(t, as[i+4].Waiting())
		}
	})
}
