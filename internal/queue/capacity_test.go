package queue_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Puts into queues with a bound (QueueOptions.MaxLen).

func TestBoundedPutWaitsForCapacityAndHonoursItsContext(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, other := w.Bounded(3), w.Queue(w.Stranger(nil))
		recipetest.PutOn(t, q, "0", "1", "2")
		a := w.PutLater(q, "3")
		recipetest.NackOn(t, recipetest.TakeOn(t, other))
		it := recipetest.TakeOn(t, other)
		synctest.Wait()
		require.True(t, a.Waiting(), "a taken item still counts")
		recipetest.AckOn(t, it)
		require.NotEmpty(t, a.Get())
		require.Len(t, w.Items(), 3)

		_, err := q.Put(harness.Within(t, time.Second), []byte("late"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, zkrecipes.ErrUncertain)
		synctest.Wait()
		require.Empty(t, w.Srv.Children(w.Path+"/room"))
		require.Equal(t, []string{"1", "2", "3"}, recipetest.Drain(t, other))

		_, err = q.PutAll(t.Context(), make([][]byte, 4)...)
		require.EqualError(t, err, "zkrecipes: put into "+w.Path+": 4 items: QueueOptions.MaxLen is 3")
		recipetest.PutOn(t, q, "x")
		all := harness.Go(t, func(ctx context.Context) ([]zkrecipes.ItemID, error) { return q.PutAll(ctx, make([][]byte, 3)...) })
		synctest.Wait()
		require.True(t, all.Waiting(), "there must be capacity for the whole batch")
		recipetest.AckedOn(t, other)
		require.Len(t, all.Get(), 3)
	})
}

// However long producers wait, they send nothing until an item is taken or acked. An ack has only the
// first one put, in the order in which they joined the line.
func TestBoundedPutsCompleteInOrderAndOthersSendNothing(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		const n = 20
		cr := &recipetest.Crowd{W: w}
		taker := w.Queue(cr.Client())
		recipetest.PutOn(t, taker, "full")
		var puts []*harness.Call[zkrecipes.ItemID]
		for i := range n {
			q := zkrecipes.NewQueue(cr.Client(), w.Path, &zkrecipes.QueueOptions{MaxLen: 1})
			puts = append(puts, recipetest.PutLater(t, q, fmt.Sprint(i)))
			synctest.Wait()
		}
		require.Len(t, w.Srv.Children(w.Path+"/room"), n)
		time.Sleep(time.Minute)
		require.Zero(t, cr.Woken(func() { time.Sleep(time.Hour) }))
		it := recipetest.TakeOn(t, taker)
		require.Equal(t, "full", string(it.Data))
		time.Sleep(time.Minute)
		for i := range n {
			woken := cr.Woken(func() { recipetest.AckOn(t, it) })
			puts[i].Get()
			for _, a := range puts[i+1:] {
				require.True(t, a.Waiting())
			}
			// The client that acks, the producer that puts, and the two behind it, which look.
			require.LessOrEqual(t, woken, 4, "clients that were woken")
			it = recipetest.TakeOn(t, taker)
			require.Equal(t, fmt.Sprint(i), string(it.Data))
		}
		recipetest.AckOn(t, it)
		require.Empty(t, w.Items())
		require.Empty(t, w.Srv.Children(w.Path+"/room"))
	})
}

// A producer whose turn comes by a watch counts the items on a server that may not
// have the previous put yet.
func TestBoundHoldsOnAServerThatLags(t *testing.T) {
	for waits, read := range map[time.Duration]zktest.Fault{
		0:           {Do: zktest.Drop, Op: "getData", Path: "/line/s"},
		time.Second: {Do: zktest.Drop, Op: "getChildren2", Path: "/line/s/*", Skip: 1}, // it might overtake by then, and has counted
	} {
		t.Run(fmt.Sprint(waits), func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				consumer, one, two := w.Queue(w.Stranger(nil)), w.Bounded(2), w.Bounded(2)
				recipetest.PutOn(t, consumer, "0", "1")
				it := recipetest.TakeOn(t, consumer)
				first, second := w.PutLater(one, "first"), w.PutLater(two, "second")
				time.Sleep(waits)
				require.True(t, first.Waiting())
				require.True(t, second.Waiting())
				w.Plan.Add(read)
				recipetest.AckOn(t, it)
				first.Get()
				time.Sleep(time.Second)
				synctest.Wait()
				require.Equal(t, 1, w.Plan.Fired()["drop before"], "the connection was lost")
				require.Len(t, w.Items(), 2)
				require.True(t, second.Waiting())
			}, recipetest.Behind(3, 1))
		})
	}
}
