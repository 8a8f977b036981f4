package zkrecipes

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/queue"
)

// aloneAndSoon makes a consumer that is alone and takes right after its acks, and puts n
// items, of which it has taken and acked two.
func (w *world) aloneAndSoon(n int) *Queue {
	q := w.queue(w.stranger(nil))
	putOn(w.t, w.queue(w.stranger(nil)), names(n)...)
	for range 2 {
		ackOn(w.t, takeOn(w.t, q))
	}
	return q
}

func TestAckReadsAheadForAConsumerThatTakesAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.aloneAndSoon(10)
		for i := 2; i < 8; i++ {
			var it *Item
			took := w.requests(func() { it = takeOn(t, q) })
			require.Equal(t, fmt.Sprint(i), string(it.Data))
			require.Equal(t, map[string]int{opClaimAlone: 1, "getData": 1}, took, "the take reads the item only")
			require.Equal(t, map[string]int{opAck: 1, "getData": 1, "getChildren2": 1}, w.requests(func() { ackOn(t, it) }))
		}
	})
}

// The read ahead shows items that another consumer has claimed since, and not one that was
// given back.
func TestReadAheadIsNotUsedOnceTheQueueHasChanged(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.aloneAndSoon(10)
		a, b := takeOn(t, q), takeOn(t, q)
		ackOn(t, b)
		nackOn(t, a)
		synctest.Wait()
		again := takeOn(t, q)
		require.Equal(t, "2", string(again.Data), "it was given back behind the read")
		ackOn(t, again)

		other, err := w.queue(w.stranger(nil)).TryTake(t.Context())
		require.NoError(t, err)
		require.Equal(t, "4", string(other.Data))
		it := takeOn(t, q)
		require.Contains(t, []string{"5", "6", "7", "8", "9"}, string(it.Data), "4 was the first when it was read")
	})
}

// Somebody has stood in line and left since the line was read ahead.
func TestReadAheadOfTheLineIsReadAgainIfSomebodyHasJoined(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.aloneAndSoon(10)
		it := takeOn(t, q)
		ackOn(t, it)
		line := w.path + "/line"
		data, _, err := w.bare().Get(line)
		require.NoError(t, err)
		_, err = w.insider().Set(line, data, -1) // as a join does
		require.NoError(t, err)
		took := w.requests(func() { it = takeOn(t, q) })
		require.Equal(t, "3", string(it.Data))
		require.Equal(t, 2, took[opClaimAlone], "the first fails because somebody has joined")
		require.Zero(t, took[opJoin])
	})
}

// With others in line, and few items, an ack takes the next place along: so an item takes two
// commits. In a line that is not short the place knows its predecessor, too, and does not
// list the line.
func TestAckTakesAPlaceAlongWhereOthersWait(t *testing.T) {
	const each = 50
	for _, consumers := range []int{4, line.LongLine + 4} {
		t.Run(fmt.Sprint(consumers), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				producer, acked := w.queue(w.stranger(nil)), make(chan bool)
				putOn(t, producer, names(queue.MinSpread)...)
				for range consumers {
					q, link := w.consumerWithLink()
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
				before := w.srv.Counts()
				time.Sleep(time.Minute)
				requests := w.srv.Counts().Sub(before).Requests
				t.Logf("%v", requests)
				require.InDelta(t, each*consumers, requests[opAckJoin], float64(each*consumers)/10)
				require.Less(t, requests[opJoin], each*consumers/10)
				if consumers > line.LongLine {
					require.Less(t, requests["getChildren2"], each*consumers*3/2)
				}
				require.Len(t, w.items(), queue.MinSpread)
				require.Empty(t, w.srv.Children(w.path+"/line"), "the last places are left")
			})
		})
	}
}

// Others claim most of what it finds before its claim arrives.
func TestAConsumerFarAwayGetsItemsBesideOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		putOn(t, w.queue(w.stranger(nil)), names(7000)...)
		ctx, stop := context.WithTimeout(t.Context(), 8*time.Second)
		defer stop()
		var taken [line.LongLine + 1]atomic.Int32
		var wg sync.WaitGroup
		for i := range taken {
			q, link := w.consumerWithLink()
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
		require.Greater(t, far, int32(12), "a tenth of what it takes alone")
	})
}

// A place that an ack took along does not hold others up: it is left if no taker comes.
func TestPlaceThatAnAckTookAlongGivesWay(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		putOn(t, w.queue(w.stranger(nil)), names(4)...)
		q, other := w.queue(w.stranger(nil)), w.queue(w.stranger(nil))
		ackOn(t, takeOn(t, q))
		blocker := w.takeLater(other) // so that others wait, as far as q knows
		it := takeOn(t, q)
		pools := queue.PoolsOf(q.itemQueue.Client)
		pools.Mu.Lock()
		pools.All[q.itemQueue.Path].Soon = true
		pools.Mu.Unlock()
		s, _ := q.itemQueue.Client.Session()
		queue.QueueIn(s, q.itemQueue.Abs()).Turns.Queued.Store(true)
		ackOn(t, it)
		require.Len(t, w.srv.Children(w.path+"/line"), 1, "the ack took it along")
		ackOn(t, blocker.Get())
		began := time.Now()
		ackOn(t, takeOn(t, other))
		require.LessOrEqual(t, time.Since(began), queue.Soon)
		time.Sleep(2 * queue.Soon)
		require.Empty(t, w.srv.Children(w.path+"/line"))
	})
}

// A consumer that works between an ack and the next take does not hold the others up.
func TestConsumerThatPausesAfterItsAcksTakesNoPlaceAlong(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const items = 400
		producer := w.queue(w.stranger(nil))
		var taken [2]atomic.Int64
		for i, pause := range []time.Duration{5 * time.Millisecond, 0} {
			q, link := w.consumerWithLink()
			link.SetLatency(200 * time.Microsecond)
			go func() {
				for {
					it, err := q.Take(t.Context())
					if err != nil || it.Ack(t.Context()) != nil {
						return
					}
					taken[i].Add(1)
					time.Sleep(pause)
				}
			}()
		}
		synctest.Wait()
		began := time.Now()
		for i := range items {
			putOn(t, producer, fmt.Sprint(i))
			time.Sleep(1500 * time.Microsecond)
		}
		time.Sleep(10 * time.Millisecond)
		t.Logf("taken: %d and %d in %v", taken[0].Load(), taken[1].Load(), time.Since(began))
		require.Empty(t, w.items(), "they keep up with the producer")
	})
}

// Only the ack of the last item that a consumer has reads ahead.
func TestAcksOfABatchDoNotReadAhead(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		putOn(t, w.queue(w.stranger(nil)), names(100)...)
		q := w.queue(w.stranger(nil))
		requests := w.requests(func() {
			for range 8 {
				items, err := q.TakeN(t.Context(), 10)
				require.NoError(t, err)
				require.Len(t, items, 10)
				for _, it := range items {
					ackOn(t, it)
				}
			}
		})
		require.Equal(t, 80, requests[opAck])
		require.LessOrEqual(t, requests["getChildren2"], 12)
	})
}

// An ack that is completed after its caller has left ends the count of what is held.
func TestAckInTheBackgroundEndsTheCountOfTheItem(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q, link := w.consumerWithLink()
		putOn(t, q, "0")
		it := takeOn(t, q)
		s, _ := q.itemQueue.Client.Session()
		require.EqualValues(t, 1, queue.QueueIn(s, q.itemQueue.Abs()).Held.Load())
		link.SetLatency(100 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, it.Ack(ctx), ErrUncertain)
		time.Sleep(time.Second)
		require.ErrorIs(t, it.Err(), ErrReleased)
		require.Zero(t, queue.QueueIn(s, q.itemQueue.Abs()).Held.Load())
	})
}
