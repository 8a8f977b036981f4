package queue_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// What users of a queue rely on.

// Items begins with the oldest item, so an item that hangs comes first, with its consumer.
func TestItemsShowWhoHasAnItemAndSinceWhen(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, other := w.Queue(w.Stranger(&zkrecipes.Options{Identity: "worker-7"})), w.Queue(w.Stranger(nil))
		ids := recipetest.PutOn(t, q, "hangs", "free")
		put := time.Now()
		time.Sleep(time.Hour)
		it := recipetest.TakeOn(t, q)
		taken := time.Now()
		time.Sleep(time.Hour)
		all := entries(t, other)
		require.Len(t, all, 2)
		require.WithinDuration(t, put, all[0].Since, time.Minute)
		require.WithinDuration(t, taken, all[0].TakenSince, time.Minute)
		require.Equal(t, zkrecipes.Entry{
			ID: ids[0], Data: []byte("hangs"), Attempts: 1, Since: all[0].Since,
			Taken: true, Consumer: "worker-7", Session: recipetest.SessionID(w.ClientOf(q)), TakenSince: all[0].TakenSince,
		}, all[0])
		require.Equal(t, zkrecipes.Entry{ID: ids[1], Data: []byte("free"), Since: all[1].Since}, all[1])
		for i, id := range ids {
			found, err := other.Find(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, all[i], found)
		}
		_, err := other.Find(t.Context(), "x")
		require.ErrorIs(t, err, zkrecipes.ErrItemGone)
		require.EqualError(t, err, "zkrecipes: find an item of "+w.Path+": no such item")
		_, err = zkrecipes.NewQueue(w.ClientOf(q), "/next", nil).Find(t.Context(), ids[0])
		require.ErrorIs(t, err, zkrecipes.ErrItemGone, "no queue")

		// It is given back while it is read.
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, For: time.Second, Op: "getData", Path: w.Segment(0) + "/" + w.Flags()[0]})
		a := harness.Go(t, func(ctx context.Context) (zkrecipes.Entry, error) { return other.Find(ctx, ids[0]) })
		time.Sleep(time.Second / 2)
		recipetest.NackOn(t, it)
		e := a.Get()
		require.Len(t, w.Plan.Fired(), 1)
		require.Equal(t, zkrecipes.Entry{ID: ids[0], Data: []byte("hangs"), Attempts: 1, Since: all[0].Since}, e)
	})
}
