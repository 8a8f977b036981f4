package costs

import (
	"context"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// listed returns a list of contenders.
func (w *world) listed(of func(context.Context) ([]zkrecipes.Contender, error)) []zkrecipes.Contender {
	w.t.Helper()
	synctest.Wait()
	cs, err := of(w.ctx())
	w.ok(err)
	return cs
}

// lists is the use of a list of n contenders.
func (w *world) lists(n int, of func(context.Context) ([]zkrecipes.Contender, error)) func() {
	return func() { require.Len(w.t, w.listed(of), n) }
}

// evicts is the use that evicts the i-th contender.
func (w *world) evicts(i int, of func(context.Context) ([]zkrecipes.Contender, error)) func() {
	c := w.listed(of)[i]
	return func() {
		evicted, err := w.c.Evict(w.ctx(), c, &zkrecipes.EvictOptions{Holder: true})
		w.ok(err)
		require.True(w.t, evicted)
	}
}

// slots returns the world's semaphore of three slots in c.
func (w *world) slots(c *zkrecipes.Client) *zkrecipes.Semaphore {
	return zkrecipes.NewSemaphore(c, "/s", 3)
}

func (w *world) election(c *zkrecipes.Client) *zkrecipes.Election {
	return zkrecipes.NewElection(c, "/e")
}

// recipesBelow is the use that finds the recipes below a path.
func (w *world) recipesBelow(path string, n int) func() {
	return func() {
		found := 0
		for _, err := range w.c.Recipes(w.ctx(), path, nil) {
			w.ok(err)
			found++
		}
		require.Equal(w.t, n, found)
	}
}

var operatorRows = []row{
	{"Contenders of a lock that is held", func(w *world) func() {
		w.locks(w.other)
		return w.lists(1, w.mutex(w.c).Contenders)
	}},
	{"Contenders of a lock that is held and has two waiters", func(w *world) func() {
		w.locks(w.other)
		w.waits(w.other)
		w.waits(w.other)
		return w.lists(3, w.mutex(w.c).Contenders)
	}},
	{"Contenders of a semaphore with three slots taken and two waiters", func(w *world) func() {
		recipetest.Acquire(w.t, w.slots(w.other), 3)
		recipetest.WaitsFor(w.t, w.slots(w.other), 1)
		recipetest.WaitsFor(w.t, w.slots(w.other), 1)
		return w.lists(5, w.slots(w.c).Contenders)
	}},
	{"Contenders of an election with a leader and a candidate", func(w *world) func() {
		recipetest.Campaigns(w.t, w.election(w.other), "a")
		recipetest.CampaignLater(w.t, w.election(w.client()), "b")
		return w.lists(2, w.election(w.c).Contenders)
	}},
	{"Contenders of a barrier with one member", func(w *world) func() {
		recipetest.WaitLater(w.t, zkrecipes.NewBarrier(w.other, "/b", 2))
		return w.lists(1, zkrecipes.NewBarrier(w.c, "/b", 2).Contenders)
	}},
	{"Contenders of a double barrier with one member", func(w *world) func() {
		recipetest.Enter(w.t, recipetest.Couple(w.other))
		return w.lists(1, recipetest.Couple(w.c).Contenders)
	}},
	{"Evict of the last waiter of a line, without what the evicted call does", func(w *world) func() {
		w.locks(w.other)
		w.foreignPlace()
		return w.evicts(1, w.mutex(w.c).Contenders)
	}},
	{"Evict of the first of two waiters, with what both calls do", func(w *world) func() {
		w.locks(w.other)
		w.waits(w.client())
		w.waits(w.client())
		return w.evicts(1, w.mutex(w.c).Contenders)
	}},
	{"Evict of the holder", func(w *world) func() {
		w.locks(w.other)
		return w.evicts(0, w.mutex(w.c).Contenders)
	}},
	{"Evict of the leader", func(w *world) func() {
		recipetest.Campaigns(w.t, w.election(w.other), "a")
		return w.evicts(0, w.election(w.c).Contenders)
	}},
	{"Recipes below the path of a mutex with two waiters", func(w *world) func() {
		w.locks(w.other)
		w.waits(w.client())
		w.waits(w.client())
		return w.recipesBelow(w.Path, 1)
	}},
	{"... with twenty", func(w *world) func() {
		w.locks(w.other)
		for range 20 {
			w.waits(w.client())
		}
		return w.recipesBelow(w.Path, 1)
	}},
	{"... of an rwlock that is held", func(w *world) func() {
		recipetest.Held(w.t, zkrecipes.NewRWLock(w.other, "/rw").RLock)
		return w.recipesBelow("/rw", 1)
	}},
	{"... of a semaphore with a slot taken", func(w *world) func() {
		recipetest.Acquire(w.t, w.slots(w.other), 1)
		return w.recipesBelow("/s", 1)
	}},
	{"... of an election with a leader", func(w *world) func() {
		recipetest.Campaigns(w.t, w.election(w.other), "a")
		return w.recipesBelow("/e", 1)
	}},
	{"... of a queue with two items, one of which is taken", func(w *world) func() {
		q := w.queue(w.other)
		recipetest.PutOn(w.t, q, "a", "b")
		recipetest.TakeOn(w.t, q)
		return w.recipesBelow("/q", 1)
	}},
	{"... of a barrier with a member", func(w *world) func() {
		recipetest.WaitLater(w.t, zkrecipes.NewBarrier(w.other, "/b", 2))
		return w.recipesBelow("/b", 1)
	}},
	{"... of a double barrier with a member", func(w *world) func() {
		recipetest.Enter(w.t, recipetest.Couple(w.other))
		return w.recipesBelow("/d", 1)
	}},
	{"... of a gate that is shut", func(w *world) func() {
		w.ok(zkrecipes.NewGate(w.other, "/gate").Shut(w.ctx()))
		return w.recipesBelow("/gate", 1)
	}},
	{"... of a counter", func(w *world) func() {
		recipetest.Count(w.t, zkrecipes.NewCounter(w.other, "/c"), 1)
		time.Sleep(time.Second)
		return w.recipesBelow("/c", 1)
	}},
}

var clientRows = []row{
	{"Dial", func(w *world) func() { return func() { w.Stranger(nil) } }},
	{"Ping", func(w *world) func() { return func() { w.ok(w.c.Ping(w.ctx())) } }},
	{"Close with a lock held", func(w *world) func() {
		w.locks(w.c)
		return func() { w.ok(w.c.Close()) }
	}},
	{"Close with nothing held", func(w *world) func() { return func() { w.ok(w.c.Close()) } }},
}
