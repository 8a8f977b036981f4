package zkrecipes

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
)

// The requests that each operation on a Semaphore takes.

func TestFreeSemaphoreTakesTwoRequestsAndTwoCommits(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		x := w.warmSemaphore(4)
		before := w.srv.Counts()
		releaseSlots(t, acquire(t, x, 1))
		did := w.srv.Counts().Sub(before)
		require.Equal(t, map[string]int{opTakeFree: 1, opGiveBack: 1}, did.Requests)
		require.Equal(t, 2, did.Transactions)
		require.Equal(t, map[string]int{"multi(create,create,create,check,setData)": 1, "multi(delete,delete,delete)": 1},
			w.requests(func() { releaseSlots(t, acquire(t, x, 3)) }), "three slots")

		y := w.warmSemaphore(4)
		require.Equal(t, map[string]int{opTakeFree: 2, opGiveBack: 1, "getData": 2, "getChildren2": 1},
			w.requests(func() { releaseSlots(t, acquire(t, x, 1)) }), "another client has used it since")
		held := acquire(t, x, 1)
		require.Equal(t, map[string]int{opTakeFree: 2, opGiveBack: 1, "getData": 2, "getChildren2": 1},
			w.requests(func() { releaseSlots(t, acquire(t, y, 1)) }), "another client holds a slot")
		require.Equal(t, map[string]int{opTakeFree: 1, opGiveBack: 1},
			w.requests(func() { releaseSlots(t, acquire(t, y, 1)) }), "and from now on")
		releaseSlots(t, held)
	})
}

func TestFullSemaphoreCostsATryThreeReads(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		held := acquire(t, w.semaphore(1), 1)
		x := w.semaphore(1)
		for range 3 {
			require.Equal(t, map[string]int{"getData": 2, "getChildren2": 1}, w.requests(func() {
				_, err := x.TryAcquire(harness.Within(t, time.Minute))
				require.ErrorIs(t, err, ErrLocked)
			}))
		}
		releaseSlots(t, held)
	})
}

// The line need not be listed if no slots are free. Else it tells whether somebody waits.
func TestTryOnASemaphoreForWhichOthersWaitCostsThreeReadsIfItIsFull(t *testing.T) {
	for free, want := range map[int]map[string]int{
		0: {"getData": 2, "getChildren2": 1}, 1: {"getData": 2, "getChildren2": 2},
	} {
		inBubble(t, func(t *testing.T, w *world) {
			held := acquire(t, w.semaphore(3), 3-free)
			large := waitsFor(t, w.semaphore(3), 3)
			x := w.semaphore(3)
			before := w.srv.Counts()
			for range 2 {
				require.Equal(t, want, w.requests(func() {
					_, err := x.TryAcquire(harness.Within(t, time.Minute))
					require.ErrorIs(t, err, ErrLocked)
				}), "%d are free", free)
			}
			require.Zero(t, w.srv.Counts().Sub(before).Transactions)
			releaseSlots(t, held)
			releaseSlots(t, large.Get())
		})
	}
}

// A departure wakes the first in line. If that enters, it wakes its successor, which is
// then the first. Nobody else wakes, however many wait.
func TestSemaphoreDepartureWakesTheFirstOf200Waiters(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const n = 200
		var held []*SlotLease
		holder := w.semaphore(3)
		for range 3 {
			held = append(held, acquire(t, holder, 1))
		}
		cr := &crowd{w: w}
		first := acquireLater(t, NewSemaphore(cr.client(), "/s", 3), 3)
		synctest.Wait()
		var as []*harness.Call[*SlotLease]
		for range n {
			as = append(as, acquireLater(t, NewSemaphore(cr.client(), "/s", 3), 1))
			synctest.Wait()
		}
		require.Len(t, w.srv.Children("/s/line"), n+1)
		for range 2 {
			require.Equal(t, 1, cr.woken(func() { releaseSlots(t, held[0]) }), "the first, which cannot enter yet")
			held = held[1:]
		}
		require.Equal(t, 2, cr.woken(func() { releaseSlots(t, held[0]) }), "the first, and its successor")
		require.Equal(t, 5, cr.woken(func() { releaseSlots(t, first.Get()) }), "the client that leaves, the three that enter, and the next")
		for i := range 10 {
			before := w.srv.Counts()
			require.Equal(t, 3, cr.woken(func() { releaseSlots(t, as[i].Get()) }), "the client that leaves, the first, and its successor")
			did := w.srv.Counts().Sub(before)
			require.Equal(t, map[string]int{opGiveBack: 1, opTakeTurn: 1, "getChildren2": 2, "getData": 1}, did.Requests)
			require.Equal(t, 2, did.Events["NodeChildrenChanged"], "the departure to the first, and its entry to itself")
			require.True(t, as[i+4].Waiting())
		}
	})
}

func TestWaitersOfASemaphoreSendNoRequests(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := acquire(t, w.semaphore(1), 1)
		for range 5 {
			waitsFor(t, w.semaphore(1), 1)
		}
		time.Sleep(time.Minute)
		requests := w.requests(func() { time.Sleep(time.Hour) })
		delete(requests, "ping")
		require.Empty(t, requests)
		releaseSlots(t, l)
	})
}

// A client that met others in line joins it at once, and asks again when it was alone.
func TestContendedSemaphoreJoinsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		x, y := w.warmSemaphore(1), w.warmSemaphore(1)
		lx := acquire(t, x, 1)
		ay := waitsFor(t, y, 1)
		releaseSlots(t, lx)
		ly := ay.Get()
		releaseSlots(t, ly)
		synctest.Wait()
		requests := w.requests(func() { releaseSlots(t, acquire(t, y, 1)) })
		require.Equal(t, map[string]int{opJoin: 1, "getChildren2": 1, opTakeTurn: 1, opGiveBack: 1}, requests)
		requests = w.requests(func() { releaseSlots(t, acquire(t, y, 1)) })
		require.Equal(t, map[string]int{opTakeFree: 1, "getData": 2, "getChildren2": 1, opGiveBack: 1}, requests)
	})
}
