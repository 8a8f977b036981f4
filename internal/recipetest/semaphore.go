package recipetest

import (
	"context"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/semaphore"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Requests of a Semaphore, as the servers count them.
const (
	OpTakeFree = "multi(create,check,setData)"
	OpTakeTurn = "multi(create,check,setData,delete)"
	OpResize   = "multi(setData,create)" // the first
	OpGiveBack = "delete"
)

// Semaphore returns a semaphore of n slots at "/s" in a session of its own.
func (w *World) Semaphore(n int) *zkrecipes.Semaphore {
	w.T.Helper()
	c := w.Stranger(nil)
	return uses(w, zkrecipes.NewSemaphore(c, "/s", n), c)
}

// WarmSemaphore is like semaphore, and has been used before.
func (w *World) WarmSemaphore(n int) *zkrecipes.Semaphore {
	w.T.Helper()
	x := w.Semaphore(n)
	for range 2 { // the first use stands in line
		ReleaseSlots(w.T, Acquire(w.T, x, 1))
	}
	synctest.Wait()
	return x
}

// Acquire takes k slots and fails the test if it cannot.
func Acquire(t testing.TB, x *zkrecipes.Semaphore, k int) *zkrecipes.SlotLease {
	t.Helper()
	l, err := x.AcquireN(harness.Within(t, 2*time.Minute), k)
	require.NoError(t, err)
	return l
}

func ReleaseSlots(t testing.TB, ls ...*zkrecipes.SlotLease) {
	t.Helper()
	for _, l := range ls {
		require.NoError(t, l.Release())
	}
}

// AcquireLater takes k slots in the background.
func AcquireLater(t testing.TB, x *zkrecipes.Semaphore, k int) *harness.Call[*zkrecipes.SlotLease] {
	return harness.Go(t, func(ctx context.Context) (*zkrecipes.SlotLease, error) { return x.AcquireN(ctx, k) })
}

// WaitsFor takes k slots in the background and requires that the call waits.
func WaitsFor(t testing.TB, x *zkrecipes.Semaphore, k int) *harness.Call[*zkrecipes.SlotLease] {
	t.Helper()
	a := AcquireLater(t, x, k)
	synctest.Wait()
	require.True(t, a.Waiting())
	return a
}

// Taken returns the numbers of the slots whose znodes stand on the server, sorted.
func (w *World) Taken() []int {
	numbers := []int{}
	for i := range maps.Values(semaphore.SlotsAmong(w.Srv.Children("/s/slots"))) {
		numbers = append(numbers, int(i))
	}
	slices.Sort(numbers)
	return numbers
}

// SlotNode returns the path of the znode of a slot that is taken.
func (w *World) SlotNode(i int) string {
	w.T.Helper()
	for name, n := range semaphore.SlotsAmong(w.Srv.Children("/s/slots")) {
		if int(n) == i {
			return "/s/slots/" + name
		}
	}
	require.FailNow(w.T, "slot is not taken")
	return ""
}

// SemaphoreAtRest requires that nothing is held and nobody waits.
func (w *World) SemaphoreAtRest() {
	w.T.Helper()
	synctest.Wait()
	require.Empty(w.T, w.Srv.Children("/s/slots"))
	require.Empty(w.T, w.Srv.Children("/s/line"))
}

// DistantSemaphore returns a semaphore of two slots for a client whose replies take a
// second, and a function by which another client uses a slot, in half a second. While it is
// called all the time, what the distant client has read is old when its transaction comes.
func (w *World) DistantSemaphore() (x *zkrecipes.Semaphore, use func()) {
	near := w.WarmSemaphore(2)
	link := harness.NewLink(w.Srv)
	x = zkrecipes.NewSemaphore(w.Stranger(&zkrecipes.Options{Dialer: link.Dial}), "/s", 2)
	link.SetLatency(time.Second)
	return x, func() {
		time.Sleep(time.Second / 4)
		ReleaseSlots(w.T, Acquire(w.T, near, 1))
		time.Sleep(time.Second / 4)
	}
}

// InSemaphoreBubble runs f, and requires that nothing is held and nobody waits afterwards.
func InSemaphoreBubble(t *testing.T, f func(t *testing.T, w *World), opts ...zktest.Option) {
	t.Helper()
	InBubble(t, func(t *testing.T, w *World) {
		f(t, w)
		w.SemaphoreAtRest()
	}, opts...)
}

// RequireLocked requires that a try returns ErrLocked.
func RequireLocked(t *testing.T, x *zkrecipes.Semaphore, k int) {
	t.Helper()
	_, err := x.TryAcquireN(harness.Within(t, time.Minute), k)
	require.ErrorIs(t, err, zkrecipes.ErrLocked)
}

// Served has calls that wait get their slots, one after the other, and gives these back.
func Served(t *testing.T, as ...*harness.Call[*zkrecipes.SlotLease]) {
	t.Helper()
	for _, a := range as {
		ReleaseSlots(t, a.Get())
	}
}

// Resize sets the number of slots.
func Resize(t *testing.T, x *zkrecipes.Semaphore, n int) {
	t.Helper()
	require.NoError(t, x.Resize(harness.Within(t, time.Minute), n))
}

// WaitsForSlots takes k slots of n, and requires that the call waits.
func (w *World) WaitsForSlots(n, k int) *harness.Call[*zkrecipes.SlotLease] {
	w.T.Helper()
	return WaitsFor(w.T, w.Semaphore(n), k)
}

// StillWaits requires that calls still wait when all is quiet.
func StillWaits(t *testing.T, as ...*harness.Call[*zkrecipes.SlotLease]) {
	t.Helper()
	synctest.Wait()
	for _, a := range as {
		require.True(t, a.Waiting())
	}
}

// RefusesSize requires that Acquire and TryAcquire of k slots fail because of these sizes.
func RefusesSize(t *testing.T, x *zkrecipes.Semaphore, k int, says string) {
	t.Helper()
	_, err := x.AcquireN(harness.Within(t, time.Minute), k)
	RequireSize(t, err, says)
	_, err = x.TryAcquireN(harness.Within(t, time.Minute), k)
	RequireSize(t, err, says)
}
