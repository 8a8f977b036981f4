package zkrecipes_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// The items of each producer come out in the order in which it put them.
func TestItemsComeOutInTheOrderInWhichTheyWerePut(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		const producers, n = 4, 100
		var ids [producers][]zkrecipes.ItemID
		for p := range producers {
			q := w.Small(30, nil)
			go func() {
				for i := range n {
					ids[p] = append(ids[p], recipetest.PutOn(t, q, fmt.Sprint(p, i))...)
				}
			}()
		}
		q := w.Queue(w.Stranger(nil))
		var got [producers]int
		for range producers * n {
			it := recipetest.TakeOn(t, q)
			var p, i int
			_, err := fmt.Sscan(string(it.Data), &p, &i)
			require.NoError(t, err)
			require.Equal(t, got[p], i, "of producer %d", p)
			got[p]++
			require.Equal(t, 1, it.Attempt)
			require.NoError(t, it.Err())
			recipetest.AckOn(t, it)
			synctest.Wait()
			require.Equal(t, ids[p][i], it.ID)
		}
		require.Empty(t, w.Items())
	})
}

func TestTakeWithADeadlineReturnsTheContextsError(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(nil))
		recipetest.Warm(t, q)
		_, err := q.Take(harness.Within(t, time.Second))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.EqualError(t, err, "zkrecipes: take from "+w.Path+": context deadline exceeded")

		a, why := w.TakeLater(q), errors.New("enough")
		a.Cancel(why)
		_, err = a.Wait()
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, why)
	})
}

func TestRealItemOfADeadConsumerGoesToAnotherInItsOldPosition(t *testing.T) {
	t.Parallel()
	path, p := harness.NewPath(t), harness.NewProxy(t, harness.Server())
	q := zkrecipes.NewQueue(recipetest.DialTo(t, []string{p.Addr()}, nil), path, nil)
	other := zkrecipes.NewQueue(recipetest.Dial(t, nil), path, nil)
	ids := recipetest.PutOn(t, other, "0", "1", "2")
	dying := recipetest.TakeOn(t, q)
	require.Equal(t, ids[0], dying.ID)
	second := recipetest.TakeOn(t, other)
	require.Equal(t, ids[1], second.ID)

	p.Refuse(true)
	harness.Eventually(t, "its session has ended", func() bool {
		e, err := other.Find(t.Context(), dying.ID)
		require.NoError(t, err)
		return !e.Taken
	})
	again := recipetest.TakeOn(t, other)
	require.Equal(t, ids[0], again.ID, "before the last one")
	require.Equal(t, "0", string(again.Data))
	require.Equal(t, 2, again.Attempt)
	require.Greater(t, again.Token(), dying.Token())
	require.Greater(t, again.Token(), second.Token())
	recipetest.AckOn(t, again)
	recipetest.AckOn(t, second)
	require.Equal(t, []string{"2"}, recipetest.Drain(t, other))
	harness.Eventually(t, "lost", func() bool { return dying.Err() != nil })
	require.ErrorIs(t, dying.Ack(t.Context()), zkrecipes.ErrLost)
}

// A redelivery does not write to the item.
func TestNackedItemIsRedeliveredFirstAndItsAttemptsAreCounted(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, ctx := zkrecipes.NewQueue(w.Stranger(nil), w.Path, &zkrecipes.QueueOptions{MaxAttempts: -1}), t.Context()
		ids := recipetest.PutOn(t, q, "0", "1")
		names := w.Items()
		_, stat, err := w.Bare().Get(names[0])
		require.NoError(t, err)
		for attempt := range 50 {
			it := recipetest.TakeOn(t, q)
			require.Equal(t, ids[0], it.ID)
			require.Equal(t, attempt+1, it.Attempt)
			require.True(t, it.ValidUntil().After(time.Now()))
			work := it.Context(ctx)
			require.NoError(t, work.Err())
			require.NoError(t, it.Nack(work), "the item's own context ends with the claim")
			require.ErrorIs(t, it.Err(), zkrecipes.ErrReleased)
			require.ErrorIs(t, context.Cause(work), zkrecipes.ErrReleased)
			require.Zero(t, it.ValidUntil())
			require.NoError(t, it.Nack(ctx), "the same as the first Nack")
			require.ErrorIs(t, it.Ack(ctx), zkrecipes.ErrReleased)
		}
		require.Equal(t, names, w.Items(), "names do not grow")
		_, now, err := w.Bare().Get(names[0])
		require.NoError(t, err)
		require.Equal(t, stat.Mzxid, now.Mzxid)
		it := recipetest.TakeOn(t, q)
		require.Equal(t, 51, it.Attempt)
		require.NoError(t, it.Ack(it.Context(ctx)))
		require.ErrorIs(t, it.Ack(ctx), zkrecipes.ErrReleased)
		require.ErrorIs(t, it.Nack(ctx), zkrecipes.ErrReleased)
		require.Equal(t, []string{"1"}, recipetest.Drain(t, q))
	})
}

func TestRealBatchKeepsItsOrderAndIsAllOrNothing(t *testing.T) {
	t.Parallel()
	path, ctx := harness.NewPath(t), harness.Within(t, time.Minute)
	q, other := zkrecipes.NewQueue(recipetest.Dial(t, nil), path, nil), zkrecipes.NewQueue(recipetest.Dial(t, nil), path, nil)
	require.Len(t, recipetest.PutAllOn(t, q, 0, 3), 3)
	none := recipetest.PutAllOn(t, q, 0, 0)
	require.Empty(t, none)
	require.NotNil(t, none)

	// Concurrent batches of two do not interleave.
	var wg sync.WaitGroup
	for i := range 50 {
		for p, q := range []*zkrecipes.Queue{q, other} {
			wg.Go(func() {
				_, err := q.PutAll(ctx, fmt.Appendf(nil, "%d/%d a", p, i), fmt.Appendf(nil, "%d/%d b", p, i))
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	all := recipetest.Drain(t, other)
	require.Equal(t, recipetest.Names(3), all[:3])
	require.Len(t, all, 203)
	for i := 3; i < len(all); i += 2 {
		require.Equal(t, strings.TrimSuffix(all[i], "a")+"b", all[i+1])
	}

	// A batch that is too large as a whole is not put at all.
	half := make([]byte, 600_000)
	_, err := q.PutAll(ctx, half, half)
	require.ErrorContains(t, err, "servers accept 1048575")
	left, err := q.Len(ctx)
	require.NoError(t, err)
	require.Zero(t, left)
}

func TestPeekLenAndItemsShowWhatThereIs(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, ctx := w.Small(4, nil), t.Context()
		_, err := q.Peek(ctx)
		require.ErrorIs(t, err, zkrecipes.ErrEmpty)
		require.EqualError(t, err, "zkrecipes: peek into "+w.Path+": no item is free: nobody uses this path: zk: node does not exist")
		_, err = q.Len(ctx)
		require.ErrorIs(t, err, zkrecipes.ErrUnused)
		for _, err := range q.Items(ctx) {
			require.ErrorIs(t, err, zkrecipes.ErrUnused)
		}
		require.Equal(t, []string{"zookeeper"}, w.Srv.Children("/"), "reading creates no znodes")

		ids := recipetest.PutOn(t, q, recipetest.Names(20)...)
		put := time.Now()
		first := recipetest.TakeOn(t, q)
		recipetest.NackOn(t, recipetest.TakeOn(t, q))
		n, err := q.Len(ctx)
		require.NoError(t, err)
		require.Equal(t, 20, n)
		e, err := q.Peek(ctx)
		require.NoError(t, err)
		require.WithinDuration(t, put, e.Since, time.Minute)
		require.Equal(t, zkrecipes.Entry{ID: ids[1], Data: []byte("1"), Attempts: 1, Since: e.Since}, e)
		n = 0
		for e, err := range q.Items(ctx) {
			require.NoError(t, err)
			require.Equal(t, ids[n], e.ID)
			require.Equal(t, fmt.Sprint(n), string(e.Data))
			require.Equal(t, n == 0, e.Taken)
			require.Equal(t, map[int]int{0: 1, 1: 1}[n], e.Attempts)
			n++
		}
		require.Equal(t, 20, n)
		for e := range q.Items(ctx) { // the loop may end early
			require.Equal(t, first.ID, e.ID)
			break
		}
		recipetest.AckOn(t, first)
		require.Len(t, recipetest.Drain(t, q), 19)
		require.Len(t, w.Srv.Children(w.Path+"/s"), 2, "the open segment, and a sealed one that the next take deletes")
	})
}
