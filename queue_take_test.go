package zkrecipes

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
)

// Items that are taken for long keep their segments. A take does not list each of these.
func TestTakesDoNotListSegmentsInWhichNothingIsFreeAgainAndAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const old, n = 20, 100
		producer, slow, q := w.queue(w.stranger(nil)), w.queue(w.stranger(nil)), w.queue(w.stranger(nil))
		for _, q := range []*Queue{producer, slow, q} {
			q.segmentSize = 10
		}
		_, err := producer.PutAll(t.Context(), make([][]byte, old*10+n)...)
		require.NoError(t, err)
		var held []*Item
		for i := range old * 10 {
			it := takeOn(t, slow)
			if i%10 == 0 {
				held = append(held, it)
			} else {
				ackOn(t, it)
			}
		}
		const each = 15
		all := []*Queue{q, w.queue(w.stranger(nil)), w.queue(w.stranger(nil))}
		take := func(n int) {
			var calls []*harness.Call[struct{}]
			for _, q := range all {
				calls = append(calls, harness.Go(t, func(ctx context.Context) (none struct{}, err error) {
					for range n {
						it, err := q.Take(ctx)
						if err == nil {
							err = it.Ack(ctx)
						}
						if err != nil {
							return none, err
						}
					}
					return none, nil
				}))
			}
			for _, call := range calls {
				call.Get()
			}
		}
		take(3) // the first ones set the watches
		listings := w.requests(func() { take(each) })["getChildren2"]
		require.LessOrEqual(t, listings, 3*each*4, "of %d old segments", old)

		// What comes back in one of them is taken first, whether the consumer sleeps or not.
		id := held[7].ID
		nackOn(t, held[7])
		synctest.Wait()
		it := takeOn(t, q)
		require.Equal(t, id, it.ID)
		ackOn(t, it)
		for range n - 3*(3+each) {
			ackOn(t, takeOn(t, q))
		}
		a := w.takeLater(q)
		time.Sleep(time.Minute)
		require.True(t, a.Waiting())
		id = held[3].ID
		nackOn(t, held[3])
		require.Equal(t, id, a.Get().ID)
	})
}

// Items that always fail are parked, and the others go on.
func TestServeGoesOnBesideItemsThatAlwaysFail(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const n, bad = 1200, 20 // one in twenty
		producer := w.queue(w.stranger(nil))
		for i := range n {
			data := "good"
			if i%bad == 0 {
				data = "bad"
			}
			putOn(t, producer, data)
		}
		q, link := w.consumerWithLink()
		link.SetLatency(time.Millisecond)
		good := 0
		all := make(chan struct{})
		began := time.Now()
		a := serveLater(t, q, func(_ context.Context, it *Item) error {
			if string(it.Data) == "bad" {
				return errHandler
			}
			if good++; good == n-n/bad {
				close(all)
			}
			return nil
		})
		<-all
		took := time.Since(began)
		t.Logf("%d items took %v", good, took)
		require.Less(t, took, 15*time.Second)
		require.NoError(t, stop(a))
	})
}
