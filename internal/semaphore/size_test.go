package semaphore_test

import (
	"context"
	"fmt"
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

// How many slots a Semaphore has.

func TestA34SemaphoreRefusesMoreSlotsThanThereAreAtOnce(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		l := recipetest.Acquire(t, w.Semaphore(2), 2)
		waiting := recipetest.WaitsFor(t, w.Semaphore(2), 1)
		for _, x := range []*zkrecipes.Semaphore{w.Semaphore(2), waitsForNothing(t, w)} {
			_, err := x.AcquireN(harness.Within(t, time.Minute), 3)
			recipetest.RequireSize(t, err, "3 slots requested of a semaphore of 2 slots")
			_, err = x.TryAcquireN(harness.Within(t, time.Minute), 3)
			recipetest.RequireSize(t, err, "3 slots requested of a semaphore of 2 slots")
		}
		recipetest.ReleaseSlots(t, l)
		recipetest.ReleaseSlots(t, waiting.Get())
		w.SemaphoreAtRest()
	})
}

// waitsForNothing returns a semaphore of 2 that expects others in line.
func waitsForNothing(t *testing.T, w *recipetest.World) *zkrecipes.Semaphore {
	t.Helper()
	x := w.Semaphore(2)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := x.Acquire(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	recipetest.SlotsOf(x).SetBusy(true)
	return x
}

func TestA34SemaphoresThatDisagreeOnNGetAnErrorThatNamesBoth(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		l := recipetest.Acquire(t, w.Semaphore(2), 1)
		x := w.Semaphore(3)
		_, err := x.Acquire(harness.Within(t, time.Minute))
		recipetest.RequireSize(t, err, "a semaphore of 2 slots is used as one of 3")
		recipetest.SlotsOf(x).SetBusy(true) // it joins the line at once
		_, err = x.Acquire(harness.Within(t, time.Minute))
		recipetest.RequireSize(t, err, "a semaphore of 2 slots is used as one of 3")
		_, err = x.TryAcquire(harness.Within(t, time.Minute))
		recipetest.RequireSize(t, err, "a semaphore of 2 slots is used as one of 3")
		recipetest.ReleaseSlots(t, l)
		w.SemaphoreAtRest()
	})
}

// The path was deleted and made anew for another n. What is remembered does not count.
func TestSemaphoreThatRemembersAnotherNFollowsThePath(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		x := w.WarmSemaphore(3)
		recipetest.Wipe(t, w.Bare(), "/s")
		l := recipetest.Acquire(t, w.Semaphore(1), 1)
		_, err := x.TryAcquire(harness.Within(t, time.Minute))
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		a := recipetest.WaitsFor(t, x, 1)
		require.Equal(t, []int{0}, w.Taken())
		_, err = x.AcquireN(harness.Within(t, time.Minute), 2)
		recipetest.RequireSize(t, err, "2 slots requested of a semaphore of 1 slots")
		recipetest.ReleaseSlots(t, l)
		recipetest.ReleaseSlots(t, a.Get())
		w.SemaphoreAtRest()
	})
}

// A new n lasts when the servers delete idle containers, whichever Semaphore is used first
// afterwards.
func TestB100ResizeOutlastsTheIdleContainersOfTheSemaphore(t *testing.T) {
	for name, made := range map[string]bool{"made before": true, "made by Resize": false} {
		for _, resizer := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, used first by its resizer=%v", name, resizer), func(t *testing.T) {
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					x, y := w.Semaphore(4), w.Semaphore(4)
					if made {
						recipetest.ReleaseSlots(t, recipetest.Acquire(t, x, 1), recipetest.Acquire(t, y, 1))
						time.Sleep(time.Minute)
						require.NotContains(t, w.Srv.Children("/"), "s", "reaped before, too")
						recipetest.ReleaseSlots(t, recipetest.Acquire(t, x, 1), recipetest.Acquire(t, y, 1))
					}
					require.NoError(t, x.Resize(harness.Within(t, time.Minute), 2))
					if !made {
						y = w.Semaphore(2)
					}
					recipetest.ReleaseSlots(t, recipetest.Acquire(t, x, 1))
					for range 2 {
						time.Sleep(time.Hour)
						require.NotContains(t, w.Srv.Children("/s"), "line", "it was idle")
						first, second := x, y
						if !resizer {
							first, second = y, x
						}
						ls := []*zkrecipes.SlotLease{recipetest.Acquire(t, first, 1), recipetest.Acquire(t, second, 1)}
						require.Equal(t, []int{0, 1}, w.Taken())
						for _, x := range []*zkrecipes.Semaphore{x, y} {
							_, err := x.TryAcquire(harness.Within(t, time.Minute))
							require.ErrorIs(t, err, zkrecipes.ErrLocked, "2 slots")
						}
						recipetest.ReleaseSlots(t, ls...)
					}
					require.NoError(t, y.Resize(harness.Within(t, time.Minute), 3))
					recipetest.ReleaseSlots(t, recipetest.Acquire(t, x, 3))
					w.SemaphoreAtRest()
				}, zktest.ContainerCheckInterval(time.Second))
			})
		}
	}
}

// Processes of another n make the path anew after it was idle. The value that agreed with
// the path before follows.
func TestB100SemaphoreThatHasAgreedFollowsAPathThatOthersMadeAnew(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		x := w.WarmSemaphore(2)
		time.Sleep(time.Hour)
		require.NotContains(t, w.Srv.Children("/"), "s")
		l := recipetest.Acquire(t, w.Semaphore(3), 1)
		rest := recipetest.Acquire(t, x, 2)
		_, err := x.TryAcquire(harness.Within(t, time.Minute))
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		recipetest.SlotsOf(x).SetBusy(true) // it joins the line at once
		_, err = x.AcquireN(harness.Within(t, time.Minute), 4)
		recipetest.RequireSize(t, err, "4 slots requested of a semaphore of 3 slots")
		recipetest.ReleaseSlots(t, l, rest)
		w.SemaphoreAtRest()
	}, zktest.ContainerCheckInterval(time.Second))
}

func TestA33ResizeWakesTheFirstInLine(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		x := w.Semaphore(2)
		l := recipetest.Acquire(t, x, 2)
		first, second, third := recipetest.WaitsFor(t, w.Semaphore(2), 2), recipetest.WaitsFor(t, w.Semaphore(2), 1), recipetest.WaitsFor(t, w.Semaphore(2), 1)
		require.NoError(t, x.Resize(harness.Within(t, time.Minute), 3))
		synctest.Wait()
		require.True(t, first.Waiting(), "one is not enough")
		require.NoError(t, x.Resize(harness.Within(t, time.Minute), 5))
		require.Equal(t, []int{2, 3}, first.Get().Slots())
		require.Equal(t, []int{4}, second.Get().Slots())
		synctest.Wait()
		require.True(t, third.Waiting())
		recipetest.ReleaseSlots(t, l)
		recipetest.ReleaseSlots(t, third.Get(), first.Get(), second.Get())
		w.SemaphoreAtRest()
	})
}

func TestA33ResizeToFewerSlotsDrains(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		x, y := w.Semaphore(4), w.WarmSemaphore(4)
		var ls []*zkrecipes.SlotLease
		for range 4 {
			ls = append(ls, recipetest.Acquire(t, x, 1))
		}
		large := recipetest.WaitsFor(t, w.Semaphore(4), 3)
		small := recipetest.WaitsFor(t, y, 1)
		require.NoError(t, x.Resize(harness.Within(t, time.Minute), 2))
		_, err := large.Wait()
		recipetest.RequireSize(t, err, "3 slots requested of a semaphore of 2 slots")
		recipetest.ReleaseSlots(t, ls[0], ls[1])
		for range 3 {
			synctest.Wait()
			require.True(t, small.Waiting(), "two are held, beyond the first two")
			require.NoError(t, ls[2].Err())
			_, err := x.TryAcquire(harness.Within(t, time.Minute))
			require.ErrorIs(t, err, zkrecipes.ErrLocked)
		}
		recipetest.ReleaseSlots(t, ls[3])
		l := small.Get()
		require.Equal(t, 0, l.Slot())
		require.Equal(t, []int{0, 2}, w.Taken())
		_, err = w.Semaphore(2).TryAcquire(harness.Within(t, time.Minute))
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		recipetest.ReleaseSlots(t, ls[2])
		recipetest.ReleaseSlots(t, recipetest.Acquire(t, w.Semaphore(2), 1), l)
		_, err = w.Semaphore(4).Acquire(harness.Within(t, time.Minute))
		recipetest.RequireSize(t, err, "a semaphore of 2 slots is used as one of 4")
		w.SemaphoreAtRest()
	})
}

// Semaphores that were used before follow a change of n, in what they remember, too.
func TestSemaphoresFollowResize(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		x, y := w.WarmSemaphore(2), w.WarmSemaphore(2)
		require.NoError(t, x.Resize(harness.Within(t, time.Minute), 1))
		l := recipetest.Acquire(t, y, 1)
		_, err := y.TryAcquire(harness.Within(t, time.Minute))
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		_, err = y.AcquireN(harness.Within(t, time.Minute), 2)
		recipetest.RequireSize(t, err, "2 slots requested of a semaphore of 1 slots")
		require.NoError(t, x.Resize(harness.Within(t, time.Minute), 5))
		rest := recipetest.Acquire(t, y, 4)
		recipetest.ReleaseSlots(t, l, rest)
		recipetest.Wipe(t, w.Bare(), "/s")
		all := recipetest.Acquire(t, y, 5)
		require.Equal(t, []int{0, 1, 2, 3, 4}, w.Taken(), "made anew with the n that it knows")
		recipetest.ReleaseSlots(t, all)
	})
}

// Resize creates a path, and its outcome is found if a reply is lost.
func TestResizeSurvivesAMishapAtAnyRequest(t *testing.T) {
	for _, exists := range []bool{false, true} {
		for _, fault := range recipetest.Mishaps {
			for n, met := 0, true; met; n++ {
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					x := w.Semaphore(2)
					if exists {
						recipetest.ReleaseSlots(t, recipetest.Acquire(t, x, 1))
					}
					fault.Skip = n
					w.Plan.Add(fault)
					require.NoError(t, x.Resize(harness.Within(t, 10*time.Minute), 7), fault)
					met = w.Met()
					w.Plan.Stop()
					recipetest.ReleaseSlots(t, recipetest.Acquire(t, x, 7))
				})
			}
		}
	}
}

// The value that created the path by Resize follows later changes, although it has not
// acquired anything yet.
func TestSemaphoreThatResizeCreatedFollowsOthers(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		x, y := w.Semaphore(2), w.Semaphore(5)
		require.NoError(t, x.Resize(harness.Within(t, time.Minute), 5))
		recipetest.ReleaseSlots(t, recipetest.Acquire(t, y, 1))
		require.NoError(t, y.Resize(harness.Within(t, time.Minute), 7))
		recipetest.ReleaseSlots(t, recipetest.Acquire(t, x, 7))
		w.SemaphoreAtRest()
	})
}

// A value whose client has moved to a server that lags behind a Resize has the new n.
func TestSemaphoreBehindALaggingServerKnowsTheNewSize(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		x, y := w.Semaphore(2), w.Semaphore(2)
		recipetest.ReleaseSlots(t, recipetest.Acquire(t, x, 1), recipetest.Acquire(t, y, 1))
		require.NoError(t, x.Resize(harness.Within(t, time.Minute), 5))
		require.True(t, w.Srv.Disconnect(recipetest.SessionID(recipetest.ClientOf(recipetest.SlotsOf(y).Line.Client))))
		requests := w.Requests(func() {
			l := recipetest.Acquire(t, y, 3)
			require.Len(t, l.Slots(), 3)
			recipetest.ReleaseSlots(t, l)
		})
		require.Equal(t, 1, requests["sync"], "the server was behind")
		w.SemaphoreAtRest()
	}, recipetest.Behind(2, 1))
}

func TestResizeWhoseContextEndsBeforeTheReplyIsUncertain(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		x := w.WarmSemaphore(2)
		w.Plan.Add(zktest.Fault{Do: zktest.Withhold, After: true, Op: recipetest.OpResize})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := x.Resize(ctx, 3)
		require.ErrorIs(t, err, zkrecipes.ErrUncertain)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestSemaphoreLeavesOtherDataAlone(t *testing.T) {
	for _, data := range []string{"mine", "0", "-1", "1.5"} {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			_, err := w.Bare().Create("/s", []byte(data), 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			x := w.Semaphore(2)
			_, err = x.Acquire(harness.Within(t, time.Minute))
			require.ErrorIs(t, err, zkrecipes.ErrPathInUse)
			require.ErrorContains(t, err, "number of slots")
			require.ErrorIs(t, x.Resize(harness.Within(t, time.Minute), 2), zkrecipes.ErrPathInUse)
			now, _, err := w.Bare().Get("/s")
			require.NoError(t, err)
			require.Equal(t, data, string(now))
		})
	}
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) { // an empty znode gets n
		_, err := w.Bare().Create("/s", nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		recipetest.ReleaseSlots(t, recipetest.Acquire(t, w.Semaphore(2), 2))
		now, _, err := w.Bare().Get("/s")
		require.NoError(t, err)
		require.Equal(t, "2", string(now))
	})
}
