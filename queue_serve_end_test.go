package zkrecipes

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// How Serve gives the items back that stay taken as it ends.

func hourly(workers int) *QueueOptions {
	return &QueueOptions{Workers: workers, Backoff: func(int) time.Duration { return time.Hour }}
}

// A take that is under way as Serve ends would claim the item that is given back, and count
// as an attempt.
func TestServeGivesBackOnceItsTakesHaveEnded(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := NewQueue(w.stranger(nil), w.path, hourly(1))
		putOn(t, q, "failed")
		handled := 0
		a := serveLater(t, q, func(context.Context, *Item) error {
			handled++
			return errHandler
		})
		time.Sleep(time.Minute)
		for _, op := range claimOps {
			w.plan.Add(zktest.Fault{Do: zktest.Delay, For: time.Second, After: true, Op: op})
		}
		putOn(t, q, "being taken")
		synctest.Wait()
		a.Cancel(nil)
		time.Sleep(time.Millisecond)
		require.Len(t, w.flags(), 2)
		require.True(t, a.Waiting())
		require.NoError(t, stop(a))
		synctest.Wait()
		require.Empty(t, w.flags())
		require.Equal(t, 1, handled)
		for range 2 {
			it := takeOn(t, q)
			require.Equal(t, 2, it.Attempt)
			ackOn(t, it)
		}
	})
}

// Nobody waits for handlers that are at work.
func TestServeGivesBackWhileAHandlerIsAtWork(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := NewQueue(w.stranger(nil), w.path, hourly(2))
		putOn(t, q, "failed", "long")
		a := serveLater(t, q, func(_ context.Context, it *Item) error {
			if string(it.Data) == "long" {
				time.Sleep(90 * time.Second)
				return nil
			}
			return errHandler
		})
		time.Sleep(time.Minute)
		require.Len(t, w.flags(), 2)
		a.Cancel(nil)
		time.Sleep(time.Second)
		require.True(t, a.Waiting())
		it := takeOn(t, w.queue(w.stranger(nil)))
		require.Equal(t, "failed", string(it.Data))
		require.Equal(t, 2, it.Attempt)
		ackOn(t, it)
		require.NoError(t, stop(a))
	})
}
