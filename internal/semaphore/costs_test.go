package semaphore_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// The requests that each operation on a Semaphore takes.

func TestFreeSemaphoreTakesTwoRequestsAndTwoCommits(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		x := w.WarmSemaphore(4)
		before := w.Srv.Counts()
		recipetest.ReleaseSlots(t, recipetest.Acquire(t, x, 1))
		did := w.Srv.Counts().Sub(before)
		require.Equal(t, map[string]int{recipetest.OpTakeFree: 1, recipetest.OpGiveBack: 1}, did.Requests)
		require.Equal(t, 2, did.Transactions)
		require.Equal(t, map[string]int{"multi(create,create,create,check,setData)": 1, "multi(delete,delete,delete)": 1},
			w.Requests(func() { recipetest.ReleaseSlots(t, recipetest.Acquire(t, x, 3)) }), "three slots")

		y := w.WarmSemaphore(4)
		require.Equal(t, map[string]int{recipetest.OpTakeFree: 2, recipetest.OpGiveBack: 1, "getData": 2, "getChildren2": 1},
			w.Requests(func() { recipetest.ReleaseSlots(t, recipetest.Acquire(t, x, 1)) }), "another client has used it since")
		held := recipetest.Acquire(t, x, 1)
		require.Equal(t, map[string]int{recipetest.OpTakeFree: 2, recipetest.OpGiveBack: 1, "getData": 2, "getChildren2": 1},
			w.Requests(func() { recipetest.ReleaseSlots(t, recipetest.Acquire(t, y, 1)) }), "another client holds a slot")
		require.Equal(t, map[string]int{recipetest.OpTakeFree: 1, recipetest.OpGiveBack: 1},
			w.Requests(func() { recipetest.ReleaseSlots(t, recipetest.Acquire(t, y, 1)) }), "and from now on")
		recipetest.ReleaseSlots(t, held)
	})
}

func TestFullSemaphoreCostsATryThreeReads(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		held := recipetest.Acquire(t, w.Semaphore(1), 1)
		x := w.Semaphore(1)
		for range 3 {
			require.Equal(t, map[string]int{"getData": 2, "getChildren2": 1}, w.Requests(func() {
				_, err := x.TryAcquire(harness.Within(t, time.Minute))
				require.ErrorIs(t, err, zkrecipes.ErrLocked)
			}))
		}
		recipetest.ReleaseSlots(t, held)
	})
}

// The line need not be listed if no slots are free. Else it tells whether somebody waits.
func TestTryOnASemaphoreForWhichOthersWaitCostsThreeReadsIfItIsFull(t *testing.T) {
	for free, want := range map[int]map[string]int{
		0: {"getData": 2, "getChildren2": 1}, 1: {"getData": 2, "getChildren2": 2},
	} {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			held := recipetest.Acquire(t, w.Semaphore(3), 3-free)
			large := recipetest.WaitsFor(t, w.Semaphore(3), 3)
			x := w.Semaphore(3)
			before := w.Srv.Counts()
			for range 2 {
				require.Equal(t, want, w.Requests(func() {
					_, err := x.TryAcquire(harness.Within(t, time.Minute))
					require.ErrorIs(t, err, zkrecipes.ErrLocked)
				}), "%d are free", free)
			}
			require.Zero(t, w.Srv.Counts().Sub(before).Transactions)
			recipetest.ReleaseSlots(t, held)
			recipetest.ReleaseSlots(t, large.Get())
		})
	}
}

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
			require.Equal(t, map[string]int{recipetest.OpGiveBack: 1, recipetest.OpTakeTurn: 1, "getChildren2": 2, "getData": 1}, did.Requests)
			require.Equal(t, 2, did.Events["NodeChildrenChanged"], "the departure to the first, and its entry to itself")
			require.True(t, as[i+4].Waiting())
		}
	})
}

func TestWaitersOfASemaphoreSendNoRequests(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		l := recipetest.Acquire(t, w.Semaphore(1), 1)
		for range 5 {
			recipetest.WaitsFor(t, w.Semaphore(1), 1)
		}
		time.Sleep(time.Minute)
		requests := w.Requests(func() { time.Sleep(time.Hour) })
		delete(requests, "ping")
		require.Empty(t, requests)
		recipetest.ReleaseSlots(t, l)
	})
}

// A client that met others in line joins it at once, and asks again when it was alone.
func TestContendedSemaphoreJoinsAtOnce(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		x, y := w.WarmSemaphore(1), w.WarmSemaphore(1)
		lx := recipetest.Acquire(t, x, 1)
		ay := recipetest.WaitsFor(t, y, 1)
		recipetest.ReleaseSlots(t, lx)
		ly := ay.Get()
		recipetest.ReleaseSlots(t, ly)
		synctest.Wait()
		requests := w.Requests(func() { recipetest.ReleaseSlots(t, recipetest.Acquire(t, y, 1)) })
		require.Equal(t, map[string]int{recipetest.OpJoin: 1, "getChildren2": 1, recipetest.OpTakeTurn: 1, recipetest.OpGiveBack: 1}, requests)
		requests = w.Requests(func() { recipetest.ReleaseSlots(t, recipetest.Acquire(t, y, 1)) })
		require.Equal(t, map[string]int{recipetest.OpTakeFree: 1, "getData": 2, "getChildren2": 1, recipetest.OpGiveBack: 1}, requests)
	})
}
