package zkrecipes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// An operator deletes and makes a queue again, seals its segments by setting data, or
// deletes free items.

// small returns the world's queue, with segments of n creates.
func (w *world) small(n int64, opts *QueueOptions) *Queue {
	q := NewQueue(w.stranger(nil), w.path, opts)
	q.itemQueue.SegmentSize = n
	return q
}

func (w *world) segment(n int) string { return fmt.Sprintf("%s/s/%010d", w.path, n) }

// atAnyRequest runs f in a world of its own for each request that call sends: act is
// carried out before that request is. The last run carries it out once call sleeps.
func atAnyRequest(t *testing.T, f func(t *testing.T, w *world, between func(call, act func()))) {
	for step, asleep := 0, false; !asleep; step++ {
		t.Run(fmt.Sprintf("request %d", step), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				f(t, w, func(call, act func()) {
					w.plan.Add(zktest.Fault{Do: zktest.Delay, Skip: step, For: time.Second})
					call()
					time.Sleep(time.Second / 2)
					asleep = w.plan.Fired()["delay before"] == 0
					w.plan.Stop()
					act()
					synctest.Wait()
				})
			})
		})
	}
}

// acts are what an operator may do. Each of them then puts two items with q.
var acts = map[string]func(t *testing.T, w *world, conn *zk.Conn, q *Queue){
	"makes the queue again": func(t *testing.T, w *world, conn *zk.Conn, q *Queue) {
		removeTree(t, conn, w.path+"/s")
		putOn(t, q, "a", "b") // fills the first segment
	},
	"sets data on the open segment": func(t *testing.T, w *world, conn *zk.Conn, q *Queue) {
		_, err := conn.Set(w.path+"/s/"+slices.Max(w.srv.Children(w.path+"/s")), nil, -1)
		require.NoError(t, err)
		putOn(t, q, "a", "b")
	},
	"sets data on every segment, twice": func(t *testing.T, w *world, conn *zk.Conn, q *Queue) {
		for range 2 {
			for _, segment := range w.srv.Children(w.path + "/s") {
				_, _ = conn.Set(w.path+"/s/"+segment, nil, -1)
			}
		}
		putOn(t, q, "a", "b")
	},
}

// A consumer deletes a segment, goes on to the next one, which it has not seen yet, and
// sleeps there.
func TestB86OperatorActsAtAnyRequestOfAConsumer(t *testing.T) {
	for what, act := range acts {
		t.Run(what, func(t *testing.T) {
			atAnyRequest(t, func(t *testing.T, w *world, between func(call, act func())) {
				q, other, conn := w.small(2, nil), w.small(2, nil), w.insider()
				putOn(t, q, "0")
				it := takeOn(t, q)
				putOn(t, q, "1")
				require.Len(t, w.srv.Children(w.path+"/s"), 2, "the first segment is sealed, and listed before")
				ackOn(t, it)
				ackOn(t, takeOn(t, q))
				var a *harness.Call[*Item]
				between(func() { a = takeLater(t, q) }, func() { act(t, w, conn, other) })
				it = a.Get()
				require.Equal(t, "a", string(it.Data))
				ackOn(t, it)
				require.Equal(t, []string{"b"}, drain(t, q))
				w.oneSegment(q)
			})
		})
	}
}

// oneSegment requires that a Take deletes all segments but the open one.
func (w *world) oneSegment(q *Queue) {
	w.t.Helper()
	a := w.takeLater(q)
	a.Cancel(nil)
	_, err := a.Wait()
	require.ErrorIs(w.t, err, context.Canceled)
	require.Len(w.t, w.srv.Children(w.path+"/s"), 1)
}

// A bounded producer counts the items and sleeps. There is capacity in the end.
func TestB86OperatorActsAtAnyRequestOfABoundedProducer(t *testing.T) {
	acts := maps.Clone(acts)
	acts["deletes free items"] = func(t *testing.T, w *world, conn *zk.Conn, _ *Queue) {
		for _, item := range w.items()[2:] { // none of the first segment
			require.NoError(t, conn.Delete(item, -1))
		}
	}
	for what, act := range acts {
		t.Run(what, func(t *testing.T) {
			atAnyRequest(t, func(t *testing.T, w *world, between func(call, act func())) {
				q, other, conn := w.small(2, &QueueOptions{MaxLen: 4}), w.small(2, nil), w.insider()
				putOn(t, other, "0", "1", "2", "3")
				var a *harness.Call[ItemID]
				between(func() { a = putLater(t, q, "last") }, func() { act(t, w, conn, other) })
				for a.Waiting() && len(w.items()) >= 4 {
					ackOn(t, takeOn(t, other))
					synctest.Wait()
				}
				a.Get()
				require.Contains(t, drain(t, other), "last")
				w.oneSegment(q)
			})
		})
	}
}

// An operator sets data on a sealed segment. It is deleted once it is empty, and no
// request fails for ever.
func TestB86SealedSegmentWhoseDataWereSetIsDeleted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q, conn := w.small(2, nil), w.insider()
		putOn(t, q, "0", "1", "2")
		_, err := conn.Set(w.segment(0), []byte("note"), -1)
		require.NoError(t, err)
		require.Equal(t, []string{"0", "1", "2"}, drain(t, q))
		w.oneSegment(q)
	})
}

// A consumer lists the segments to make a missing one. The last one is open then. Before
// the consumer reads it, others fill it and the next one, and empty and delete that one,
// which is not made again: what follows it would never be delivered.
func TestB86SegmentThatWasFilledAndEmptiedMeanwhileIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	r := newQueueRig(t, nil)
	other := r.other()
	other.itemQueue.SegmentSize = 1
	putOn(t, other, "kept") // fills the first segment
	kept := takeOn(t, r.q)
	a := takeLater(t, r.q)
	lineUp(t, r.raw, r.path+"/line", 1, r.c)

	// An operator deletes the open segment, and the consumer is about to make it again.
	sync := r.p.On("sync", 1, harness.Hold)
	require.NoError(t, r.raw.Delete(r.path+"/s/0000000001", -1))
	r.p.Await(sync)
	other.itemQueue.SegmentSize = 100
	putOn(t, other, "0") // in the segment, which other has made
	held := takeOn(t, other)
	read := r.p.On("getData", 2, harness.Hold) // the first one is of the segments' parent
	sync.Release()
	r.p.Await(read)
	other.itemQueue.SegmentSize = 1
	putOn(t, other, "1", "2")
	ackOn(t, takeOn(t, other))
	ackOn(t, takeOn(t, other))
	b := takeLater(t, other) // deletes the second segment
	harness.Eventually(t, "the second segment is deleted", func() bool {
		return !slices.Contains(harness.Children(t, r.raw, r.path+"/s"), "0000000002")
	})
	b.Cancel(nil)
	b.Wait()
	read.Release()
	putOn(t, other, "3")
	require.Equal(t, "3", string(a.Get().Data))
	require.NotContains(t, harness.Children(t, r.raw, r.path+"/s"), "0000000002")
	ackOn(t, held)
	ackOn(t, kept)
}
