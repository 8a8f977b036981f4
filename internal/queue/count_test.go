package queue_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/queue"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The count of items that a client keeps for its puts with a bound.

// Items and segments come and go in any order, by the same client, by another one and by
// an operator, who also deletes the queue. One client counts now and then.
func TestA21CountIsWhatAListingShows(t *testing.T) {
	for seed := range uint64(20) {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			r := rand.New(rand.NewPCG(seed, 1))
			queues := []*zkrecipes.Queue{w.Queue(w.Stranger(nil)), w.Queue(w.Stranger(nil))}
			for _, q := range queues {
				recipetest.QueueOf(q).SegmentSize = 1 + r.Int64N(5)
			}
			recipetest.PutOn(t, queues[0], "of the first queue")
			raw := w.Bare()
			for range 400 {
				q := queues[r.IntN(2)]
				switch r.IntN(12) {
				case 0, 1, 2:
					_, err := q.PutAll(t.Context(), make([][]byte, 1+r.IntN(8))...)
					require.NoError(t, err)
				case 3, 4, 5, 6:
					if len(w.Items()) > 0 {
						recipetest.AckOn(t, recipetest.TakeOn(t, q))
					}
				case 7:
					if items := w.Items(); len(items) > 0 {
						require.NoError(t, raw.Delete(items[r.IntN(len(items))], -1))
					}
				case 8:
					require.True(t, w.Srv.Disconnect(sessionOf(q)))
					time.Sleep(5 * time.Second) // it is back, and has what it has missed
				case 9:
					if r.IntN(20) == 0 {
						recipetest.RemoveTree(t, raw, w.Path)
						recipetest.PutOn(t, q, "of the next queue")
					}
				default:
					require.Equal(t, len(w.Items()), w.Counted(queues[0]), "seed %d", seed)
				}
			}
			require.Equal(t, len(w.Items()), w.Counted(queues[0]), "seed %d", seed)
		})
	}
}

// Two producers of one client count at the same time. An event wakes both.
func TestA21CountsOfOneClientAtTheSameTimeAgree(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(nil))
		recipetest.QueueOf(q).SegmentSize = 3
		recipetest.PutOn(t, q, recipetest.Names(10)...)
		log := queue.QueueIn(recipetest.Live(t, clientOf(q)), recipetest.QueueOf(q).Abs())
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "getChildren2", For: time.Second})
		var counts []*harness.Call[int]
		for range 3 {
			counts = append(counts, harness.Go(t, log.Count))
			synctest.Wait()
		}
		require.True(t, counts[0].Waiting())
		canceled(t, counts[1])
		require.Equal(t, 10, counts[0].Get())
		require.Equal(t, 10, counts[2].Get())
		one, other := log.CountChanged(), log.CountChanged()
		recipetest.AckOn(t, recipetest.TakeOn(t, w.Queue(w.Stranger(nil))))
		synctest.Wait()
		<-one
		<-other
		require.Equal(t, 9, w.Counted(q))
	})
}
