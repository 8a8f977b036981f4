package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/semaphore"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Clients that take slots at the same time, while enough are free for all.

func TestCrowdOnAWideSemaphoreIsNeverTurnedAway(t *testing.T) {
	const clients, slots, rounds = 16, 10_000, 47
	for name, take := range map[string]func(*zkrecipes.Semaphore, context.Context) (*zkrecipes.SlotLease, error){
		"TryAcquire": (*zkrecipes.Semaphore).TryAcquire, "Acquire": (*zkrecipes.Semaphore).Acquire,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *recipetest.World) {
				xs := w.CrowdOf(clients, slots)
				held := exclusive{}
				var wg sync.WaitGroup
				requests := recipetest.Sum(w.Requests(func() {
					for _, x := range xs {
						wg.Go(func() {
							for range rounds {
								l, err := take(x, t.Context())
								if err != nil {
									t.Error(err)
									return
								}
								if err := errors.Join(held.hold(l.Slot()), l.Release()); err != nil {
									t.Error(err)
								}
							}
						})
					}
					wg.Wait()
				}))
				require.LessOrEqual(t, requests, 6*clients*rounds)
			})
		})
	}
}

// exclusive are the slots that somebody holds.
type exclusive struct{ slots sync.Map }

// hold holds a slot for a moment. It is an error if somebody else does.
func (e *exclusive) hold(slot int) error {
	if _, held := e.slots.LoadOrStore(slot, true); held {
		return fmt.Errorf("slot %d is held", slot)
	}
	time.Sleep(time.Millisecond)
	e.slots.Delete(slot)
	return nil
}

func TestSemaphoreTakesTheLowestSlotAgainAfterACrowd(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		x := w.CrowdedSemaphore(1_000_000)
		l := recipetest.Acquire(t, x, 1)
		require.NotZero(t, l.Slot(), "a random one")
		recipetest.ReleaseSlots(t, l)
		time.Sleep(semaphore.CrowdLasts)
		l = recipetest.Acquire(t, x, 1)
		require.Zero(t, l.Slot())
		recipetest.ReleaseSlots(t, l)
	})
}

func TestSlotsOfACrowdAreInOrder(t *testing.T) {
	for range 10 {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			l := recipetest.Acquire(t, w.CrowdedSemaphore(3), 3)
			require.Equal(t, []int{0, 1, 2}, l.Slots())
			recipetest.ReleaseSlots(t, l)
		})
	}
}

// What the client saw when it confirmed its slot is what it relies on next.
func TestCrowdedSemaphoreKnowsTheSlotsOfOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, w *recipetest.World) {
		x, other := w.CrowdedSemaphore(1000), w.WarmSemaphore(1000)
		held := recipetest.Acquire(t, other, 1)
		l := recipetest.Acquire(t, x, 1)
		requireLocked(t, x, 999)
		rest := recipetest.Acquire(t, x, 998)
		require.Len(t, w.Taken(), 1000)
		require.NotContains(t, rest.Slots(), held.Slot())
		require.NotContains(t, rest.Slots(), l.Slot())
		recipetest.ReleaseSlots(t, held, l, rest)
	})
}

// Two callers take the same slot. The second gives it back.
func TestFirstOfACrowdKeepsTheSlot(t *testing.T) {
	inBubble(t, func(t *testing.T, w *recipetest.World) {
		x, other := w.CrowdedSemaphore(1), w.CrowdedSemaphore(1)
		held := recipetest.Acquire(t, other, 1)
		require.Equal(t, 2, recipetest.Writes(w.Requests(func() { requireLocked(t, x, 1) })), "it takes a slot, and gives it back")
		require.Equal(t, []int{0}, w.Taken())
		_, err := held.Commit(t.Context())
		require.NoError(t, err)
		recipetest.ReleaseSlots(t, held)
		cycle(t, x, 1)
	})
}

// The reply to the one who took the slot first is late, so both find each other's znodes.
func TestOneOfACrowdKeepsTheSlotThatBothFindTaken(t *testing.T) {
	inBubble(t, func(t *testing.T, w *recipetest.World) {
		x, other := w.CrowdedSemaphore(1), w.CrowdedSemaphore(1)
		cycle(t, w.WarmSemaphore(1), 1) // neither knows
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, For: time.Second, After: true, Op: recipetest.OpTakeFree})
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, For: 2 * time.Second, Op: recipetest.OpGiveBack})
		first := harness.Go(t, x.TryAcquire)
		time.Sleep(time.Millisecond)
		second := harness.Go(t, other.TryAcquire)
		synctest.Wait()
		require.Equal(t, []int{0, 0}, w.Taken())
		l := first.Get()
		require.Equal(t, []int{0, 0}, w.Taken())
		recipetest.Fails(t, second, zkrecipes.ErrLocked)
		time.Sleep(time.Minute)
		require.Equal(t, []int{0}, w.Taken())
		recipetest.ReleaseSlots(t, l)
	})
}

func TestCrowdDoesNotOvertake(t *testing.T) {
	inBubble(t, func(t *testing.T, w *recipetest.World) {
		const n = 500 // so that it hardly ever chooses the slot that is held
		x := w.CrowdedSemaphore(n)
		held := recipetest.Acquire(t, w.Semaphore(n), 1)
		large := waits(w, n, n)
		requests := w.Requests(func() { requireLocked(t, x, 1) })
		require.Equal(t, 1, requests[recipetest.OpTakeFree], "it was tried")
		require.Equal(t, 1, requests[recipetest.OpGiveBack], "and given back")
		require.Zero(t, w.Requests(func() { requireLocked(t, x, 1) })[recipetest.OpTakeFree], "and is not tried again")
		small := recipetest.WaitsFor(t, x, 1)
		recipetest.ReleaseSlots(t, held)
		l := large.Get()
		require.True(t, small.Waiting())
		recipetest.ReleaseSlots(t, l)
		served(t, small)
	})
}

// The path was deleted and made anew with a smaller n. The line has the version that the
// caller knows, or another one.
func TestCrowdKeepsNoSlotOfAPathThatWasMadeAnew(t *testing.T) {
	for uses := range 5 {
		inBubble(t, func(t *testing.T, w *recipetest.World) {
			x := w.CrowdedSemaphore(1000)
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

// A slot beyond n is still held, and counts. The caller does not know that another client
// has taken the last one.
func TestCrowdTakesNoMoreThanNWhileSlotsBeyondItAreHeld(t *testing.T) {
	for range 10 { // with other random slots
		inBubble(t, func(t *testing.T, w *recipetest.World) {
			y := w.Semaphore(3)
			held := []*zkrecipes.SlotLease{recipetest.Acquire(t, y, 1), recipetest.Acquire(t, y, 1), recipetest.Acquire(t, y, 1)}
			resize(t, y, 2)
			recipetest.ReleaseSlots(t, held[:2]...)
			x := w.WarmSemaphore(2)
			recipetest.SlotsOf(x).NoteCrowd()
			last := recipetest.Acquire(t, y, 1)
			requireLocked(t, x, 1)
			synctest.Wait()
			require.Len(t, w.Taken(), 2)
			recipetest.ReleaseSlots(t, held[2], last)
			cycle(t, x, 2)
		})
	}
}

// B01: The reply to the taking is lost, so in a crowd the caller cannot know whether somebody
// stood in line then. Without a crowd the transaction fails if somebody did.
func TestSemaphoreDoesNotOvertakeByALostRequest(t *testing.T) {
	for _, crowded := range []bool{false, true} {
		inBubble(t, func(t *testing.T, w *recipetest.World) {
			x := w.WarmSemaphore(3)
			if crowded {
				recipetest.SlotsOf(x).NoteCrowd()
			}
			held := recipetest.Acquire(t, w.Semaphore(3), 1)
			large := waits(w, 3, 3)
			w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: recipetest.OpTakeFree})
			requireLocked(t, x, 1)
			require.True(t, w.Met())
			synctest.Wait()
			require.Equal(t, []int{0}, w.Taken())
			recipetest.ReleaseSlots(t, held)
			served(t, large)
			cycle(t, x, 1)
		})
	}
}

// B23: An operator deletes the caller's slot, or all slots, before it has looked whether it may
// keep the slot.
func TestCrowdGoesOnWhenItsSlotsAreDeleted(t *testing.T) {
	for _, all := range []bool{false, true} {
		inBubble(t, func(t *testing.T, w *recipetest.World) {
			x, other, conn := w.CrowdedSemaphore(1), w.WarmSemaphore(1), w.Bare()
			cycle(t, other, 1)
			w.Plan.Add(zktest.Fault{Do: zktest.Delay, For: time.Second, After: true, Op: recipetest.OpTakeFree})
			a := recipetest.AcquireLater(t, x, 1)
			synctest.Wait()
			if all {
				recipetest.RemoveTree(t, conn, "/s/slots")
			} else {
				require.NoError(t, conn.Delete(w.SlotNode(0), -1))
			}
			l := a.Get()
			_, err := l.Commit(harness.Within(t, time.Minute))
			if all {
				require.NoError(t, err, "it has taken another one")
				requireLocked(t, other, 1)
				recipetest.ReleaseSlots(t, l)
			} else {
				require.ErrorIs(t, err, zkrecipes.ErrLost)
			}
			cycle(t, other, 1)
		})
	}
}
