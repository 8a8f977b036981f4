package zkrecipes

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/queue"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The count of items that a client keeps for its puts with a bound.

// counted returns the count that the client keeps, brought up to date.
func (w *world) counted(q *Queue) int {
	w.t.Helper()
	synctest.Wait()
	for {
		n, err := queue.QueueIn(live(w.t, clientOf(q.itemQueue.Client)), q.itemQueue.Abs()).Count(w.t.Context())
		if !errors.Is(err, queuelog.ErrStale) && !errors.Is(err, queuelog.ErrUnfinished) {
			require.NoError(w.t, err)
			return n
		}
	}
}

// Items and segments come and go in any order, by the same client, by another one and by
// an operator, who also deletes the queue. One client counts now and then.
func TestA21CountIsWhatAListingShows(t *testing.T) {
	for seed := range uint64(20) {
		inBubble(t, func(t *testing.T, w *world) {
			r := rand.New(rand.NewPCG(seed, 1))
			queues := []*Queue{w.queue(w.stranger(nil)), w.queue(w.stranger(nil))}
			for _, q := range queues {
				q.itemQueue.SegmentSize = 1 + r.Int64N(5)
			}
			putOn(t, queues[0], "of the first queue")
			raw := w.bare()
			for range 400 {
				q := queues[r.IntN(2)]
				switch r.IntN(12) {
				case 0, 1, 2:
					_, err := q.PutAll(t.Context(), make([][]byte, 1+r.IntN(8))...)
					require.NoError(t, err)
				case 3, 4, 5, 6:
					if len(w.items()) > 0 {
						ackOn(t, takeOn(t, q))
					}
				case 7:
					if items := w.items(); len(items) > 0 {
						require.NoError(t, raw.Delete(items[r.IntN(len(items))], -1))
					}
				case 8:
					require.True(t, w.srv.Disconnect(sessionID(clientOf(q.itemQueue.Client))))
					time.Sleep(5 * time.Second) // it is back, and has what it has missed
				case 9:
					if r.IntN(20) == 0 {
						removeTree(t, raw, w.path)
						putOn(t, q, "of the next queue")
					}
				default:
					require.Equal(t, len(w.items()), w.counted(queues[0]), "seed %d", seed)
				}
			}
			require.Equal(t, len(w.items()), w.counted(queues[0]), "seed %d", seed)
		})
	}
}

// Two producers of one client count at the same time. An event wakes both.
func TestA21CountsOfOneClientAtTheSameTimeAgree(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue(w.stranger(nil))
		q.itemQueue.SegmentSize = 3
		putOn(t, q, names(10)...)
		log := queue.QueueIn(live(t, clientOf(q.itemQueue.Client)), q.itemQueue.Abs())
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: "getChildren2", For: time.Second})
		var counts []*harness.Call[int]
		for range 3 {
			counts = append(counts, harness.Go(t, log.Count))
			synctest.Wait()
		}
		require.True(t, counts[0].Waiting())
		counts[1].Cancel(nil)
		_, err := counts[1].Wait()
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 10, counts[0].Get())
		require.Equal(t, 10, counts[2].Get())
		one, other := log.CountChanged(), log.CountChanged()
		ackOn(t, takeOn(t, w.queue(w.stranger(nil))))
		synctest.Wait()
		<-one
		<-other
		require.Equal(t, 9, w.counted(q))
	})
}

// Somebody deletes the queue and makes it anew while a producer waits for capacity.
func TestB86BoundedPutGoesOnInTheQueueThatIsMadeAnew(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := NewQueue(w.stranger(nil), w.path, &QueueOptions{MaxLen: 2})
		q.itemQueue.SegmentSize = 1
		putOn(t, q, "0", "1")
		waiting := putLater(t, q, "2")
		synctest.Wait()
		require.True(t, waiting.Waiting())
		removeTree(t, w.bare(), w.path)
		waiting.Get()
		require.Equal(t, []string{"2"}, drain(t, w.queue(w.stranger(nil))))
	})
}
