package semaphore_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// What somebody else does to the znodes of a Semaphore.

// Everything is deleted under holders and waiters, who go on.
func TestSemaphoreThatIsDeletedIsMadeAnew(t *testing.T) {
	for _, path := range []string{"/s", "/s/slots"} {
		recipetest.InSemaphoreBubble(t, func(t *testing.T, w *recipetest.World) {
			x := w.Semaphore(2)
			l := recipetest.Acquire(t, x, 2)
			as := []*harness.Call[*zkrecipes.SlotLease]{w.WaitsForSlots(2, 1), w.WaitsForSlots(2, 2)}
			recipetest.RemoveTree(t, w.Bare(), path)
			time.Sleep(time.Minute)
			require.ErrorIs(t, l.Err(), zkrecipes.ErrLost)
			synctest.Wait()
			if as[0].Waiting() { // they join the new line in any order
				as[0], as[1] = as[1], as[0]
			}
			for _, a := range as {
				recipetest.Served(t, a)
			}
		})
	}
}

// That is no different from the eviction of each waiter, after which the servers reap the
// line.
func TestSemaphoreWhoseLineIsDeletedEvictsItsWaiters(t *testing.T) {
	recipetest.InSemaphoreBubble(t, func(t *testing.T, w *recipetest.World) {
		x := w.Semaphore(2)
		l := recipetest.Acquire(t, x, 2)
		as := []*harness.Call[*zkrecipes.SlotLease]{w.WaitsForSlots(2, 1), w.WaitsForSlots(2, 2)}
		recipetest.RemoveTree(t, w.Bare(), "/s/line")
		for _, a := range as {
			recipetest.Fails(t, a, zkrecipes.ErrEvicted)
		}
		require.NoError(t, l.Err())
		recipetest.ReleaseSlots(t, l)
		recipetest.ReleaseSlots(t, recipetest.Acquire(t, x, 2))
	})
}

func TestSemaphoreIgnoresForeignChildren(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		x := w.WarmSemaphore(2)
		for _, name := range []string{"0", "1-", "x", "-1-00000000-0000-8000-8000-000000000000", "0-_c_x", "99999999999-00000000-0000-8000-8000-000000000000", "ü"} {
			w.Write("/s/slots/"+name, "")
		}
		w.Write("/s/line/x", "")
		for _, x := range []*zkrecipes.Semaphore{x, w.Semaphore(2)} {
			l, err := x.TryAcquireN(harness.Within(t, time.Minute), 2)
			require.NoError(t, err, "nobody waits in a line whose only child is no place")
			a := w.WaitsForSlots(2, 1)
			recipetest.RequireLocked(t, x, 1)
			recipetest.ReleaseSlots(t, l)
			recipetest.RequireLocked(t, x, 2)
			recipetest.Served(t, a)
			l = recipetest.Acquire(t, x, 2)
			require.Equal(t, []int{0, 1}, l.Slots())
			recipetest.ReleaseSlots(t, l)
		}
		_, err := x.Contenders(t.Context())
		require.NoError(t, err)
	})
}

// The path was deleted and made anew with a smaller n. The line has the version that the
// caller knows, or another one.
func TestSemaphoreKeepsNoSlotOfAPathThatWasMadeAnew(t *testing.T) {
	for uses := range 5 {
		recipetest.InSemaphoreBubble(t, func(t *testing.T, w *recipetest.World) {
			x := w.WarmSemaphore(1000)
			recipetest.RemoveTree(t, w.Bare(), "/s")
			y := w.Semaphore(1)
			for range 1 + uses {
				cycle(t, y, 1)
			}
			for range 3 {
				l := recipetest.Acquire(t, x, 1)
				require.Equal(t, []int{0}, l.Slots())
				recipetest.ReleaseSlots(t, l)
			}
		})
	}
}

// Curator's InterProcessSemaphoreV2 has another layout, so both would grant n slots.
func TestSemaphoreRefusesThePathOfCuratorsSemaphore(t *testing.T) {
	for _, below := range []string{"leases", "locks"} {
		recipetest.InSemaphoreBubble(t, func(t *testing.T, w *recipetest.World) {
			w.Write("/s", "")
			w.Write("/s/"+below, "")
			requireInUse(t, w.Semaphore(2), below)
			require.Equal(t, []string{below}, w.Srv.Children("/s"))
			require.Empty(t, w.Text("/s"))
		})
	}
}

// The connection breaks, or the servers refuse, when one slot is known to be gone and the
// others are yet to be given back.
func TestSemaphoreGivesTheOtherSlotsBackAlthoughARequestFails(t *testing.T) {
	for _, evicted := range []bool{false, true} {
		for _, fault := range []zktest.Fault{
			{Do: zktest.Drop, Op: recipetest.OpGiveBack}, {Do: zktest.Drop, After: true, Op: recipetest.OpGiveBack},
			{Do: zktest.Drop, Op: recipetest.OpGiveBack, Skip: 1}, {Do: zktest.Answer, Code: -102, Op: recipetest.OpGiveBack, Skip: 2},
		} {
			recipetest.InSemaphoreBubble(t, func(t *testing.T, w *recipetest.World) {
				l := recipetest.Acquire(t, w.Semaphore(3), 3)
				if evicted {
					time.Sleep(2 * time.Second) // the slots are watched
				}
				fault.Skip++ // the next request
				w.Plan.Add(fault)
				require.NoError(t, w.Bare().Delete(w.SlotNode(0), -1))
				if evicted {
					time.Sleep(time.Minute)
					require.ErrorIs(t, l.Err(), zkrecipes.ErrLost)
				}
				_ = l.Release() // it may not know that a slot was gone
				time.Sleep(time.Minute)
				require.True(t, w.Met(), fault)
			})
		}
	}
}

// Each slot is deleted by a request of its own once one is known to be gone: the cost does
// not grow with the square of their number.
func TestSemaphoreGivesManySlotsBackWithOneRequestEach(t *testing.T) {
	recipetest.InSemaphoreBubble(t, func(t *testing.T, w *recipetest.World) {
		const k = 50
		l := recipetest.Acquire(t, w.Semaphore(k), k)
		recipetest.RemoveTree(t, w.Bare(), "/s/slots")
		before := w.Srv.Counts()
		require.ErrorIs(t, l.Release(), zkrecipes.ErrLost)
		require.Equal(t, k, w.Srv.Counts().Sub(before).Requests[recipetest.OpGiveBack])
	})
}
