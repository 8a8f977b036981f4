package zkrecipes_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestSemaphoreHasNHoldersAndTheNextWaits(t *testing.T) {
	recipetest.InSemaphoreBubble(t, func(t *testing.T, w *recipetest.World) {
		var ls []*zkrecipes.SlotLease
		for i := range 3 {
			ls = append(ls, recipetest.Acquire(t, w.Semaphore(3), 1))
			require.Equal(t, i, ls[i].Slot(), "the lowest slot")
			require.NoError(t, ls[i].Err())
		}
		a := w.WaitsForSlots(3, 1)
		recipetest.RequireLocked(t, w.Semaphore(3), 1)
		synctest.Wait()
		require.Len(t, w.Srv.Children("/s/line"), 1, "the loser left nothing")
		recipetest.ReleaseSlots(t, ls[1])
		require.ErrorIs(t, ls[1].Err(), zkrecipes.ErrReleased)
		l := a.Get()
		require.Equal(t, []int{1}, l.Slots())
		require.Greater(t, l.Token(), ls[1].Token(), "the token of a slot grows")
		require.Equal(t, []int{0, 1, 2}, w.Taken())
		recipetest.ReleaseSlots(t, l, ls[0], ls[2])
	})
}

// Slots that come free do not go to small requests behind a large one.
func TestSemaphoreLargeRequestIsNotOvertaken(t *testing.T) {
	recipetest.InSemaphoreBubble(t, func(t *testing.T, w *recipetest.World) {
		ls := []*zkrecipes.SlotLease{recipetest.Acquire(t, w.Semaphore(3), 1), recipetest.Acquire(t, w.Semaphore(3), 1), recipetest.Acquire(t, w.Semaphore(3), 1)}
		large := w.WaitsForSlots(3, 3)
		small := w.WaitsForSlots(3, 1)
		for _, l := range ls {
			require.True(t, large.Waiting())
			recipetest.RequireLocked(t, w.Semaphore(3), 1)
			recipetest.ReleaseSlots(t, l)
			recipetest.StillWaits(t, small)
		}
		l := large.Get()
		require.Equal(t, []int{0, 1, 2}, l.Slots())
		recipetest.ReleaseSlots(t, l)
		recipetest.Served(t, small)
	})
}

func TestSemaphoreDoReleasesEvenAfterAPanic(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		x := w.Semaphore(1)
		broken := errors.New("broken")
		require.ErrorIs(t, x.Do(harness.Within(t, time.Minute), func(context.Context, *zkrecipes.SlotLease) error { return broken }), broken)
		require.Panics(t, func() {
			_ = x.Do(harness.Within(t, time.Minute), func(context.Context, *zkrecipes.SlotLease) error { panic("f") })
		})
		w.SemaphoreAtRest()
		require.ErrorContains(t, x.Do(harness.Within(t, time.Minute), nil), "nil function")
	})
}

func TestSemaphoreIsReapedWhenIdle(t *testing.T) {
	type take = func(*zkrecipes.Semaphore, context.Context) (*zkrecipes.SlotLease, error)
	takes := map[string]take{"Acquire": (*zkrecipes.Semaphore).Acquire, "TryAcquire": (*zkrecipes.Semaphore).TryAcquire}
	recipetest.EachInBubble(t, takes, func(t *testing.T, w *recipetest.World, take take) {
		const while = 6*time.Minute + 7*time.Second // so that no check of the reaper falls on an end of it
		x := w.Semaphore(2)
		for range 3 { // each finds the path gone, and makes it anew
			var ls []*zkrecipes.SlotLease
			for range 2 {
				l, err := take(x, harness.Within(t, time.Hour))
				require.NoError(t, err)
				ls = append(ls, l)
				time.Sleep(while) // the line is reaped, but the slots are not
				require.NoError(t, l.Err())
			}
			recipetest.ReleaseSlots(t, ls...)
			require.NotEmpty(t, w.Srv.Children("/s"))
			time.Sleep(while)
			require.NotContains(t, w.Srv.Children("/"), "s")
		}
	}, zktest.ContainerCheckInterval(time.Minute))
}

// Several checks prove all the slots: an operator takes one of them away.
func TestChecksOfASlotLeaseGuardAllItsSlots(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		l, conn := recipetest.Acquire(t, w.Semaphore(3), 2), w.Bare()
		var ops []any
		for _, check := range l.Checks() {
			ops = append(ops, check)
		}
		require.Len(t, ops, 2)
		_, err := conn.Multi(ops...)
		require.NoError(t, err)
		require.NoError(t, conn.Delete(w.SlotNode(1), -1))
		_, err = conn.Multi(ops...)
		require.ErrorIs(t, err, zk.ErrNoNode)
		require.ErrorIs(t, first(l.Commit(t.Context())), zkrecipes.ErrLost)
	})
}

func TestResizeWakesTheFirstInLine(t *testing.T) {
	recipetest.InSemaphoreBubble(t, func(t *testing.T, w *recipetest.World) {
		x := w.Semaphore(2)
		l := recipetest.Acquire(t, x, 2)
		first, second, third := w.WaitsForSlots(2, 2), w.WaitsForSlots(2, 1), w.WaitsForSlots(2, 1)
		recipetest.Resize(t, x, 3)
		synctest.Wait()
		require.True(t, first.Waiting(), "one is not enough")
		recipetest.Resize(t, x, 5)
		require.Equal(t, []int{2, 3}, first.Get().Slots())
		require.Equal(t, []int{4}, second.Get().Slots())
		recipetest.StillWaits(t, third)
		recipetest.ReleaseSlots(t, l)
		recipetest.ReleaseSlots(t, third.Get(), first.Get(), second.Get())
	})
}

func TestResizeToFewerSlotsDrains(t *testing.T) {
	recipetest.InSemaphoreBubble(t, func(t *testing.T, w *recipetest.World) {
		x, y := w.Semaphore(4), w.WarmSemaphore(4)
		var ls []*zkrecipes.SlotLease
		for range 4 {
			ls = append(ls, recipetest.Acquire(t, x, 1))
		}
		large := w.WaitsForSlots(4, 3)
		small := recipetest.WaitsFor(t, y, 1)
		recipetest.Resize(t, x, 2)
		_, err := large.Wait()
		recipetest.RequireSize(t, err, "3 slots requested of a semaphore of 2 slots")
		recipetest.ReleaseSlots(t, ls[0], ls[1])
		for range 3 {
			synctest.Wait()
			require.True(t, small.Waiting(), "two are held, beyond the first two")
			require.NoError(t, ls[2].Err())
			recipetest.RequireLocked(t, x, 1)
		}
		recipetest.ReleaseSlots(t, ls[3])
		l := small.Get()
		require.Equal(t, 0, l.Slot())
		require.Equal(t, []int{0, 2}, w.Taken())
		recipetest.RequireLocked(t, w.Semaphore(2), 1)
		recipetest.ReleaseSlots(t, ls[2])
		recipetest.ReleaseSlots(t, recipetest.Acquire(t, w.Semaphore(2), 1), l)
		recipetest.RefusesSize(t, w.Semaphore(4), 1, "a semaphore of 2 slots is used as one of 4")
	})
}

// Semaphores that were used before follow a change of n, in what they remember, too.
func TestSemaphoresFollowResize(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		x, y := w.WarmSemaphore(2), w.WarmSemaphore(2)
		recipetest.Resize(t, x, 1)
		l := recipetest.Acquire(t, y, 1)
		recipetest.RequireLocked(t, y, 1)
		recipetest.RefusesSize(t, y, 2, "2 slots requested of a semaphore of 1 slots")
		recipetest.Resize(t, x, 5)
		rest := recipetest.Acquire(t, y, 4)
		recipetest.ReleaseSlots(t, l, rest)
		recipetest.RemoveTree(t, w.Bare(), "/s")
		all := recipetest.Acquire(t, y, 5)
		require.Equal(t, []int{0, 1, 2, 3, 4}, w.Taken(), "made anew with the n that it knows")
		recipetest.ReleaseSlots(t, all)
	})
}
