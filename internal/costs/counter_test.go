package costs

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// counter returns a counter of c that is 1.
func (w *world) counter(c *zkrecipes.Client) *zkrecipes.Counter {
	x := zkrecipes.NewCounter(c, "/c")
	recipetest.Count(w.t, x, 1)
	return x
}

// swaps is a CompareAndSet that returns whether it swapped.
func (w *world) swaps(x *zkrecipes.Counter, old int64, want bool) func() {
	return func() {
		swapped, err := x.CompareAndSet(w.ctx(), old, old+1)
		w.ok(err)
		require.Equal(w.t, want, swapped)
	}
}

var counterRows = []row{
	{"Add", func(w *world) func() {
		x := w.counter(w.c)
		return func() { recipetest.Count(w.t, x, 1) }
	}},
	{"Set", func(w *world) func() {
		x := w.counter(w.c)
		return func() { w.ok(x.Set(w.ctx(), 7)) }
	}},
	{"64 Adds of one client while another write is under way, and that write", func(w *world) func() {
		x := w.counter(w.c)
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpCount, For: time.Second})
		return func() {
			calls := []*harness.Call[int64]{recipetest.CountLater(w.t, x, 1)}
			time.Sleep(time.Second / 2)
			for range 64 {
				calls = append(calls, recipetest.CountLater(w.t, zkrecipes.NewCounter(w.c, "/c"), 1))
			}
			for _, a := range calls {
				a.Get()
			}
		}
	}},
	{"Add, the first of all", func(w *world) func() {
		return func() { w.counter(w.c) }
	}},
	{"Add, the first of another client", func(w *world) func() {
		w.counter(w.other)
		x := zkrecipes.NewCounter(w.c, "/c")
		return func() { recipetest.Count(w.t, x, 1) }
	}},
	{"Add, the first for a minute, and its clean-up", func(w *world) func() {
		x := w.counter(w.c)
		time.Sleep(2 * line.IdleLine)
		return func() { recipetest.Count(w.t, x, 1); time.Sleep(2 * line.IdleLine) }
	}},
	{"Add, another client was quicker", func(w *world) func() {
		x := w.counter(w.c)
		w.counter(w.other)
		return func() { recipetest.Count(w.t, x, 1) }
	}},
	{"CompareAndSet, it swaps", func(w *world) func() { return w.swaps(w.counter(w.c), 1, true) }},
	{"CompareAndSet, the value is another one", func(w *world) func() { return w.swaps(w.counter(w.c), 7, false) }},
	{"CompareAndSet, another client has made it so", func(w *world) func() {
		x := w.counter(w.c)
		w.counter(w.other)
		return w.swaps(x, 1, false)
	}},
	{"Get", func(w *world) func() {
		x := w.counter(w.c)
		return func() { _, err := x.Get(w.ctx()); w.ok(err) }
	}},
}
