package costs

import (
	"context"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// items are what steps of queues use and leave.
type items struct {
	queue *zkrecipes.Queue
	ids   []zkrecipes.ItemID // that were put last
	item  *zkrecipes.Item    // that was taken last
	to    *zkrecipes.Queue   // another one
	taker *harness.Call[*zkrecipes.Item]
	next  func() // has a worker go on to its next item
}

func myQueue(w *world)    { w.queue = zkrecipes.NewQueue(w.c, "/q", nil) }
func theirQueue(w *world) { w.queue = zkrecipes.NewQueue(w.other, "/q", nil) }

func myBoundedQueue(w *world) {
	w.queue = zkrecipes.NewQueue(w.c, "/q", &zkrecipes.QueueOptions{MaxLen: 1000})
}

// warm has put, taken and acked.
func warm(w *world) { recipetest.Warm(w.t, w.queue) }

var (
	myWarmQueue    = all(myQueue, warm)
	theirWarmQueue = all(theirQueue, warm)
)

func put(items ...string) step {
	return func(w *world) { w.ids = recipetest.PutOn(w.t, w.queue, items...) }
}

func take(w *world) { w.item = recipetest.TakeOn(w.t, w.queue) }
func ack(w *world)  { recipetest.AckOn(w.t, w.item) }
func nack(w *world) { recipetest.NackOn(w.t, w.item) }

// holding has me hold an item for a while.
var holding = all(myWarmQueue, put("a"), take, pass(time.Second))

// tenItems are there, of which I have acked three.
var tenItems = all(theirQueue, put(recipetest.Names(10)...), myQueue, times(3, func(w *world) { recipetest.AckedOn(w.t, w.queue) }))

// batch takes ten items and acks each.
func batch(w *world) {
	items, err := w.queue.TakeN(w.ctx(), 10)
	w.ok(err)
	require.Len(w.t, items, 10)
	for _, w.item = range items {
		ack(w)
	}
}

// another is a queue with an item.
func another(w *world) {
	w.to = zkrecipes.NewQueue(w.c, "/to", nil)
	recipetest.PutOn(w.t, w.to, "before")
}

func ackPut(ops ...zkrecipes.Op) step {
	return func(w *world) { _, err := w.item.AckPut(w.ctx(), w.to, make([][]byte, 2), ops...); w.ok(err) }
}

// consumerWaits is a client that takes.
func consumerWaits(w *world) {
	synctest.Wait()
	a := recipetest.TakeLater(w.t, zkrecipes.NewQueue(w.client(), "/q", nil))
	if w.taker == nil {
		w.taker = a
	}
}

func tryTake(w *world) { _, err := w.queue.TryTake(w.ctx()); w.ok(err) }

func nothingToTake(w *world) {
	_, err := w.queue.TryTake(w.ctx())
	require.ErrorIs(w.t, err, zkrecipes.ErrEmpty)
}

// sealing makes me a client whose queues have segments of n creates.
func sealing(n int64) step {
	return func(w *world) {
		w.become(w.Sealing(n, &zkrecipes.Options{SessionTimeout: recipetest.LongSession}))
		myQueue(w)
	}
}

// small is a queue with 20 items in segments of four.
var small = all(sealing(4), put(recipetest.Names(20)...))

func removeID(i int) step { return func(w *world) { w.ok(w.queue.Remove(w.ctx(), w.ids[i])) } }
func find(i int) step {
	return func(w *world) { _, err := w.queue.Find(w.ctx(), w.ids[i]); w.ok(err) }
}

func buryID(i int) step { return func(w *world) { w.ok(w.queue.Bury(w.ctx(), w.ids[i])) } }

// hasBuried is a session that has buried an item before.
var hasBuried = all(put("z"), buryID(0))

// hasRemoved is a session that has removed an item before.
var hasRemoved = all(put("z"), removeID(0))

func length(w *world) { _, err := w.queue.Len(w.ctx()); w.ok(err) }
func peek(w *world)   { _, err := w.queue.Peek(w.ctx()); w.ok(err) }
func purge(w *world)  { _, err := w.queue.Purge(w.ctx()); w.ok(err) }

// iListItems lists two items.
func iListItems(w *world) {
	n := 0
	for _, err := range zkrecipes.NewQueue(w.c, "/q", nil).Items(w.ctx()) {
		w.ok(err)
		n++
	}
	require.Equal(w.t, 2, n)
}

// letters are two, in a session that has redriven one before.
func letters(w *world) {
	w.queue = zkrecipes.NewQueue(w.other, "/q", &zkrecipes.QueueOptions{MaxAttempts: 1})
	all(put("a", "b", "c"), times(3, take, nack), nothingToTake, myQueue, redrive(1))(w)
}

// redrive moves one letter back, or none.
func redrive(want int) step {
	return func(w *world) {
		n, err := w.queue.Redrive(w.ctx(), 1)
		w.ok(err)
		require.Equal(w.t, want, n)
	}
}

// serving has one worker serve a queue of n items.
func serving(n int) step {
	return func(w *world) {
		all(sealing(int64(10*n)), warm, put(recipetest.Names(n)...))(w)
		handled, goOn := make(chan struct{}), make(chan struct{})
		recipetest.ServeLater(w.t, w.queue, func(ctx context.Context, _ *zkrecipes.Item) error {
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
		w.next = func() { goOn <- struct{}{}; <-handled }
	}
}

func nextItem(w *world) { w.next() }

var queueRows = []row{
	{"Put", steps{myWarmQueue, put("a")}},
	{"Put, the session's first", steps{theirWarmQueue, put("a", "b"), myQueue, put("c")}},
	{"Put, the first of all", steps{myQueue, put("a")}},
	{"Put by another Queue of the same client", steps{myWarmQueue, myQueue, put("a")}},
	{"Put with MaxLen", steps{myBoundedQueue, put(recipetest.Names(10)...), put("a")}},
	{"Put with three consumers waiting, the first of which takes", steps{myWarmQueue, times(3, consumerWaits), all(put("a"), func(w *world) { w.taker.Get() })}},
	{"PutAll of three", steps{myWarmQueue, func(w *world) { _, err := w.queue.PutAll(w.ctx(), make([][]byte, 3)...); w.ok(err) }}},
	{"Take, an item is there", steps{myWarmQueue, theirQueue, put("a"), myQueue, pass(time.Second), take}},
	{"Take, the session's first", steps{theirWarmQueue, put("a"), myQueue, take}},
	{"Take right after an Ack by the only consumer", steps{tenItems, take}},
	{"eight times TakeN of ten and an Ack of each", steps{theirQueue, put(recipetest.Names(100)...), myQueue, batch, times(8, batch)}},
	{"a minute's wait of three consumers", steps{times(3, consumerWaits), pass(time.Second), settle, pass(time.Minute)}}, // the second and the third watch one more place
	{"Ack", steps{holding, ack}},
	{"Ack with an operation", steps{holding, func(w *world) { w.ok(w.item.Ack(w.ctx(), zkrecipes.OpCreate("/x", nil, 0, nil))) }}},
	{"Nack", steps{holding, nack}},
	{"AckPut of two items to another queue", steps{myWarmQueue, put("a"), take, another, ackPut()}},
	{"AckPut of two items with two operations", steps{myWarmQueue, put("a"), take, another, ackPut(zkrecipes.OpCreate("/x", nil, 0, nil), zkrecipes.OpCreate("/y", nil, 0, nil))}},
	{"Serve with one worker, one item of many", steps{serving(20), nextItem, nextItem}},
	{"TryTake, an item is free", steps{myWarmQueue, nothingToTake, put("a", "b"), tryTake}},
	{"TryTake, nothing is free, the item that there was is taken", steps{myWarmQueue, put("a"), take, nothingToTake}},
	{"TryTake, nothing has changed since the last", steps{myWarmQueue, nothingToTake, nothingToTake}},
	{"Len, one segment", steps{myWarmQueue, length}},
	{"Len, 20 items in segments of four creates", steps{small, length}},
	{"Peek, one segment", steps{myWarmQueue, put("a"), peek}},
	{"Items, two of them", steps{myQueue, put("a", "b"), iListItems}},
	{"Items, two of them, one of which is taken", steps{theirWarmQueue, put("a", "b"), take, iListItems}},
	{"Find, the 18th of 20 items in segments of four creates", steps{small, find(17)}},
	{"Find, the first, which is taken", steps{myWarmQueue, put("a", "b"), take, find(0)}},
	{"Remove, the only one", steps{myQueue, hasRemoved, put("a"), removeID(0)}},
	{"Remove, the second of 20 in segments of four creates", steps{small, removeID(0), removeID(1)}},
	{"Bury, a free item", steps{myQueue, hasBuried, put("a"), buryID(0)}},
	{"Bury, an item that another client has", steps{theirWarmQueue, put("a"), take, myQueue, func(w *world) { ids := w.ids; hasBuried(w); w.ids = ids }, buryID(0)}},
	{"Bury, the first of all", steps{myQueue, put("a"), buryID(0)}},
	{"Purge of two, one segment", steps{myQueue, put("a", "b"), hasRemoved, purge}},
	{"Redrive of one of two letters", steps{letters, redrive(1)}},
	{"Redrive of the last letter", steps{letters, redrive(1), redrive(1)}},
	{"Redrive, there are no letters any more", steps{letters, redrive(1), redrive(1), redrive(0)}},
}
