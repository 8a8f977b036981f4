package zkrecipes

import (
	"context"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/semaphore"
)

// Requests of a Semaphore, as the servers count them.
const (
	opTakeFree  = "multi(create,check,setData)"
	opTakeTurn  = "multi(create,check,setData,delete)"
	opTakeTurn2 = "multi(create,create,check,setData,delete)"
	opResize    = "multi(setData,create)" // the first
	opGiveBack  = "multi(delete)"
	opGiveBack2 = "multi(delete,delete)"
)

// semaphore returns a semaphore of n slots at "/s" in a session of its own.
func (w *world) semaphore(n int) *Semaphore {
	w.t.Helper()
	return NewSemaphore(w.stranger(nil), "/s", n)
}

// warmSemaphore is like semaphore, and has been used before.
func (w *world) warmSemaphore(n int) *Semaphore {
	w.t.Helper()
	x := w.semaphore(n)
	for range 2 { // the first use stands in line
		releaseSlots(w.t, acquire(w.t, x, 1))
	}
	synctest.Wait()
	return x
}

// acquire takes k slots and fails the test if it cannot.
func acquire(t testing.TB, x *Semaphore, k int) *SlotLease {
	t.Helper()
	l, err := x.AcquireN(harness.Within(t, 20*time.Second), k)
	require.NoError(t, err)
	return l
}

func releaseSlots(t testing.TB, ls ...*SlotLease) {
	t.Helper()
	for _, l := range ls {
		require.NoError(t, l.Release())
	}
}

// acquireLater takes k slots in the background.
func acquireLater(t testing.TB, x *Semaphore, k int) *harness.Call[*SlotLease] {
	return harness.Go(t, func(ctx context.Context) (*SlotLease, error) { return x.AcquireN(ctx, k) })
}

// waitsFor takes k slots in the background and requires that the call waits.
func waitsFor(t testing.TB, x *Semaphore, k int) *harness.Call[*SlotLease] {
	t.Helper()
	a := acquireLater(t, x, k)
	synctest.Wait()
	require.True(t, a.Waiting())
	return a
}

// taken returns the numbers of the slots whose znodes stand on the server, sorted.
func (w *world) taken() []int {
	numbers := []int{}
	for i := range maps.Values(semaphore.SlotsAmong(w.srv.Children("/s/slots"))) {
		numbers = append(numbers, int(i))
	}
	slices.Sort(numbers)
	return numbers
}

// slotNode returns the path of the znode of a slot that is taken.
func (w *world) slotNode(i int) string {
	w.t.Helper()
	for name, n := range semaphore.SlotsAmong(w.srv.Children("/s/slots")) {
		if int(n) == i {
			return "/s/slots/" + name
		}
	}
	require.FailNow(w.t, "slot is not taken")
	return ""
}

// semaphoreAtRest requires that nothing is held and nobody waits.
func (w *world) semaphoreAtRest() {
	w.t.Helper()
	synctest.Wait()
	require.Empty(w.t, w.srv.Children("/s/slots"))
	require.Empty(w.t, w.srv.Children("/s/line"))
}
