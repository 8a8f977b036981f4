package semaphore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/semaphore"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// How many slots a Semaphore has.

// Somebody asks for more slots than there are, or expects another number of them. They are
// refused at once, also one that expects others in line and joins that.
func TestSemaphoresThatDisagreeOnNGetAnErrorThatNamesBoth(t *testing.T) {
	recipetest.InSemaphoreBubble(t, func(t *testing.T, w *recipetest.World) {
		more, other := w.Semaphore(2), w.Semaphore(3)
		cycle(t, more, 1)
		l := recipetest.Acquire(t, w.Semaphore(2), 2)
		recipetest.RefusesSize(t, other, 1, "a semaphore of 2 slots is used as one of 3")
		expects := semaphore.New(w.NewCore().Client, "/s", 3)
		expects.SetBusy(true)
		_, err := expects.Acquire(harness.Within(t, time.Minute), 1, true)
		recipetest.RequireSize(t, err, "a semaphore of 2 slots is used as one of 3")
		waiting := w.WaitsForSlots(2, 1)
		recipetest.RefusesSize(t, more, 3, "3 slots requested of a semaphore of 2 slots")
		recipetest.ReleaseSlots(t, l)
		recipetest.Served(t, waiting)
	})
}

// A new n lasts when the servers delete idle containers, whichever Semaphore is used first
// afterwards.
func TestResizeOutlastsTheIdleContainersOfTheSemaphore(t *testing.T) {
	for name, made := range map[string]bool{"made before": true, "made by Resize": false} {
		for _, resizer := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, used first by its resizer=%v", name, resizer), func(t *testing.T) {
				recipetest.InSemaphoreBubble(t, func(t *testing.T, w *recipetest.World) {
					x, y := w.Semaphore(4), w.Semaphore(4)
					if made {
						recipetest.ReleaseSlots(t, recipetest.Acquire(t, x, 1), recipetest.Acquire(t, y, 1))
						time.Sleep(time.Minute)
						require.NotContains(t, w.Srv.Children("/"), "s", "reaped before, too")
						recipetest.ReleaseSlots(t, recipetest.Acquire(t, x, 1), recipetest.Acquire(t, y, 1))
					}
					recipetest.Resize(t, x, 2)
					if !made {
						y = w.Semaphore(2)
					}
					cycle(t, x, 1)
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
							recipetest.RequireLocked(t, x, 1)
						}
						recipetest.ReleaseSlots(t, ls...)
					}
					recipetest.Resize(t, y, 3)
					cycle(t, x, 3)
				}, zktest.ContainerCheckInterval(time.Second))
			})
		}
	}
}

// Processes of another n make the path anew after it was idle. The value that agreed with
// the path before follows.
func TestSemaphoreThatHasAgreedFollowsAPathThatOthersMadeAnew(t *testing.T) {
	recipetest.InSemaphoreBubble(t, func(t *testing.T, w *recipetest.World) {
		x := w.WarmSemaphore(2)
		time.Sleep(time.Hour)
		require.NotContains(t, w.Srv.Children("/"), "s")
		l := recipetest.Acquire(t, w.Semaphore(3), 1)
		rest := recipetest.Acquire(t, x, 2)
		recipetest.RequireLocked(t, x, 1)
		recipetest.RefusesSize(t, x, 4, "4 slots requested of a semaphore of 3 slots")
		recipetest.ReleaseSlots(t, l, rest)
	}, zktest.ContainerCheckInterval(time.Second))
}

// Resize creates a path, and its outcome is found if a reply is lost.
func TestResizeSurvivesAMishapAtAnyRequest(t *testing.T) {
	for _, exists := range []bool{false, true} {
		recipetest.EachRequest(t, recipetest.Mishaps, func(t *testing.T, fault zktest.Fault) (met bool) {
			recipetest.InSemaphoreBubble(t, func(t *testing.T, w *recipetest.World) {
				x := w.Semaphore(2)
				if exists {
					cycle(t, x, 1)
				}
				w.Plan.Add(fault)
				require.NoError(t, x.Resize(harness.Within(t, 10*time.Minute), 7), fault)
				met = w.Met()
				w.Plan.Stop()
				cycle(t, x, 7)
			})
			return met || fault.Skip < 5
		})
	}
}

// A value whose client has moved to a server that lags behind a Resize has the new n.
func TestSemaphoreBehindALaggingServerKnowsTheNewSize(t *testing.T) {
	recipetest.InSemaphoreBubble(t, func(t *testing.T, w *recipetest.World) {
		x, y := w.Semaphore(2), w.Semaphore(2)
		recipetest.ReleaseSlots(t, recipetest.Acquire(t, x, 1), recipetest.Acquire(t, y, 1))
		recipetest.Resize(t, x, 5)
		require.True(t, w.Srv.Disconnect(recipetest.SessionID(w.ClientOf(y))))
		requests := w.Requests(func() {
			l := recipetest.Acquire(t, y, 3)
			require.Len(t, l.Slots(), 3)
			recipetest.ReleaseSlots(t, l)
		})
		require.Equal(t, 1, requests["sync"], "the server was behind")
	}, recipetest.Behind(2, 1))
}

func TestResizeWhoseContextEndsBeforeTheReplyIsUncertain(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		x := w.WarmSemaphore(2)
		w.Plan.Add(zktest.Fault{Do: zktest.Withhold, After: true, Op: recipetest.OpResize})
		ctx := harness.Within(t, time.Second)
		err := x.Resize(ctx, 3)
		require.ErrorIs(t, err, zkrecipes.ErrUncertain)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestSemaphoreLeavesOtherDataAlone(t *testing.T) {
	for _, data := range []string{"mine", "0", "-1", "1.5"} {
		recipetest.InSemaphoreBubble(t, func(t *testing.T, w *recipetest.World) {
			w.Write("/s", data)
			requireInUse(t, w.Semaphore(2), "number of slots")
			require.Equal(t, data, w.Text("/s"))
		})
	}
	recipetest.InSemaphoreBubble(t, func(t *testing.T, w *recipetest.World) { // an empty znode gets n
		w.Write("/s", "")
		cycle(t, w.Semaphore(2), 2)
		require.Equal(t, "2", w.Text("/s"))
	})
}
