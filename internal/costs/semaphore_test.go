package costs

import (
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// slots are what steps of semaphores use and leave.
type slots struct {
	mySlots, theirSlots *zkrecipes.Semaphore
	taken               []*zkrecipes.SlotLease
	firstInLine         *harness.Call[*zkrecipes.SlotLease]
}

// semaphore returns the one of n slots in c, which has used it alone if it is warm.
func (w *world) semaphore(c *zkrecipes.Client, n int, warm bool) *zkrecipes.Semaphore {
	x := zkrecipes.NewSemaphore(c, "/s", n)
	if warm {
		for range 2 { // the first use stands in line
			recipetest.ReleaseSlots(w.t, recipetest.Acquire(w.t, x, 1))
		}
		synctest.Wait()
	}
	return x
}

func mySlots(n int) step { return func(w *world) { w.mySlots = w.semaphore(w.c, n, false) } }
func myWarm(n int) step  { return func(w *world) { w.mySlots = w.semaphore(w.c, n, true) } }
func theirSlots(n int) step {
	return func(w *world) { w.theirSlots = w.semaphore(w.other, n, false) }
}
func theirWarm(n int) step {
	return func(w *world) { w.theirSlots = w.semaphore(w.other, n, true) }
}

func iUseSlots(k int) step {
	return func(w *world) { recipetest.ReleaseSlots(w.t, recipetest.Acquire(w.t, w.mySlots, k)) }
}

func theyUseSlots(k int) step {
	return func(w *world) { recipetest.ReleaseSlots(w.t, recipetest.Acquire(w.t, w.theirSlots, k)) }
}

func theyAcquire(k int) step {
	return func(w *world) { w.taken = append(w.taken, recipetest.Acquire(w.t, w.theirSlots, k)) }
}

// waitsFor has a semaphore wait for k slots.
func (w *world) waitsFor(x *zkrecipes.Semaphore, k int) {
	a := recipetest.WaitsFor(w.t, x, k)
	if w.firstInLine == nil {
		w.firstInLine = a
	}
}

func iWaitFor(k int) step { return func(w *world) { w.waitsFor(w.mySlots, k) } }

func newcomerWaitsFor(k, n int) step {
	return func(w *world) { w.waitsFor(zkrecipes.NewSemaphore(w.client(), "/s", n), k) }
}

// releaseSlots releases what was taken first.
func releaseSlots(w *world) { recipetest.ReleaseSlots(w.t, w.taken[0]) }

func releaseSlotsToFirst(w *world) { releaseSlots(w); w.taken = append(w.taken, w.firstInLine.Get()) }

func noSlots(w *world) {
	_, err := w.mySlots.TryAcquire(w.ctx())
	require.ErrorIs(w.t, err, zkrecipes.ErrLocked)
}

// full takes all n slots.
func full(n int) step { return all(theirWarm(n), theyAcquire(n)) }

// metInLine has me wait for the only slot of another client.
var metInLine = all(myWarm(1), full(1), iWaitFor(1), releaseSlotsToFirst, func(w *world) { recipetest.ReleaseSlots(w.t, w.taken[1]) })

var semaphoreRows = []row{
	{"Acquire and Release, free", steps{myWarm(4), iUseSlots(1)}},
	{"Acquire and Release of three slots, free", steps{myWarm(4), iUseSlots(3)}},
	{"... this client's first, of a path that does not exist", steps{mySlots(4), iUseSlots(1)}},
	{"... another client has used it since", steps{myWarm(4), theirWarm(4), iUseSlots(1)}},
	{"... another client has taken a slot since", steps{myWarm(4), theirWarm(4), iUseSlots(1), theyAcquire(1), iUseSlots(1)}},
	{"... and once more", steps{myWarm(4), theirWarm(4), theyAcquire(1), iUseSlots(1), iUseSlots(1)}},
	{"Acquire, full", steps{myWarm(1), full(1), iWaitFor(1)}},
	{"a minute's wait", steps{myWarm(1), full(1), iWaitFor(1), settle, pass(time.Minute)}},
	{"Release with one waiter, which enters", steps{myWarm(1), full(1), iWaitFor(1), releaseSlotsToFirst}},
	{"Release with three waiters, the first of which enters", steps{full(1), times(3, newcomerWaitsFor(1, 1)), releaseSlotsToFirst}},
	{"Release that does not suffice for the first waiter", steps{theirWarm(3), times(2, theyAcquire(1)), mySlots(3), iWaitFor(3), releaseSlots}},
	{"Acquire and Release, by a client that has met others in line", steps{metInLine, iUseSlots(1)}},
	{"... and the next, as it was alone", steps{metInLine, iUseSlots(1), iUseSlots(1)}},
	{"TryAcquire, full", steps{full(1), mySlots(1), noSlots, noSlots}},
	{"TryAcquire, full, the first", steps{full(1), mySlots(1), noSlots}},
	{"TryAcquire, full, and others wait", steps{full(3), newcomerWaitsFor(3, 3), mySlots(3), noSlots}},
	{"TryAcquire, a slot is free, but somebody waits for more", steps{theirWarm(3), theyAcquire(2), newcomerWaitsFor(3, 3), mySlots(3), noSlots}},
	{"Resize", steps{mySlots(3), iUseSlots(2), func(w *world) { w.ok(w.mySlots.Resize(w.ctx(), 4)) }}},
	{"Size", steps{theirSlots(3), theyUseSlots(2), mySlots(0), func(w *world) { _, err := w.mySlots.Size(w.ctx()); w.ok(err) }}},
}
