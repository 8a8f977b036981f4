package zkrecipes

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// How many slots a Semaphore has.

func TestA34SemaphoreRefusesMoreSlotsThanThereAreAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := acquire(t, w.semaphore(2), 2)
		waiting := waitsFor(t, w.semaphore(2), 1)
		for _, x := range []*Semaphore{w.semaphore(2), waitsForNothing(t, w)} {
			_, err := x.AcquireN(harness.Within(t, time.Minute), 3)
			requireSize(t, err, "3 slots requested of a semaphore of 2 slots")
			_, err = x.TryAcquireN(harness.Within(t, time.Minute), 3)
			requireSize(t, err, "3 slots requested of a semaphore of 2 slots")
		}
		releaseSlots(t, l)
		releaseSlots(t, waiting.Get())
		w.semaphoreAtRest()
	})
}

// waitsForNothing returns a semaphore of 2 that expects others in line.
func waitsForNothing(t *testing.T, w *world) *Semaphore {
	t.Helper()
	x := w.semaphore(2)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := x.Acquire(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	x.slotted.SetBusy(true)
	return x
}

func TestA34SemaphoresThatDisagreeOnNGetAnErrorThatNamesBoth(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := acquire(t, w.semaphore(2), 1)
		x := w.semaphore(3)
		_, err := x.Acquire(harness.Within(t, time.Minute))
		requireSize(t, err, "a semaphore of 2 slots is used as one of 3")
		x.slotted.SetBusy(true) // it joins the line at once
		_, err = x.Acquire(harness.Within(t, time.Minute))
		requireSize(t, err, "a semaphore of 2 slots is used as one of 3")
		_, err = x.TryAcquire(harness.Within(t, time.Minute))
		requireSize(t, err, "a semaphore of 2 slots is used as one of 3")
		releaseSlots(t, l)
		w.semaphoreAtRest()
	})
}

// The path was deleted and made anew for another n. What is remembered does not count.
func TestSemaphoreThatRemembersAnotherNFollowsThePath(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		x := w.warmSemaphore(3)
		wipe(t, w.bare(), "/s")
		l := acquire(t, w.semaphore(1), 1)
		_, err := x.TryAcquire(harness.Within(t, time.Minute))
		require.ErrorIs(t, err, ErrLocked)
		a := waitsFor(t, x, 1)
		require.Equal(t, []int{0}, w.taken())
		_, err = x.AcquireN(harness.Within(t, time.Minute), 2)
		requireSize(t, err, "2 slots requested of a semaphore of 1 slots")
		releaseSlots(t, l)
		releaseSlots(t, a.Get())
		w.semaphoreAtRest()
	})
}

// A new n lasts when the servers delete idle containers, whichever Semaphore is used first
// afterwards.
func TestB100ResizeOutlastsTheIdleContainersOfTheSemaphore(t *testing.T) {
	for name, made := range map[string]bool{"made before": true, "made by Resize": false} {
		for _, resizer := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, used first by its resizer=%v", name, resizer), func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					x, y := w.semaphore(4), w.semaphore(4)
					if made {
						releaseSlots(t, acquire(t, x, 1), acquire(t, y, 1))
						time.Sleep(time.Minute)
						require.NotContains(t, w.srv.Children("/"), "s", "reaped before, too")
						releaseSlots(t, acquire(t, x, 1), acquire(t, y, 1))
					}
					require.NoError(t, x.Resize(harness.Within(t, time.Minute), 2))
					if !made {
						y = w.semaphore(2)
					}
					releaseSlots(t, acquire(t, x, 1))
					for range 2 {
						time.Sleep(time.Hour)
						require.NotContains(t, w.srv.Children("/s"), "line", "it was idle")
						first, second := x, y
						if !resizer {
							first, second = y, x
						}
						ls := []*SlotLease{acquire(t, first, 1), acquire(t, second, 1)}
						require.Equal(t, []int{0, 1}, w.taken())
						for _, x := range []*Semaphore{x, y} {
							_, err := x.TryAcquire(harness.Within(t, time.Minute))
							require.ErrorIs(t, err, ErrLocked, "2 slots")
						}
						releaseSlots(t, ls...)
					}
					require.NoError(t, y.Resize(harness.Within(t, time.Minute), 3))
					releaseSlots(t, acquire(t, x, 3))
					w.semaphoreAtRest()
				}, zktest.ContainerCheckInterval(time.Second))
			})
		}
	}
}

// Processes of another n make the path anew after it was idle. The value that agreed with
// the path before follows.
func TestB100SemaphoreThatHasAgreedFollowsAPathThatOthersMadeAnew(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		x := w.warmSemaphore(2)
		time.Sleep(time.Hour)
		require.NotContains(t, w.srv.Children("/"), "s")
		l := acquire(t, w.semaphore(3), 1)
		rest := acquire(t, x, 2)
		_, err := x.TryAcquire(harness.Within(t, time.Minute))
		require.ErrorIs(t, err, ErrLocked)
		x.slotted.SetBusy(true) // it joins the line at once
		_, err = x.AcquireN(harness.Within(t, time.Minute), 4)
		requireSize(t, err, "4 slots requested of a semaphore of 3 slots")
		releaseSlots(t, l, rest)
		w.semaphoreAtRest()
	}, zktest.ContainerCheckInterval(time.Second))
}

func TestA33ResizeWakesTheFirstInLine(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		x := w.semaphore(2)
		l := acquire(t, x, 2)
		first, second, third := waitsFor(t, w.semaphore(2), 2), waitsFor(t, w.semaphore(2), 1), waitsFor(t, w.semaphore(2), 1)
		require.NoError(t, x.Resize(harness.Within(t, time.Minute), 3))
		synctest.Wait()
		require.True(t, first.Waiting(), "one is not enough")
		require.NoError(t, x.Resize(harness.Within(t, time.Minute), 5))
		require.Equal(t, []int{2, 3}, first.Get().Slots())
		require.Equal(t, []int{4}, second.Get().Slots())
		synctest.Wait()
		require.True(t, third.Waiting())
		releaseSlots(t, l)
		releaseSlots(t, third.Get(), first.Get(), second.Get())
		w.semaphoreAtRest()
	})
}

func TestA33ResizeToFewerSlotsDrains(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		x, y := w.semaphore(4), w.warmSemaphore(4)
		var ls []*SlotLease
		for range 4 {
			ls = append(ls, acquire(t, x, 1))
		}
		large := waitsFor(t, w.semaphore(4), 3)
		small := waitsFor(t, y, 1)
		require.NoError(t, x.Resize(harness.Within(t, time.Minute), 2))
		_, err := large.Wait()
		requireSize(t, err, "3 slots requested of a semaphore of 2 slots")
		releaseSlots(t, ls[0], ls[1])
		for range 3 {
			synctest.Wait()
			require.True(t, small.Waiting(), "two are held, beyond the first two")
			require.NoError(t, ls[2].Err())
			_, err := x.TryAcquire(harness.Within(t, time.Minute))
			require.ErrorIs(t, err, ErrLocked)
		}
		releaseSlots(t, ls[3])
		l := small.Get()
		require.Equal(t, 0, l.Slot())
		require.Equal(t, []int{0, 2}, w.taken())
		_, err = w.semaphore(2).TryAcquire(harness.Within(t, time.Minute))
		require.ErrorIs(t, err, ErrLocked)
		releaseSlots(t, ls[2])
		releaseSlots(t, acquire(t, w.semaphore(2), 1), l)
		_, err = w.semaphore(4).Acquire(harness.Within(t, time.Minute))
		requireSize(t, err, "a semaphore of 2 slots is used as one of 4")
		w.semaphoreAtRest()
	})
}

// Semaphores that were used before follow a change of n, in what they remember, too.
func TestSemaphoresFollowResize(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		x, y := w.warmSemaphore(2), w.warmSemaphore(2)
		require.NoError(t, x.Resize(harness.Within(t, time.Minute), 1))
		l := acquire(t, y, 1)
		_, err := y.TryAcquire(harness.Within(t, time.Minute))
		require.ErrorIs(t, err, ErrLocked)
		_, err = y.AcquireN(harness.Within(t, time.Minute), 2)
		requireSize(t, err, "2 slots requested of a semaphore of 1 slots")
		require.NoError(t, x.Resize(harness.Within(t, time.Minute), 5))
		rest := acquire(t, y, 4)
		releaseSlots(t, l, rest)
		wipe(t, w.bare(), "/s")
		all := acquire(t, y, 5)
		require.Equal(t, []int{0, 1, 2, 3, 4}, w.taken(), "made anew with the n that it knows")
		releaseSlots(t, all)
	})
}

// Resize creates a path, and its outcome is found if a reply is lost.
func TestResizeSurvivesAMishapAtAnyRequest(t *testing.T) {
	for _, exists := range []bool{false, true} {
		for _, fault := range mishaps {
			for n, met := 0, true; met; n++ {
				inBubble(t, func(t *testing.T, w *world) {
					x := w.semaphore(2)
					if exists {
						releaseSlots(t, acquire(t, x, 1))
					}
					fault.Skip = n
					w.plan.Add(fault)
					require.NoError(t, x.Resize(harness.Within(t, 10*time.Minute), 7), fault)
					met = w.met()
					w.plan.Stop()
					releaseSlots(t, acquire(t, x, 7))
				})
			}
		}
	}
}

// The value that created the path by Resize follows later changes, although it has not
// acquired anything yet.
func TestSemaphoreThatResizeCreatedFollowsOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		x, y := w.semaphore(2), w.semaphore(5)
		require.NoError(t, x.Resize(harness.Within(t, time.Minute), 5))
		releaseSlots(t, acquire(t, y, 1))
		require.NoError(t, y.Resize(harness.Within(t, time.Minute), 7))
		releaseSlots(t, acquire(t, x, 7))
		w.semaphoreAtRest()
	})
}

// A value whose client has moved to a server that lags behind a Resize has the new n.
func TestSemaphoreBehindALaggingServerKnowsTheNewSize(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		x, y := w.semaphore(2), w.semaphore(2)
		releaseSlots(t, acquire(t, x, 1), acquire(t, y, 1))
		require.NoError(t, x.Resize(harness.Within(t, time.Minute), 5))
		require.True(t, w.srv.Disconnect(sessionID(clientOf(y.slotted.Line.Client))))
		requests := w.requests(func() {
			l := acquire(t, y, 3)
			require.Len(t, l.Slots(), 3)
			releaseSlots(t, l)
		})
		require.Equal(t, 1, requests["sync"], "the server was behind")
		w.semaphoreAtRest()
	}, behind(2, 1))
}

func TestResizeWhoseContextEndsBeforeTheReplyIsUncertain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		x := w.warmSemaphore(2)
		w.plan.Add(zktest.Fault{Do: zktest.Withhold, After: true, Op: opResize})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := x.Resize(ctx, 3)
		require.ErrorIs(t, err, ErrUncertain)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestSemaphoreLeavesOtherDataAlone(t *testing.T) {
	for _, data := range []string{"mine", "0", "-1", "1.5"} {
		inBubble(t, func(t *testing.T, w *world) {
			_, err := w.bare().Create("/s", []byte(data), 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			x := w.semaphore(2)
			_, err = x.Acquire(harness.Within(t, time.Minute))
			require.ErrorIs(t, err, ErrPathInUse)
			require.ErrorContains(t, err, "number of slots")
			require.ErrorIs(t, x.Resize(harness.Within(t, time.Minute), 2), ErrPathInUse)
			now, _, err := w.bare().Get("/s")
			require.NoError(t, err)
			require.Equal(t, data, string(now))
		})
	}
	inBubble(t, func(t *testing.T, w *world) { // an empty znode gets n
		_, err := w.bare().Create("/s", nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		releaseSlots(t, acquire(t, w.semaphore(2), 2))
		now, _, err := w.bare().Get("/s")
		require.NoError(t, err)
		require.Equal(t, "2", string(now))
	})
}
