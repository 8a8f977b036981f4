package costs

import (
	"context"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

func (w *world) queue(c *zkrecipes.Client) *zkrecipes.Queue { return zkrecipes.NewQueue(c, "/q", nil) }

// used returns the queue in a client that has put, taken and acked.
func (w *world) used(c *zkrecipes.Client) *zkrecipes.Queue {
	q := w.queue(c)
	recipetest.Warm(w.t, q)
	return q
}

// holding returns the queue in c, with items, the first of which it has just taken.
func (w *world) holding(c *zkrecipes.Client, items ...string) (*zkrecipes.Queue, *zkrecipes.Item) {
	q := w.used(c)
	recipetest.PutOn(w.t, q, items...)
	return q, recipetest.TakeOn(w.t, q)
}

// small returns the queue in c, with n items in segments of four.
func (w *world) small(n int) (*zkrecipes.Queue, []zkrecipes.ItemID) {
	q := w.queue(w.c)
	recipetest.QueueOf(q).SegmentSize = 4
	return q, recipetest.PutOn(w.t, q, recipetest.Names(n)...)
}

// letters returns the queue in c, with two dead letters.
func (w *world) letters() *zkrecipes.Queue {
	q := zkrecipes.NewQueue(w.other, "/q", &zkrecipes.QueueOptions{MaxAttempts: 1})
	recipetest.PutOn(w.t, q, "a", "b", "c")
	for range 3 {
		it := recipetest.TakeOn(w.t, q)
		recipetest.NackOn(w.t, it)
	}
	_, err := q.TryTake(w.ctx())
	require.ErrorIs(w.t, err, zkrecipes.ErrEmpty)
	mine := w.queue(w.c)
	_, err = mine.Redrive(w.ctx(), 1) // the session's first
	w.ok(err)
	return mine
}

// serving has one worker serve a queue of n items. next has it go on to the next item.
func (w *world) serving(n int) (next func()) {
	q := w.queue(w.c)
	recipetest.QueueOf(q).SegmentSize = int64(10 * n)
	recipetest.Warm(w.t, q)
	recipetest.PutOn(w.t, q, recipetest.Names(n)...)
	handled, goOn := make(chan struct{}), make(chan struct{})
	recipetest.ServeLater(w.t, q, func(ctx context.Context, _ *zkrecipes.Item) error {
		select {
		case handled <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		select {
		case <-goOn:
		case <-ctx.Done():
		}
		return nil
	})
	<-handled
	return func() { goOn <- struct{}{}; <-handled }
}

var queueRows = []row{
	{"Put", func(w *world) func() {
		q := w.used(w.c)
		return func() { recipetest.PutOn(w.t, q, "a") }
	}},
	{"Put, the session's first", func(w *world) func() {
		recipetest.PutOn(w.t, w.used(w.other), "a", "b")
		return func() { recipetest.PutOn(w.t, w.queue(w.c), "c") }
	}},
	{"Put, the first of all", func(w *world) func() {
		return func() { recipetest.PutOn(w.t, w.queue(w.c), "a") }
	}},
	{"Put by another Queue of the same client", func(w *world) func() {
		w.used(w.c)
		return func() { recipetest.PutOn(w.t, w.queue(w.c), "a") }
	}},
	{"Put with MaxLen", func(w *world) func() {
		q := zkrecipes.NewQueue(w.c, "/q", &zkrecipes.QueueOptions{MaxLen: 1000})
		recipetest.PutOn(w.t, q, recipetest.Names(10)...)
		return func() { recipetest.PutOn(w.t, q, "a") }
	}},
	{"Put with three consumers waiting, the first of which takes", func(w *world) func() {
		q := w.used(w.c)
		a := recipetest.TakeLater(w.t, w.queue(w.client()))
		for range 2 {
			synctest.Wait()
			recipetest.TakeLater(w.t, w.queue(w.client()))
		}
		return func() { recipetest.PutOn(w.t, q, "a"); a.Get() }
	}},
	{"PutAll of three", func(w *world) func() {
		q := w.used(w.c)
		return func() { _, err := q.PutAll(w.ctx(), make([][]byte, 3)...); w.ok(err) }
	}},
	{"Take, an item is there", func(w *world) func() {
		q := w.used(w.c)
		recipetest.PutOn(w.t, w.queue(w.other), "a")
		time.Sleep(time.Second)
		return func() { recipetest.TakeOn(w.t, q) }
	}},
	{"Take, the session's first", func(w *world) func() {
		recipetest.PutOn(w.t, w.used(w.other), "a")
		return func() { recipetest.TakeOn(w.t, w.queue(w.c)) }
	}},
	{"Take right after an Ack by the only consumer, which has read ahead", func(w *world) func() {
		q := w.queue(w.c)
		recipetest.PutOn(w.t, w.queue(w.other), recipetest.Names(10)...)
		for range 3 {
			recipetest.AckedOn(w.t, q)
		}
		return func() { recipetest.TakeOn(w.t, q) }
	}},
	{"Ack by the only consumer, which reads ahead", func(w *world) func() {
		q := w.queue(w.c)
		recipetest.PutOn(w.t, w.queue(w.other), recipetest.Names(10)...)
		for range 3 {
			recipetest.AckedOn(w.t, q)
		}
		it := recipetest.TakeOn(w.t, q)
		return func() { recipetest.AckOn(w.t, it) }
	}},
	{"a minute's wait of three consumers", func(w *world) func() {
		for range 3 {
			recipetest.TakeLater(w.t, w.queue(w.client()))
		}
		time.Sleep(time.Second) // the second and the third watch one more place
		return w.idle(time.Minute)
	}},
	{"Ack", func(w *world) func() {
		_, it := w.holding(w.c, "a")
		time.Sleep(time.Second)
		return func() { recipetest.AckOn(w.t, it) }
	}},
	{"Ack with an operation", func(w *world) func() {
		_, it := w.holding(w.c, "a")
		time.Sleep(time.Second)
		return func() { w.ok(it.Ack(w.ctx(), zkrecipes.OpCreate("/x", nil, 0, nil))) }
	}},
	{"Nack", func(w *world) func() {
		_, it := w.holding(w.c, "a")
		time.Sleep(time.Second)
		return func() { recipetest.NackOn(w.t, it) }
	}},
	{"AckPut of two items to another queue", func(w *world) func() {
		_, it := w.holding(w.c, "a")
		to := zkrecipes.NewQueue(w.c, "/to", nil)
		recipetest.PutOn(w.t, to, "before")
		return func() { _, err := it.AckPut(w.ctx(), to, make([][]byte, 2)); w.ok(err) }
	}},
	{"AckPut of two items with two operations", func(w *world) func() {
		_, it := w.holding(w.c, "a")
		to := zkrecipes.NewQueue(w.c, "/to", nil)
		recipetest.PutOn(w.t, to, "before")
		return func() {
			_, err := it.AckPut(w.ctx(), to, make([][]byte, 2), zkrecipes.OpCreate("/x", nil, 0, nil), zkrecipes.OpCreate("/y", nil, 0, nil))
			w.ok(err)
		}
	}},
	{"Serve with one worker, one item of many", func(w *world) func() {
		next := w.serving(20)
		next()
		return next
	}},
	{"TryTake, an item is free", func(w *world) func() {
		q := w.used(w.c)
		_, err := q.TryTake(w.ctx())
		require.ErrorIs(w.t, err, zkrecipes.ErrEmpty)
		recipetest.PutOn(w.t, q, "a", "b")
		return func() { _, err := q.TryTake(w.ctx()); w.ok(err) }
	}},
	{"TryTake, nothing is free, the item that there was is taken", func(w *world) func() {
		q, _ := w.holding(w.c, "a")
		return w.empty(q)
	}},
	{"TryTake, nothing has changed since the last", func(w *world) func() {
		q := w.used(w.c)
		w.empty(q)()
		return w.empty(q)
	}},
	{"Len, one segment", func(w *world) func() {
		q := w.used(w.c)
		return func() { _, err := q.Len(w.ctx()); w.ok(err) }
	}},
	{"Len, 20 items in segments of four creates", func(w *world) func() {
		q, _ := w.small(20)
		return func() { _, err := q.Len(w.ctx()); w.ok(err) }
	}},
	{"Peek, one segment", func(w *world) func() {
		q := w.used(w.c)
		recipetest.PutOn(w.t, q, "a")
		return func() { _, err := q.Peek(w.ctx()); w.ok(err) }
	}},
	{"Items, two of them", func(w *world) func() {
		recipetest.PutOn(w.t, w.queue(w.c), "a", "b")
		return w.items()
	}},
	{"Items, two of them, one of which is taken", func(w *world) func() {
		w.holding(w.other, "a", "b")
		return w.items()
	}},
	{"Find, the 18th of 20 items in segments of four creates", func(w *world) func() {
		q, ids := w.small(20)
		return func() { _, err := q.Find(w.ctx(), ids[17]); w.ok(err) }
	}},
	{"Find, the first, which is taken", func(w *world) func() {
		q, it := w.holding(w.c, "a", "b")
		return func() { _, err := q.Find(w.ctx(), it.ID); w.ok(err) }
	}},
	{"Remove, the only one", func(w *world) func() {
		q := w.queue(w.c)
		w.ok(q.Remove(w.ctx(), recipetest.PutOn(w.t, q, "z")[0])) // the session's first
		id := recipetest.PutOn(w.t, q, "a")[0]
		return func() { w.ok(q.Remove(w.ctx(), id)) }
	}},
	{"Remove, the second of 20 in segments of four creates", func(w *world) func() {
		q, ids := w.small(20)
		w.ok(q.Remove(w.ctx(), ids[0])) // the session's first
		return func() { w.ok(q.Remove(w.ctx(), ids[1])) }
	}},
	{"Purge of two, one segment", func(w *world) func() {
		q := w.queue(w.c)
		recipetest.PutOn(w.t, q, "a", "b")
		w.ok(q.Remove(w.ctx(), recipetest.PutOn(w.t, q, "z")[0])) // the session's first
		return func() { _, err := q.Purge(w.ctx()); w.ok(err) }
	}},
	{"Redrive of one of two letters", func(w *world) func() {
		q := w.letters()
		return func() { w.redrives(q) }
	}},
	{"Redrive of the last letter", func(w *world) func() {
		q := w.letters()
		w.redrives(q)
		return func() { w.redrives(q) }
	}},
	{"Redrive, there are no letters any more", func(w *world) func() {
		q := w.letters()
		w.redrives(q)
		w.redrives(q)
		return func() {
			n, err := q.Redrive(w.ctx(), 1)
			w.ok(err)
			require.Zero(w.t, n)
		}
	}},
}

// empty is a TryTake that finds nothing.
func (w *world) empty(q *zkrecipes.Queue) func() {
	return func() {
		_, err := q.TryTake(w.ctx())
		require.ErrorIs(w.t, err, zkrecipes.ErrEmpty)
	}
}

// items is the use that lists two items.
func (w *world) items() func() {
	return func() {
		n := 0
		for _, err := range w.queue(w.c).Items(w.ctx()) {
			w.ok(err)
			n++
		}
		require.Equal(w.t, 2, n)
	}
}

// redrives moves one letter back.
func (w *world) redrives(q *zkrecipes.Queue) {
	n, err := q.Redrive(w.ctx(), 1)
	w.ok(err)
	require.Equal(w.t, 1, n)
}
