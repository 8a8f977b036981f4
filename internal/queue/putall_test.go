package queue_test

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/queue"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// PutAll of more items than a segment takes.

func TestBatchFillsSegmentsInOneTransaction(t *testing.T) {
	type batch struct {
		size          int64
		before, batch int
		want          []int
	}
	recipetest.EachInBubble(t, map[string]batch{
		"one item a segment":          {1, 0, 3, []int{1, 1, 1, 0}},
		"to the end of a segment":     {5, 2, 3, []int{5, 0}},
		"beyond the end of a segment": {5, 2, 4, []int{5, 1}},
		"to the end of the third":     {5, 2, 13, []int{5, 5, 5, 0}},
		"beyond the third":            {5, 4, 12, []int{5, 5, 5, 1}},
		"no segment":                  {5, 1, 2, []int{3}},
	}, func(t *testing.T, w *recipetest.World, test batch) {
		q := w.Small(test.size, nil)
		consumer := w.Queue(w.Stranger(nil))
		recipetest.PutAllOn(t, q, 0, test.before)
		before := w.Srv.Counts()
		ids := recipetest.PutAllOn(t, q, test.before, test.batch)
		if test.before > 0 {
			require.Equal(t, 1, w.Srv.Counts().Sub(before).Transactions)
		}
		require.Len(t, ids, test.batch)
		require.Equal(t, test.want, w.SegmentSizes())
		recipetest.PutAllOn(t, q, test.before+test.batch, 7)
		require.Equal(t, recipetest.Names(test.before+test.batch+7), recipetest.Drain(t, consumer))
	})
}

// The first consumer sleeps on the open segment, which is full: it has had many claims.
// The batch wakes it, although all but one of its items go elsewhere.
func TestBatchWakesTheConsumerThatSleepsOnAFullSegment(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := strict(w, -1)
		recipetest.PutOn(t, q, "many claims")
		for range 20 {
			recipetest.NackOn(t, recipetest.TakeOn(t, q))
		}
		recipetest.AckOn(t, recipetest.TakeOn(t, q))
		taking := w.TakeLater(q)
		require.True(t, taking.Waiting())
		recipetest.PutAllOn(t, w.Small(10, nil), 0, 15)
		synctest.Wait()
		require.False(t, taking.Waiting())
		it := taking.Get()
		require.Equal(t, "0", string(it.Data))
		require.Equal(t, []int{1, 10, 4}, w.SegmentSizes())
		recipetest.AckOn(t, it)
		require.Equal(t, recipetest.Names(15)[1:], recipetest.Drain(t, q))
	})
}

// Somebody else fills and seals the segment that a producer knows, and more. A put goes on behind, and
// a batch stays together.
func TestPutGoesOnBehindASegmentThatOthersSealed(t *testing.T) {
	recipetest.EachInBubble(t, map[string]int{"one item": 1, "a batch": 8}, func(t *testing.T, w *recipetest.World, n int) {
		q, other := w.Small(10, nil), w.Small(3, nil)
		recipetest.PutOn(t, q, "0")
		recipetest.PutAllOn(t, other, 1, 9)
		require.Equal(t, []int{3, 3, 3, 1}, w.SegmentSizes())
		recipetest.PutAllOn(t, q, 10, n)
		require.Equal(t, []int{3, 3, 3, 1 + n}, w.SegmentSizes())
		require.Equal(t, recipetest.Names(10+n), recipetest.Drain(t, other))
	})
}

// The largest batch that is not refused fits into a request, segments included. The error
// of a larger one says what the limit is.
func TestLargestBatchFitsIntoARequest(t *testing.T) {
	eachOf(t, []int64{1, 3, 100}, func(t *testing.T, w *recipetest.World, size int64) {
		q := w.Small(size, nil)
		recipetest.PutOn(t, q, "first use")
		core := w.NewCore()
		like := engine(core, w.Path, queue.Options{})
		like.SegmentSize = size
		tooMany := sort.Search(1<<15, func(n int) bool {
			items := make([]queuelog.Item, n)
			for i := range items {
				items[i].ID = queuelog.NewID()
			}
			return like.CheckFits(core.S, items) != nil
		})
		session := recipetest.SessionID(w.ClientOf(q))
		requests := w.Requests(func() {
			_, err := q.PutAll(t.Context(), make([][]byte, tooMany)...)
			require.ErrorIs(t, err, zkrecipes.ErrTooLarge)
			require.ErrorContains(t, err, fmt.Sprintf("put into %s: %d items: ", w.Path, tooMany))
			require.ErrorContains(t, err, fmt.Sprintf("servers accept %d (jute.maxbuffer)", jute.MaxFrame))
		})
		require.Empty(t, requests)
		_, err := q.PutAll(t.Context(), make([][]byte, tooMany-1)...)
		require.NoError(t, err)
		require.Equal(t, session, recipetest.SessionID(w.ClientOf(q)))
		require.Len(t, w.Items(), tooMany)
	})
}

// The counter counts items and claims, so a segment whose items were claimed often enough
// comes to its end, too. The items of one transaction keep their order over it. Each
// producer fills that segment with its second put, or its first if it did not know it.
func TestItemsAreDeliveredBeyondTheEndOfASegmentsCounter(t *testing.T) {
	for ahead := range int32(4) {
		recipetest.EachInBubble(t, map[string]bool{"known": true, "unknown": false}, func(t *testing.T, w *recipetest.World, known bool) {
			q, consumer := w.Queue(w.Stranger(nil)), w.Queue(w.Stranger(nil))
			recipetest.Warm(t, consumer)
			if known {
				recipetest.Warm(t, q)
			}
			require.NoError(t, w.Srv.SetCounter(w.Segment(0), math.MaxInt32-ahead))
			recipetest.PutAllOn(t, q, 0, 5)
			recipetest.PutAllOn(t, q, 5, 5)
			require.Len(t, w.Items(), 10)
			require.Less(t, 1, len(w.SegmentSizes()), "the segment is sealed")
			all := recipetest.Drain(t, consumer)
			require.ElementsMatch(t, recipetest.Names(10), all)
			require.Equal(t, recipetest.Names(5), those(all, recipetest.Names(5)...))
			require.Equal(t, recipetest.Names(10)[5:], those(all, recipetest.Names(10)[5:]...))
			recipetest.PutAllOn(t, q, 0, 150)
			require.Equal(t, recipetest.Names(150), recipetest.Drain(t, consumer))
		})
	}
}

// those returns those of all that are wanted, in their order.
func those(all []string, wanted ...string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return !slices.Contains(wanted, s) })
}
