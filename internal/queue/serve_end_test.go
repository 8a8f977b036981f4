package queue_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// How Serve gives the items back that stay taken as it ends.

func hourly(workers int) *zkrecipes.QueueOptions {
	return &zkrecipes.QueueOptions{Workers: workers, Backoff: func(int) time.Duration { return time.Hour }}
}

// A take that is under way as Serve ends would claim the item that is given back, and count
// as an attempt.
func TestServeGivesBackOnceItsTakesHaveEnded(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := zkrecipes.NewQueue(w.Stranger(nil), w.Path, hourly(1))
		recipetest.PutOn(t, q, "failed")
		handled := 0
		a := recipetest.ServeLater(t, q, func(context.Context, *zkrecipes.Item) error {
			handled++
			return recipetest.ErrHandler
		})
		time.Sleep(time.Minute)
		for _, op := range claimOps {
			w.Plan.Add(zktest.Fault{Do: zktest.Delay, For: time.Second, After: true, Op: op})
		}
		recipetest.PutOn(t, q, "being taken")
		synctest.Wait()
		a.Cancel(nil)
		time.Sleep(time.Millisecond)
		require.Len(t, w.Flags(), 2)
		require.True(t, a.Waiting())
		require.NoError(t, stop(a))
		synctest.Wait()
		require.Empty(t, w.Flags())
		require.Equal(t, 1, handled)
		for range 2 {
			it := recipetest.TakeOn(t, q)
			require.Equal(t, 2, it.Attempt)
			recipetest.AckOn(t, it)
		}
	})
}

// Nobody waits for handlers that are at work.
func TestServeGivesBackWhileAHandlerIsAtWork(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := zkrecipes.NewQueue(w.Stranger(nil), w.Path, hourly(2))
		recipetest.PutOn(t, q, "failed", "long")
		a := recipetest.ServeLater(t, q, func(_ context.Context, it *zkrecipes.Item) error {
			if string(it.Data) == "long" {
				time.Sleep(90 * time.Second)
				return nil
			}
			return recipetest.ErrHandler
		})
		time.Sleep(time.Minute)
		require.Len(t, w.Flags(), 2)
		a.Cancel(nil)
		time.Sleep(time.Second)
		require.True(t, a.Waiting())
		it := recipetest.TakeOn(t, w.Queue(w.Stranger(nil)))
		require.Equal(t, "failed", string(it.Data))
		require.Equal(t, 2, it.Attempt)
		recipetest.AckOn(t, it)
		require.NoError(t, stop(a))
	})
}
