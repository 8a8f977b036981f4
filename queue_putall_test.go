package zkrecipes

import (
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// PutAll of more items than a segment takes.

// putAllOn puts the numbers from first on.
func putAllOn(t testing.TB, q *Queue, first, n int) []ItemID {
	t.Helper()
	var items [][]byte
	for i := range n {
		items = append(items, strconv.AppendInt(nil, int64(first+i), 10))
	}
	ids, err := q.PutAll(harness.Within(t, time.Minute), items...)
	require.NoError(t, err)
	return ids
}

// numbers returns the data of the items 0 to n-1 of putAllOn.
func numbers(n int) []string { return names(n) }

// segmentSizes returns how many items there are in each segment, in order.
func (w *world) segmentSizes() (sizes []int) {
	for _, seg := range w.srv.Children(w.path + "/s") {
		sizes = append(sizes, len(queuelog.Entries(w.srv.Children(w.path+"/s/"+seg))))
	}
	return sizes
}

func TestB82BatchFillsSegmentsInOneTransaction(t *testing.T) {
	for name, test := range map[string]struct {
		size          int64
		before, batch int
		want          []int
	}{
		"one item a segment":          {1, 0, 3, []int{1, 1, 1, 0}},
		"to the end of a segment":     {5, 2, 3, []int{5, 0}},
		"beyond the end of a segment": {5, 2, 4, []int{5, 1}},
		"to the end of the third":     {5, 2, 13, []int{5, 5, 5, 0}},
		"beyond the third":            {5, 4, 12, []int{5, 5, 5, 1}},
		"no segment":                  {5, 1, 2, []int{3}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				q := w.queue(w.stranger(nil))
				q.itemQueue.SegmentSize = test.size
				consumer := w.queue(w.stranger(nil))
				putAllOn(t, q, 0, test.before)
				before := w.srv.Counts()
				ids := putAllOn(t, q, test.before, test.batch)
				if test.before > 0 {
					require.Equal(t, 1, w.srv.Counts().Sub(before).Transactions)
				}
				require.Len(t, ids, test.batch)
				require.Equal(t, test.want, w.segmentSizes())
				putAllOn(t, q, test.before+test.batch, 7)
				require.Equal(t, numbers(test.before+test.batch+7), drain(t, consumer))
			})
		})
	}
}

// The first consumer sleeps on the open segment, which is full: it has had many claims.
// The batch wakes it, although all but one of its items go elsewhere.
func TestB82BatchWakesTheConsumerThatSleepsOnAFullSegment(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue(w.stranger(nil))
		putOn(t, q, "many claims")
		for range 20 {
			nackOn(t, takeOn(t, q))
			q.itemQueue.Opts.MaxAttempts = -1
		}
		ackOn(t, takeOn(t, q))
		taking := w.takeLater(q)
		require.True(t, taking.Waiting())
		producer := w.queue(w.stranger(nil))
		producer.itemQueue.SegmentSize = 10
		putAllOn(t, producer, 0, 15)
		synctest.Wait()
		require.False(t, taking.Waiting())
		it := taking.Get()
		require.Equal(t, "0", string(it.Data))
		require.Equal(t, []int{1, 10, 4}, w.segmentSizes())
		ackOn(t, it)
		require.Equal(t, numbers(15)[1:], drain(t, q))
	})
}

// A taken item costs as much as if all had been put alone.
func TestB82ItemsOfALargeBatchCostNoMoreThanOthers(t *testing.T) {
	const n = 3000
	perItem := func(put func(t *testing.T, q *Queue)) (bytes int) {
		inBubble(t, func(t *testing.T, w *world) {
			link := harness.NewLink(w.srv)
			put(t, w.queue(w.stranger(nil)))
			q := w.queue(w.stranger(&Options{Dialer: link.Dial}))
			ackOn(t, takeOn(t, q))
			before := link.Received()
			for range 1000 {
				ackOn(t, takeOn(t, q))
			}
			bytes = (link.Received() - before) / 1000
		})
		return bytes
	}
	alone := perItem(func(t *testing.T, q *Queue) { putOn(t, q, names(n)...) })
	batch := perItem(func(t *testing.T, q *Queue) { putAllOn(t, q, 0, n) })
	t.Logf("%d bytes received for an item that was put alone, %d for one of a batch", alone, batch)
	require.InEpsilon(t, alone, batch, 0.05)
}

func TestB82BatchWhoseReplyIsLostIsPutOnce(t *testing.T) {
	for _, do := range []zktest.Action{zktest.Drop, zktest.Expire} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, after=%v", do, after), func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					q := w.queue(w.stranger(nil))
					q.itemQueue.SegmentSize = 4
					putAllOn(t, q, 0, 2)
					w.plan.Add(zktest.Fault{Do: do, After: after, Op: "multi", Path: w.receiptsOf(clientOf(q.itemQueue.Client))})
					ids, err := q.PutAll(t.Context(), []byte("2"), []byte("3"), []byte("4"), []byte("5"), []byte("6"), []byte("7"), []byte("8"))
					require.Len(t, w.plan.Fired(), 1)
					require.Len(t, ids, 7)
					want := numbers(9)
					if do == zktest.Expire {
						require.ErrorIs(t, err, ErrUncertain)
						if !after {
							want = want[:2]
						}
					} else {
						require.NoError(t, err)
					}
					require.Equal(t, want, drain(t, w.queue(w.stranger(nil))))
				})
			})
		}
	}
}

// Somebody else fills the segment first. The batch goes on behind, and stays together.
func TestB82BatchGoesOnBehindASegmentThatOthersFilled(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q, other := w.queue(w.stranger(nil)), w.queue(w.stranger(nil))
		q.itemQueue.SegmentSize, other.itemQueue.SegmentSize = 3, 3
		putAllOn(t, q, 0, 1)
		putAllOn(t, other, 1, 9)
		putAllOn(t, q, 10, 8)
		require.Equal(t, []int{3, 3, 3, 4, 3, 2}, w.segmentSizes())
		require.Equal(t, numbers(18), drain(t, other))
	})
}

// The largest batch that is not refused fits into a request, segments included. The error
// of a larger one says what the limit is.
func TestB82LargestBatchFitsIntoARequest(t *testing.T) {
	for _, size := range []int64{1, 3, 100} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				q := w.queue(w.stranger(nil))
				q.itemQueue.SegmentSize = size
				putOn(t, q, "first use")
				s := live(t, clientOf(q.itemQueue.Client))
				fits := func(n int) error {
					items := make([]queuelog.Item, n)
					for i := range items {
						items[i].ID = queuelog.NewID()
					}
					return q.itemQueue.CheckFits(s, items)
				}
				least, most := 1, 1<<15 // fits, does not
				for most-least > 1 {
					if n := (least + most) / 2; fits(n) == nil {
						least = n
					} else {
						most = n
					}
				}
				session := sessionID(clientOf(q.itemQueue.Client))
				t.Logf("%d items without data fit", least)
				var err error
				requests := w.requests(func() { _, err = q.PutAll(t.Context(), make([][]byte, most)...) })
				require.ErrorIs(t, err, ErrTooLarge)
				require.ErrorContains(t, err, fmt.Sprintf("put into %s: %d items: ", w.path, most))
				require.ErrorContains(t, err, fmt.Sprintf("servers accept %d (jute.maxbuffer)", jute.MaxFrame))
				require.Empty(t, requests)
				_, err = q.PutAll(t.Context(), make([][]byte, least)...)
				require.NoError(t, err)
				require.Equal(t, session, sessionID(clientOf(q.itemQueue.Client)))
				require.Len(t, w.items(), least+1)
			})
		})
	}
}
