package zkrecipes

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
)

// The requests that each operation on a queue takes.

func TestPutTakesOneRequestAndTakeWithAckFive(t *testing.T) {
	r := newQueueRig(t, nil)
	r.warm()
	r.p.Reset()
	putOn(t, r.q, "0")
	require.Equal(t, map[string]int{opPut: 1}, r.p.Count(), "put")

	r.p.Reset()
	it := takeOn(t, r.q)
	require.Equal(t, map[string]int{"getChildren2": 1, opClaimAlone: 1, "getData": 2}, r.p.Count(), "take: it reads the line and the item")
	r.p.Reset()
	ackOn(t, it)
	require.Equal(t, map[string]int{opAck: 1}, r.p.Count(), "ack")

	putOn(t, r.q, "1")
	it = takeOn(t, r.q)
	r.p.Reset()
	nackOn(t, it)
	require.Equal(t, map[string]int{opNack: 1}, r.p.Count(), "nack")
	it = takeOn(t, r.q)
	r.p.Reset()
	require.NoError(t, it.Ack(r.ctx, OpCreate(r.path+"-x", nil, 0, nil)))
	require.Equal(t, map[string]int{"multi(setData,delete,delete,delete,create)": 1}, r.p.Count(), "ack with operations")

	r.p.Reset()
	_, err := r.q.PutAll(r.ctx, make([][]byte, 3)...)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"multi(setData,check,create,create,create)": 1}, r.p.Count(), "put of a batch")

	r.p.Reset()
	_, err = r.q.Len(r.ctx)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"getChildren2": 2}, r.p.Count(), "len")
	r.p.Reset()
	_, err = r.q.Peek(r.ctx)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"getChildren2": 2, "getData": 1}, r.p.Count(), "peek")
}

// The session has not used the queue before.
func TestFirstUseOfAQueueReadsItsSegmentsOnce(t *testing.T) {
	r := newQueueRig(t, nil)
	other := r.other()
	established(t, clientOf(other.itemQueue.Client))
	warm(t, other)
	putOn(t, other, "0", "1")

	r.p.Reset()
	putOn(t, r.q, "2")
	require.Equal(t, map[string]int{opReceipt: 1, opPut: 1, "getData": 2, "getChildren2": 1}, r.p.Count(), "put")
	again := NewQueue(r.c, r.path, nil) // another Queue value for the same path
	r.p.Reset()
	putOn(t, again, "3")
	require.Equal(t, map[string]int{opPut: 1}, r.p.Count())
	r.p.Reset()
	it := takeOn(t, again)
	require.Equal(t, map[string]int{"getData": 3, "getChildren2": 2, opClaimAlone: 1}, r.p.Count(), "take: it reads the line once more and lists the segments")
	ackOn(t, it)
}

// established waits until the client's session is established.
func established(t testing.TB, c *Client) {
	s, _ := c.client.Session()
	require.NoError(t, s.Sync(harness.Within(t, 10*time.Second), "/"))
}

// It runs in simulated time: if a take comes late after an ack, it sends one request more.
func TestServeTakesFourRequestsAnItem(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const n = 50
		q := w.queue(w.stranger(nil))
		q.itemQueue.SegmentSize = 10 * n
		warm(t, q)
		putOn(t, q, names(n+2)...)
		handled, goOn := make(chan struct{}), make(chan struct{})
		a := serveLater(t, q, func(context.Context, *Item) error {
			handled <- struct{}{}
			<-goOn
			return nil
		})
		<-handled
		require.Equal(t, map[string]int{opAckJoin: n, "getChildren2": n, opClaim: n, "getData": n}, w.requests(func() {
			for range n {
				goOn <- struct{}{}
				<-handled
			}
		}))
		close(goOn)
		<-handled
		require.NoError(t, stop(a))
	})
}

// Each segment costs one more commit, which deletes it, and one listing.
func TestSegmentCostsOneCommit(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const n, segment = 200, 10
		q := w.queue(w.stranger(nil))
		q.itemQueue.SegmentSize = segment
		warm(t, q)
		before := w.srv.Counts()
		putOn(t, q, names(n)...)
		put := w.srv.Counts().Sub(before)
		require.Equal(t, n, put.Transactions)
		require.InDelta(t, n/segment, put.Requests[opSealing], 1)
		before = w.srv.Counts()
		for range n {
			ackOn(t, takeOn(t, q))
		}
		drained := w.srv.Counts().Sub(before)
		require.InDelta(t, 2*n+n/segment, drained.Transactions, 1)
		require.InDelta(t, n/segment, drained.Requests["multi(delete)"], 1)
	})
}

// A put wakes the first consumer, and the first consumer's claim wakes the second,
// which is then the first. An ack or a redelivery wakes the first one at most.
func TestPutWakesTwoOf200ConsumersAndAnAckOneAtMost(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const n = 200
		producer := w.queue(w.stranger(nil))
		warm(t, producer)
		cr := &crowd{w: w}
		var takers []*harness.Call[*Item]
		for range n {
			takers = append(takers, w.takeLater(w.queue(cr.client())))
		}
		require.Len(t, w.srv.Children(w.path+"/line"), n)
		for i := range 20 {
			require.Equal(t, 2, cr.woken(func() { putOn(t, producer, fmt.Sprint(i)) }), "put %d", i)
			require.False(t, takers[i].Waiting())
			require.True(t, takers[i+1].Waiting())
		}
		for i := range 10 {
			// The client that acks, and the first consumer.
			require.LessOrEqual(t, cr.woken(func() { ackOn(t, takers[i].Get()) }), 2)
		}
		for i := range 10 {
			before := w.srv.Counts()
			woken := cr.woken(func() { nackOn(t, takers[10+i].Get()) })
			require.Equal(t, 3, woken, "the client that nacks, the first consumer, which takes the item, and its successor")
			require.False(t, takers[20+i].Waiting())
			again := takers[20+i].Get()
			require.Equal(t, 2, again.Attempt)
			require.Equal(t, fmt.Sprint(10+i), string(again.Data))
			require.LessOrEqual(t, w.srv.Counts().Sub(before).Events["NodeChildrenChanged"], 4)
			require.LessOrEqual(t, cr.woken(func() { ackOn(t, again) }), 2)
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
			q := NewQueue(dial(t, nil), path, nil)
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
			handler := func(context.Context, *Item) error {
				mu.Lock()
				defer mu.Unlock()
				if n++; n == drained {
					enough()
				}
				return nil
			}
			var wg sync.WaitGroup
			clients := make([]*Client, consumers)
			for i := range clients {
				clients[i] = dialTo(t, []string{p.Addr()}, nil)
			}
			p.Reset()
			for _, c := range clients {
				wg.Go(func() { _ = NewQueue(c, path, nil).Serve(ctx, handler) })
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

// A consumer that waits sends nothing but pings.
func TestWaitingConsumersSendNoRequests(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for range 5 {
			w.takeLater(w.queue(w.stranger(nil)))
		}
		time.Sleep(time.Second) // the second and the third watch one more place
		requests := w.requests(func() { time.Sleep(time.Hour) })
		delete(requests, "ping")
		require.Empty(t, requests)
	})
}

// A bounded put that does not wait lists only the segments that have changed.
func TestBoundedPutCountsWhatHasChanged(t *testing.T) {
	r := newQueueRig(t, &QueueOptions{MaxLen: 1000})
	r.q.itemQueue.SegmentSize = 10
	putOn(t, r.q, names(100)...)
	counted := 0
	for range 20 {
		r.p.Reset()
		putOn(t, r.q, "x")
		count := r.p.Count()
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
	r := newQueueRig(t, nil)
	r.q.itemQueue.SegmentSize = 10
	putOn(t, r.q, names(100)...)
	slow := takeOn(t, r.q)
	for range 80 {
		ackOn(t, takeOn(t, r.q))
	}
	for range 5 {
		r.p.Reset()
		it := takeOn(t, r.q)
		require.LessOrEqual(t, r.p.CountOf("getChildren2"), 2)
		ackOn(t, it)
	}
	ackOn(t, slow)
}
