package semaphore_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The table of faults (recipetest.Faults) for semaphores.
func TestSemaphoreUnderEachFaultAtEachRequest(t *testing.T) {
	recipetest.Faults(t, recipetest.SemaphoreDriver("two slots of three", 3, 2))
}

// Faults that hit a Semaphore.

// The reply to the taking is lost, and others join and take slots before the client is
// back.
func TestSemaphoreFindsSlotsThatItTookAlthoughOthersCameSince(t *testing.T) {
	for _, op := range []string{recipetest.OpTakeFree, recipetest.OpTakeTurn} {
		t.Run(op, func(t *testing.T) {
			recipetest.InSemaphoreBubble(t, func(t *testing.T, w *recipetest.World) {
				x, y := w.WarmSemaphore(2), w.Semaphore(2)
				var held *zkrecipes.SlotLease
				if op == recipetest.OpTakeTurn {
					held = recipetest.Acquire(t, y, 2)
				}
				w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: op})
				w.Plan.Add(zktest.Fault{Do: zktest.Refuse, Times: 1})
				a := recipetest.AcquireLater(t, x, 1)
				if held != nil {
					synctest.Wait()
					recipetest.ReleaseSlots(t, held)
				}
				recipetest.StillWaits(t, a)
				require.Equal(t, []int{0}, w.Taken())
				rest := recipetest.Acquire(t, y, 1)
				next := w.WaitsForSlots(2, 1)
				l := a.Get()
				require.Equal(t, 0, l.Slot())
				require.Equal(t, []int{0, 1}, w.Taken(), "and no others")
				_, stat, err := l.Get(t.Context(), w.SlotNode(0))
				require.NoError(t, err)
				require.Equal(t, recipetest.NewToken(stat.Czxid, 0), l.Token())
				recipetest.ReleaseSlots(t, l, rest)
				recipetest.Served(t, next)
			})
		})
	}
}

// The reply to the taking is lost, and somebody stood in line by then.
func TestSemaphoreDoesNotOvertakeByALostRequest(t *testing.T) {
	recipetest.InSemaphoreBubble(t, func(t *testing.T, w *recipetest.World) {
		x := w.WarmSemaphore(3)
		held := recipetest.Acquire(t, w.Semaphore(3), 1)
		large := w.WaitsForSlots(3, 3)
		w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: recipetest.OpTakeFree})
		recipetest.RequireLocked(t, x, 1)
		require.True(t, w.Met())
		synctest.Wait()
		require.Equal(t, []int{0}, w.Taken())
		recipetest.ReleaseSlots(t, held)
		recipetest.Served(t, large)
		cycle(t, x, 1)
	})
}

// The reply to the release is lost, and somebody else has the slot before it is sent again.
func TestSemaphoreReleaseThatIsSentAgainLeavesTheNextHolder(t *testing.T) {
	recipetest.InSemaphoreBubble(t, func(t *testing.T, w *recipetest.World) {
		x := w.WarmSemaphore(1)
		l := recipetest.Acquire(t, x, 1)
		a := w.WaitsForSlots(1, 1)
		w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: recipetest.OpGiveBack})
		requests := w.Requests(func() {
			require.NoError(t, l.Release())
			a.Get()
			time.Sleep(10 * time.Second)
		})
		require.Equal(t, 2, requests[recipetest.OpGiveBack], "it was sent again")
		time.Sleep(time.Minute)
		require.NoError(t, a.Get().Err())
		require.Equal(t, []int{0}, w.Taken())
		recipetest.Served(t, a)
	})
}

// The context of a call ends at any of its requests: in a first use, or for a slot that
// somebody holds.
func TestSemaphoreCanceledAtAnyRequestLeavesNothing(t *testing.T) {
	delays := []zktest.Fault{{Do: zktest.Delay, For: time.Second}, {Do: zktest.Delay, For: time.Second, After: true}}
	for _, held := range []bool{false, true} {
		recipetest.EachRequest(t, delays, func(t *testing.T, fault zktest.Fault) (met bool) {
			recipetest.InSemaphoreBubble(t, func(t *testing.T, w *recipetest.World) {
				cycle(t, w.Semaphore(1), 1)
				x := w.Semaphore(1)
				if held {
					x = w.WarmSemaphore(1)
					defer recipetest.ReleaseSlots(t, recipetest.Acquire(t, w.WarmSemaphore(1), 1))
				}
				w.Plan.Add(fault)
				a := recipetest.AcquireLater(t, x, 1)
				synctest.Wait()
				met = w.Met()
				a.Cancel(nil)
				if l, err := a.Wait(); err == nil {
					recipetest.ReleaseSlots(t, l)
				} else {
					require.ErrorIs(t, err, context.Canceled)
				}
				time.Sleep(5 * time.Second)
			})
			return met || fault.Skip < 5
		})
	}
}

// 300 tries and waits that time out leave no znode and no watch.
func TestSemaphoreTimedOutLeavesNoWatch(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		l := recipetest.Acquire(t, w.Semaphore(1), 1)
		x := w.Semaphore(1)
		for range 300 {
			a := recipetest.AcquireLater(t, x, 1)
			time.Sleep(time.Second)
			recipetest.Cancels(t, a)
			recipetest.RequireLocked(t, x, 1)
			synctest.Wait()
		}
		require.LessOrEqual(t, len(w.SessionOf(w.ClientOf(x)).Watches), 3)
		require.Empty(t, w.Srv.Children("/s/line"))
		recipetest.ReleaseSlots(t, l)
	})
}

// The connection of the next in line breaks as it looks at the slots, and its new server
// does not show yet what was taken before its turn.
func TestSemaphoreFirstInLineBehindALaggingServerTakesNoMoreThanN(t *testing.T) {
	for _, fault := range []zktest.Fault{
		{Do: zktest.Drop, Op: "getData", Path: "/s"}, {Do: zktest.Drop, Op: "getChildren2", Path: "/s/slots", Skip: 1},
	} {
		recipetest.InSemaphoreBubble(t, func(t *testing.T, w *recipetest.World) {
			held := recipetest.Acquire(t, w.Semaphore(1), 1)
			a := w.WaitsForSlots(1, 1)
			next := w.WaitsForSlots(1, 1)
			w.Plan.Add(fault)
			recipetest.ReleaseSlots(t, held)
			synctest.Wait()
			time.Sleep(2 * time.Second)
			require.Len(t, w.Plan.Fired(), 2, "the fault, and the server that lags")
			l := a.Get()
			require.NoError(t, l.Err())
			require.Equal(t, []int{0}, w.Taken())
			require.True(t, next.Waiting())
			recipetest.ReleaseSlots(t, l)
			recipetest.Served(t, next)
		}, recipetest.Behind(3, 1))
	}
}
