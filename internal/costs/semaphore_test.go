package costs

import (
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// warm returns the semaphore of n slots in c, which has used it alone.
func (w *world) warm(c *zkrecipes.Client, n int) *zkrecipes.Semaphore {
	x := zkrecipes.NewSemaphore(c, "/s", n)
	for range 2 { // the first use stands in line
		recipetest.ReleaseSlots(w.t, recipetest.Acquire(w.t, x, 1))
	}
	synctest.Wait()
	return x
}

// crowded is like warm, and takes random slots.
func (w *world) crowded(c *zkrecipes.Client, n int) *zkrecipes.Semaphore {
	x := w.warm(c, n)
	recipetest.SlotsOf(x).NoteCrowd()
	return x
}

// acquires is the use that takes k slots and gives them back.
func (w *world) acquires(x *zkrecipes.Semaphore, k int) func() {
	return func() { recipetest.ReleaseSlots(w.t, recipetest.Acquire(w.t, x, k)) }
}

// slotRefused is the use that does not get a slot.
func (w *world) slotRefused(x *zkrecipes.Semaphore) func() {
	return func() {
		_, err := x.TryAcquire(w.ctx())
		require.ErrorIs(w.t, err, zkrecipes.ErrLocked)
	}
}

var semaphoreRows = []row{
	{"Acquire and Release, free", func(w *world) func() { return w.acquires(w.warm(w.c, 4), 1) }},
	{"Acquire and Release of three slots, free", func(w *world) func() { return w.acquires(w.warm(w.c, 4), 3) }},
	{"... this client's first, of a path that does not exist", func(w *world) func() {
		return w.acquires(zkrecipes.NewSemaphore(w.c, "/s", 4), 1)
	}},
	{"... another client has used it since", func(w *world) func() {
		x := w.warm(w.c, 4)
		w.warm(w.other, 4)
		return w.acquires(x, 1)
	}},
	{"... another client has taken a slot since", func(w *world) func() {
		x, y := w.warm(w.c, 4), w.warm(w.other, 4)
		w.acquires(x, 1)()
		recipetest.Acquire(w.t, y, 1)
		return w.acquires(x, 1)
	}},
	{"... and once more", func(w *world) func() {
		x, y := w.warm(w.c, 4), w.warm(w.other, 4)
		recipetest.Acquire(w.t, y, 1)
		w.acquires(x, 1)()
		return w.acquires(x, 1)
	}},
	{"... in a crowd, another client has taken a slot since", func(w *world) func() {
		x, y := w.crowded(w.c, 1000), w.warm(w.other, 1000)
		w.acquires(y, 1)()
		return w.acquires(x, 1)
	}},
	{"... in a crowd, nobody has", func(w *world) func() {
		x := w.crowded(w.c, 1000)
		w.acquires(x, 1)()
		return w.acquires(x, 1)
	}},
	{"Acquire, full", func(w *world) func() {
		x := w.warm(w.c, 1)
		recipetest.Acquire(w.t, w.warm(w.other, 1), 1)
		return func() { recipetest.WaitsFor(w.t, x, 1) }
	}},
	{"a minute's wait", func(w *world) func() {
		x := w.warm(w.c, 1)
		recipetest.Acquire(w.t, w.warm(w.other, 1), 1)
		recipetest.WaitsFor(w.t, x, 1)
		return w.idle(time.Minute)
	}},
	{"Release with one waiter, which enters", func(w *world) func() {
		x := w.warm(w.c, 1)
		l := recipetest.Acquire(w.t, w.warm(w.other, 1), 1)
		a := recipetest.WaitsFor(w.t, x, 1)
		return func() { recipetest.ReleaseSlots(w.t, l); a.Get() }
	}},
	{"Release with three waiters, the first of which enters", func(w *world) func() {
		l := recipetest.Acquire(w.t, w.warm(w.other, 1), 1)
		a := recipetest.WaitsFor(w.t, w.newcomer(1), 1)
		recipetest.WaitsFor(w.t, w.newcomer(1), 1)
		recipetest.WaitsFor(w.t, w.newcomer(1), 1)
		return func() { recipetest.ReleaseSlots(w.t, l); a.Get() }
	}},
	{"Release that does not suffice for the first waiter", func(w *world) func() {
		y := w.warm(w.other, 3)
		one, _ := recipetest.Acquire(w.t, y, 1), recipetest.Acquire(w.t, y, 1)
		recipetest.WaitsFor(w.t, w.slots(w.c), 3)
		return func() { recipetest.ReleaseSlots(w.t, one) }
	}},
	{"Acquire and Release, by a client that has met others in line", func(w *world) func() {
		x := w.metInLine()
		return w.acquires(x, 1)
	}},
	{"... and the next, as it was alone", func(w *world) func() {
		x := w.metInLine()
		w.acquires(x, 1)()
		return w.acquires(x, 1)
	}},
	{"TryAcquire, full", func(w *world) func() {
		recipetest.Acquire(w.t, w.warm(w.other, 1), 1)
		x := zkrecipes.NewSemaphore(w.c, "/s", 1)
		w.slotRefused(x)()
		return w.slotRefused(x)
	}},
	{"TryAcquire, full, the first", func(w *world) func() {
		recipetest.Acquire(w.t, w.warm(w.other, 1), 1)
		return w.slotRefused(zkrecipes.NewSemaphore(w.c, "/s", 1))
	}},
	{"TryAcquire, full, and others wait", func(w *world) func() {
		recipetest.Acquire(w.t, w.warm(w.other, 3), 3)
		recipetest.WaitsFor(w.t, w.slots(w.client()), 3)
		return w.slotRefused(w.slots(w.c))
	}},
	{"TryAcquire, a slot is free, but somebody waits for more", func(w *world) func() {
		recipetest.Acquire(w.t, w.warm(w.other, 3), 2)
		recipetest.WaitsFor(w.t, w.slots(w.client()), 3)
		return w.slotRefused(w.slots(w.c))
	}},
	{"TryAcquire in a crowd, another client has the same slot", func(w *world) func() {
		x, y := w.crowded(w.c, 1), w.crowded(w.other, 1)
		recipetest.Acquire(w.t, y, 1)
		return w.slotRefused(x)
	}},
	{"Holders, two slots are taken", func(w *world) func() {
		recipetest.Acquire(w.t, w.slots(w.other), 2)
		return func() { _, err := w.slots(w.c).Holders(w.ctx()); w.ok(err) }
	}},
	{"Holders, none was taken for a minute", func(w *world) func() {
		recipetest.ReleaseSlots(w.t, recipetest.Acquire(w.t, w.slots(w.other), 2))
		time.Sleep(time.Minute)
		return func() { _, err := w.slots(w.c).Holders(w.ctx()); w.ok(err) }
	}},
	{"Resize", func(w *world) func() {
		w.acquires(w.slots(w.c), 2)()
		return func() { w.ok(w.slots(w.c).Resize(w.ctx(), 4)) }
	}},
	{"Size", func(w *world) func() {
		w.acquires(w.slots(w.other), 2)()
		return func() { _, err := zkrecipes.NewSemaphore(w.c, "/s", 0).Size(w.ctx()); w.ok(err) }
	}},
}

// newcomer returns the semaphore of n slots in a client that has not used it.
func (w *world) newcomer(n int) *zkrecipes.Semaphore {
	return zkrecipes.NewSemaphore(w.client(), "/s", n)
}

// metInLine returns a semaphore of one slot whose client has waited for its last slot.
func (w *world) metInLine() *zkrecipes.Semaphore {
	x, y := w.warm(w.c, 1), w.warm(w.other, 1)
	l := recipetest.Acquire(w.t, y, 1)
	a := recipetest.WaitsFor(w.t, x, 1)
	recipetest.ReleaseSlots(w.t, l)
	recipetest.ReleaseSlots(w.t, a.Get())
	return x
}
