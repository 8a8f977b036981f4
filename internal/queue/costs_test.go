package queue_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// Each segment costs one more commit, which deletes it, and one listing.
func TestSegmentCostsOneCommit(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		const n, segment = 200, 10
		q := w.Queue(w.Stranger(nil))
		recipetest.QueueOf(q).SegmentSize = segment
		recipetest.Warm(t, q)
		before := w.Srv.Counts()
		recipetest.PutOn(t, q, recipetest.Names(n)...)
		put := w.Srv.Counts().Sub(before)
		require.Equal(t, n, put.Transactions)
		require.InDelta(t, n/segment, put.Requests[recipetest.OpSealing], 1)
		before = w.Srv.Counts()
		for range n {
			recipetest.AckOn(t, recipetest.TakeOn(t, q))
		}
		drained := w.Srv.Counts().Sub(before)
		require.InDelta(t, 2*n+n/segment, drained.Transactions, 1)
		require.InDelta(t, n/segment, drained.Requests["multi(delete)"], 1)
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

// The bytes received for each item do not grow with the backlog. How often the consumers list
// depends on how their turns meet.
func TestDrainReceivesNoMoreForAnItemOfALongBacklog(t *testing.T) {
	const consumers, drained = 16, 2000
	perItem := map[int]int{}
	for _, backlog := range []int{drained + 200, 20_000} {
		t.Run(fmt.Sprint(backlog), func(t *testing.T) {
			p := harness.NewProxy(t, harness.Server())
			path := "/queues/" + queuelog.NewID()[:8] // short, because many replies contain paths
			ctx := harness.Within(t, 5*time.Minute)
			q := zkrecipes.NewQueue(recipetest.Dial(t, nil), path, nil)
			batch := make([][]byte, 10)
			for i := range batch {
				batch[i] = []byte(strings.Repeat("x", 100))
			}
			for range backlog / len(batch) {
				_, err := q.PutAll(ctx, batch...)
				require.NoError(t, err)
			}
			var mu sync.Mutex
			n := 0
			ctx, enough := context.WithCancel(ctx)
			handler := func(context.Context, *zkrecipes.Item) error {
				mu.Lock()
				defer mu.Unlock()
				if n++; n == drained {
					enough()
				}
				return nil
			}
			var wg sync.WaitGroup
			clients := make([]*zkrecipes.Client, consumers)
			for i := range clients {
				clients[i] = recipetest.DialTo(t, []string{p.Addr()}, nil)
			}
			p.Reset()
			for _, c := range clients {
				wg.Go(func() { _ = zkrecipes.NewQueue(c, path, nil).Serve(ctx, handler) })
			}
			wg.Wait()
			bytes := p.Received()
			mu.Lock()
			defer mu.Unlock()
			require.GreaterOrEqual(t, n, drained)
			require.LessOrEqual(t, n, drained+consumers)
			perItem[backlog] = bytes / n
			requests := 0
			for _, k := range p.Count() {
				requests += k
			}
			t.Logf("backlog %d: %d bytes and %.2f requests an item", backlog, bytes/n, float64(requests)/float64(n))
			require.LessOrEqual(t, bytes/n, 5000)
			require.LessOrEqual(t, float64(requests)/float64(n), 8.5)
		})
	}
	require.LessOrEqual(t, float64(perItem[20_000]), 1.3*float64(perItem[drained+200]))
}

// A bounded put that does not wait lists only the segments that have changed.
func TestBoundedPutCountsWhatHasChanged(t *testing.T) {
	r := recipetest.NewQueueRig(t, &zkrecipes.QueueOptions{MaxLen: 1000})
	recipetest.QueueOf(r.Q).SegmentSize = 10
	recipetest.PutOn(t, r.Q, recipetest.Names(100)...)
	counted := 0
	for range 20 {
		r.P.Reset()
		recipetest.PutOn(t, r.Q, "x")
		count := r.P.Count()
		require.LessOrEqual(t, count["getChildren2"], 2, "the open segment, and a new one")
		counted += count["getChildren2"]
		delete(count, "getChildren2")
		total := 0
		for op := range maps.Keys(count) {
			require.True(t, strings.HasPrefix(op, "multi("), op)
			total += count[op]
		}
		require.Equal(t, 2, total, "a join, and the put")
	}
	require.LessOrEqual(t, counted, 25)
}

// While an item in an old segment stays claimed, each take lists that segment once
// more, but not all segments.
func TestSlowItemInAnOldSegmentCostsAListing(t *testing.T) {
	r := recipetest.NewQueueRig(t, nil)
	recipetest.QueueOf(r.Q).SegmentSize = 10
	recipetest.PutOn(t, r.Q, recipetest.Names(100)...)
	slow := recipetest.TakeOn(t, r.Q)
	for range 80 {
		recipetest.AckOn(t, recipetest.TakeOn(t, r.Q))
	}
	for range 5 {
		r.P.Reset()
		it := recipetest.TakeOn(t, r.Q)
		require.LessOrEqual(t, r.P.CountOf("getChildren2"), 2)
		recipetest.AckOn(t, it)
	}
	recipetest.AckOn(t, slow)
}
