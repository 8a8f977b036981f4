package queue_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/queue"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// The read ahead shows items that another consumer has claimed since, and not one that was
// given back. What a changed line costs is in internal/costs.
func TestReadAheadIsNotUsedOnceTheQueueHasChanged(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(nil))
		recipetest.PutOn(t, w.Queue(w.Stranger(nil)), recipetest.Names(10)...)
		for range 2 {
			recipetest.AckedOn(t, q)
		}
		a, b := recipetest.TakeOn(t, q), recipetest.TakeOn(t, q)
		recipetest.AckOn(t, b)
		recipetest.NackOn(t, a)
		synctest.Wait()
		again := recipetest.TakeOn(t, q)
		require.Equal(t, "2", string(again.Data), "it was given back behind the read")
		recipetest.AckOn(t, again)

		other, err := w.Queue(w.Stranger(nil)).TryTake(t.Context())
		require.NoError(t, err)
		require.Equal(t, "4", string(other.Data))
		it := recipetest.TakeOn(t, q)
		require.Contains(t, []string{"5", "6", "7", "8", "9"}, string(it.Data), "4 was the first when it was read")
	})
}

// With others in line, and few items, an ack takes the next place along: so an item takes two
// commits. In a line that is not short the place knows its predecessor, too, and does not
// list the line.
func TestAckTakesAPlaceAlongWhereOthersWait(t *testing.T) {
	const each = 50
	eachOf(t, []int{4, line.LongLine + 4}, func(t *testing.T, w *recipetest.World, consumers int) {
		producer, acked := w.Queue(w.Stranger(nil)), make(chan bool)
		recipetest.PutOn(t, producer, recipetest.Names(queue.MinSpread)...)
		for range consumers {
			q, link := w.ConsumerWithLink()
			link.SetLatency(time.Millisecond)
			go func() {
				for range each {
					it, err := q.Take(t.Context())
					if err != nil || it.Ack(t.Context()) != nil {
						t.Errorf("take or ack: %v", err)
						return
					}
					acked <- true
				}
			}()
		}
		go func() {
			for range each * consumers {
				<-acked
				if _, err := producer.Put(t.Context(), []byte("x")); err != nil {
					t.Errorf("put: %v", err)
				}
			}
		}()
		before := w.Srv.Counts()
		time.Sleep(time.Minute)
		requests := w.Srv.Counts().Sub(before).Requests
		t.Logf("%v", requests)
		require.InDelta(t, each*consumers, requests[recipetest.OpAckJoin], float64(each*consumers)/10)
		require.Less(t, requests[recipetest.OpJoin], each*consumers/10)
		if consumers > line.LongLine {
			require.Less(t, requests["getChildren2"], each*consumers*3/2)
		}
		require.Len(t, w.Items(), queue.MinSpread)
		require.Empty(t, w.Srv.Children(w.Path+"/line"), "the last places are left")
	})
}

// Others claim most of what it finds before its claim arrives.
func TestAConsumerFarAwayGetsItemsBesideOthers(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		recipetest.PutAllOn(t, w.Queue(w.Stranger(nil)), 0, 3000)
		ctx, stop := context.WithTimeout(t.Context(), 4*time.Second)
		defer stop()
		var taken [line.LongLine + 1]atomic.Int32
		var wg sync.WaitGroup
		for i := range taken {
			q, link := w.ConsumerWithLink()
			link.SetLatency(2 * time.Millisecond)
			if i == 0 {
				link.SetLatency(20 * time.Millisecond)
			}
			wg.Go(func() {
				for ctx.Err() == nil {
					if it, err := q.Take(ctx); err == nil && it.Ack(ctx) == nil {
						taken[i].Add(1)
					}
				}
			})
		}
		wg.Wait()
		far, near := taken[0].Load(), taken[1].Load()
		t.Logf("far away: %d, near: %d each", far, near)
		require.Greater(t, far, int32(6), "a tenth of what it takes alone")
	})
}

// A place that an ack took along does not hold others up: it is left if no taker comes.
func TestPlaceThatAnAckTookAlongGivesWay(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		recipetest.PutOn(t, w.Queue(w.Stranger(nil)), recipetest.Names(4)...)
		q, other := w.Queue(w.Stranger(nil)), w.Queue(w.Stranger(nil))
		recipetest.AckOn(t, recipetest.TakeOn(t, q))
		blocker := w.TakeLater(other) // so that others wait, as far as q knows
		it := recipetest.TakeOn(t, q)
		pools := queue.PoolsOf(recipetest.QueueOf(q).Client)
		pools.Mu.Lock()
		pools.All[recipetest.QueueOf(q).Path].Soon = true
		pools.Mu.Unlock()
		s, _ := recipetest.QueueOf(q).Client.Session()
		queue.QueueIn(s, recipetest.QueueOf(q).Abs()).Hints.Queued.Store(true)
		recipetest.AckOn(t, it)
		require.Len(t, w.Srv.Children(w.Path+"/line"), 1, "the ack took it along")
		recipetest.AckOn(t, blocker.Get())
		began := time.Now()
		recipetest.AckOn(t, recipetest.TakeOn(t, other))
		require.LessOrEqual(t, time.Since(began), queue.Soon)
		time.Sleep(2 * queue.Soon)
		require.Empty(t, w.Srv.Children(w.Path+"/line"))
	})
}

// A consumer that works between an ack and the next take does not hold the others up.
func TestConsumerThatPausesAfterItsAcksTakesNoPlaceAlong(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		const items = 400
		producer := w.Queue(w.Stranger(nil))
		var taken [2]atomic.Int64
		var along atomic.Int64 // places that stand while their consumer pauses
		bare := w.Bare()
		for i, pause := range []time.Duration{5 * time.Millisecond, 0} {
			q, link := w.ConsumerWithLink()
			link.SetLatency(200 * time.Microsecond)
			id := sessionOf(q)
			go func() {
				for {
					it, err := q.Take(t.Context())
					if err != nil || it.Ack(t.Context()) != nil {
						return
					}
					taken[i].Add(1)
					if pause == 0 {
						continue
					}
					time.Sleep(pause / 2)
					for _, place := range w.Srv.Children(w.Path + "/line") {
						if _, stat, err := bare.Exists(w.Path + "/line/" + place); err == nil && stat.EphemeralOwner == id {
							along.Add(1)
						}
					}
					time.Sleep(pause / 2)
				}
			}()
		}
		synctest.Wait()
		began := time.Now()
		for i := range items {
			recipetest.PutOn(t, producer, fmt.Sprint(i))
			time.Sleep(1500 * time.Microsecond)
		}
		time.Sleep(10 * time.Millisecond)
		t.Logf("taken: %d and %d in %v", taken[0].Load(), taken[1].Load(), time.Since(began))
		require.Empty(t, w.Items(), "they keep up with the producer")
		require.Zero(t, along.Load())
	})
}

// An ack that is completed after its caller has left ends the count of what is held.
func TestAckInTheBackgroundEndsTheCountOfTheItem(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, link := w.ConsumerWithLink()
		recipetest.PutOn(t, q, "0")
		it := recipetest.TakeOn(t, q)
		s, _ := recipetest.QueueOf(q).Client.Session()
		require.EqualValues(t, 1, queue.QueueIn(s, recipetest.QueueOf(q).Abs()).Held.Load())
		link.SetLatency(100 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, it.Ack(ctx), zkrecipes.ErrUncertain)
		time.Sleep(time.Second)
		require.ErrorIs(t, it.Err(), zkrecipes.ErrReleased)
		require.Zero(t, queue.QueueIn(s, recipetest.QueueOf(q).Abs()).Held.Load())
	})
}
