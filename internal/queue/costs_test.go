package queue_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// Each segment costs one more commit, which deletes it, and one listing.
func TestSegmentCostsOneCommit(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		const n, segment = 200, 10
		q := w.Small(segment, nil)
		recipetest.Warm(t, q)
		before := w.Srv.Counts()
		recipetest.PutOn(t, q, recipetest.Names(n)...)
		put := w.Srv.Counts().Sub(before)
		require.Equal(t, n, put.Transactions)
		require.InDelta(t, n/segment, put.Requests[recipetest.OpSealing], 1)
		before = w.Srv.Counts()
		for range n {
			recipetest.AckedOn(t, q)
		}
		drained := w.Srv.Counts().Sub(before)
		require.InDelta(t, 2*n+n/segment, drained.Transactions, 1)
		require.InDelta(t, n/segment, drained.Requests["delete"], 1)
	})
}

// A put wakes the first consumer, and the first consumer's claim wakes the second,
// which is then the first. An ack or a redelivery wakes the first one at most.
func TestPutWakesTwoOf200ConsumersAndAnAckOneAtMost(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		const n = 200
		producer := w.Queue(w.Stranger(nil))
		recipetest.Warm(t, producer)
		cr := &recipetest.Crowd{W: w}
		var takers []*harness.Call[*zkrecipes.Item]
		for range n {
			takers = append(takers, w.TakeLater(w.Queue(cr.Client())))
		}
		require.Len(t, w.Srv.Children(w.Path+"/line"), n)
		for i := range 20 {
			require.Equal(t, 2, cr.Woken(func() { recipetest.PutOn(t, producer, fmt.Sprint(i)) }), "put %d", i)
			require.False(t, takers[i].Waiting())
			require.True(t, takers[i+1].Waiting())
		}
		for i := range 10 {
			// The client that acks, and the first consumer.
			require.LessOrEqual(t, cr.Woken(func() { recipetest.AckOn(t, takers[i].Get()) }), 2)
		}
		for i := range 10 {
			before := w.Srv.Counts()
			woken := cr.Woken(func() { recipetest.NackOn(t, takers[10+i].Get()) })
			require.Equal(t, 3, woken, "the client that nacks, the first consumer, which takes the item, and its successor")
			require.False(t, takers[20+i].Waiting())
			again := takers[20+i].Get()
			require.Equal(t, 2, again.Attempt)
			require.Equal(t, fmt.Sprint(10+i), string(again.Data))
			require.LessOrEqual(t, w.Srv.Counts().Sub(before).Events["NodeChildrenChanged"], 4)
			require.LessOrEqual(t, cr.Woken(func() { recipetest.AckOn(t, again) }), 2)
		}
	})
}

// Items come slowly, and workers wait for them. The second and third in line look for each item, too, and
// a fourth begins to.
func TestItemForWhichWorkersWaitCostsNoMoreThanStated(t *testing.T) {
	eachOf(t, []int{1, 2, 20}, func(t *testing.T, w *recipetest.World, workers int) {
		producer := w.Queue(w.Stranger(nil))
		recipetest.Warm(t, producer)
		cr := &recipetest.Crowd{W: w}
		for range workers {
			recipetest.ServeLater(t, w.Queue(cr.Client()), func(context.Context, *zkrecipes.Item) error { return nil })
			time.Sleep(time.Second)
		}
		item := func() {
			recipetest.PutOn(t, producer, "x")
			time.Sleep(2 * time.Second) // those that look have looked
		}
		const items = 20
		for range workers {
			item()
		}
		woken, before := 0, w.Srv.Counts()
		for range items {
			woken += cr.Woken(item)
		}
		counts := w.Srv.Counts().Sub(before)
		requests := float64(recipetest.Sum(counts.Requests)) / items
		t.Logf("%d workers: %.2f requests an item, %d commits, %d sessions woken, for %d items", workers, requests, counts.Transactions, woken, items)
		require.LessOrEqual(t, requests, map[int]float64{1: 9, 2: 15, 20: 23}[workers])
		require.LessOrEqual(t, counts.Transactions, 4*items+2)
		require.LessOrEqual(t, woken, min(workers, 4)*items)
	})
}

// The bytes received for each item do not grow with the backlog. How often the consumers list
// depends on how their turns meet.
func TestDrainReceivesNoMoreForAnItemOfALongBacklog(t *testing.T) {
	const consumers, drained = 16, 1000
	perItem := func(backlog int) (bytes int) {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			producer := w.Queue(w.Stranger(nil))
			for first := range backlog / 100 {
				recipetest.PutAllOn(t, producer, first, 100)
			}
			var links []*harness.Link
			ctx, enough := context.WithCancel(t.Context())
			defer enough()
			var wg sync.WaitGroup
			var n atomic.Int64
			before := w.Srv.Counts()
			for range consumers {
				q, link := w.ConsumerWithLink()
				link.SetLatency(time.Millisecond)
				links = append(links, link)
				wg.Go(func() {
					_ = q.Serve(ctx, func(context.Context, *zkrecipes.Item) error {
						if n.Add(1) == drained {
							enough()
						}
						return nil
					})
				})
			}
			wg.Wait()
			requests := recipetest.Sum(w.Srv.Counts().Sub(before).Requests)
			for _, link := range links {
				bytes += link.Received()
			}
			bytes /= int(n.Load())
			t.Logf("backlog %d: %d bytes and %.2f requests an item", backlog, bytes, float64(requests)/float64(n.Load()))
			require.LessOrEqual(t, n.Load(), int64(drained+consumers))
			require.LessOrEqual(t, bytes, 5000)
			require.LessOrEqual(t, float64(requests)/float64(n.Load()), 8.5)
		})
		return bytes
	}
	short, long := perItem(drained+200), perItem(10_000)
	require.LessOrEqual(t, float64(long), 1.3*float64(short))
}

// The first count reads all segments, and the next ones what has changed.
func TestBoundedPutCostsTheSameWhateverTheBacklog(t *testing.T) {
	cost := func(backlog int) (requests map[string]int) {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			q := w.Bounded(1 << 30)
			for first := range backlog / 100 {
				recipetest.PutAllOn(t, w.Queue(w.ClientOf(q)), 100*first, 100)
			}
			recipetest.PutOn(t, q, "first count")
			requests = w.Requests(func() { recipetest.PutOn(t, q, recipetest.Names(40)...) })
		})
		return requests
	}
	require.Equal(t, cost(100), cost(3_000))
}
