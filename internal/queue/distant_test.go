package queue_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// Clients far away, among others.

const (
	roundTrip = 150 * time.Millisecond
	near      = 2 * time.Millisecond
	far       = 30 * time.Millisecond
)

// Producers with a bound stand in a line, and the others wait for a distant one.
func TestADistantProducerWithABoundGetsThrough(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		distant, near := w.Distant(roundTrip, 100), w.Queue(w.Stranger(nil))
		recipetest.QueueOf(distant).Opts.MaxLen, recipetest.QueueOf(near).Opts.MaxLen = 1<<30, 1<<30
		var wg sync.WaitGroup
		defer wg.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		taker := w.Queue(w.Stranger(nil))
		wg.Go(func() { _ = taker.Serve(ctx, func(context.Context, *zkrecipes.Item) error { return nil }) })
		for range 2 {
			wg.Go(func() {
				for ctx.Err() == nil {
					_, _ = near.Put(ctx, nil)
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
		const puts = 20
		began := time.Now()
		for range puts {
			recipetest.PutOn(t, distant, "x")
		}
		took := time.Since(began)
		t.Logf("a put takes %d round trips", took/roundTrip/puts) // some 25, with the race detector up to 80
		require.Less(t, took, puts*200*roundTrip)
	})
}

func describe(overtaken []int) string {
	at := func(share float64) int { return overtaken[int(share*float64(len(overtaken)-1))] }
	return fmt.Sprintf("overtaken: half %d at most, nine of ten %d, all but one in a hundred %d, all %d", at(0.5), at(0.9), at(0.99), at(1))
}

// Consumers with one worker each, all as far from the servers. They do not wait for each
// other.
func TestConsumersOfOneWorkerDoNotWaitForEachOther(t *testing.T) {
	eachOf(t, []time.Duration{near, far}, func(t *testing.T, w *recipetest.World, roundTrip time.Duration) {
		each, total, overtaken := w.Rates(roundTrip, roundTrip, roundTrip, roundTrip)
		t.Logf("four at %v: %v, %d items/s together; %s", roundTrip, each, total, describe(overtaken))
		require.Greater(t, float64(total)*roundTrip.Seconds(), 1.1, "items in a round trip")
		require.Less(t, overtaken[len(overtaken)*9/10], 60, "nine of ten items are overtaken by fewer")
	})
}

// One that is far away costs the near ones at most half, and gets items itself.
func TestOneFarConsumerGetsItemsAndCostsNearOnesAtMostHalf(t *testing.T) {
	var alone int
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var each []int
		each, alone, _ = w.Rates(near, near, near, near)
		t.Logf("four at %v: %v, %d items/s together", near, each, alone)
	})
	eachOf(t, [][]time.Duration{{far}, {far, far}}, func(t *testing.T, w *recipetest.World, others []time.Duration) {
		each, total, overtaken := w.Rates(append([]time.Duration{near, near, near, near}, others...)...)
		t.Logf("four at %v and %v: %v, %d items/s together; %s", near, others, each, total, describe(overtaken))
		require.GreaterOrEqual(t, each[0]+each[1]+each[2]+each[3], alone/2)
		for i, roundTrip := range others {
			// Alone it would take one in three round trips.
			require.Greater(t, float64(each[4+i])*roundTrip.Seconds(), 0.03, "items in a round trip of its own")
		}
	})
}

// The near one takes the first item, again and again, while the far one's claim of it is on its way.
func TestAFarConsumerChoosesAtItsTurnOnceOthersWereQuicker(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, link := w.ConsumerWithLink()
		far := w.TakeLater(q)
		require.Len(t, w.Srv.Children(w.Path+"/line"), 1, "it is the first in line")
		link.SetLatency(roundTrip)
		near := w.Queue(w.Stranger(nil))
		recipetest.PutAllOn(t, near, 0, 1000)
		for range 500 { // 100 round trips
			it := recipetest.TakeOn(t, near)
			time.Sleep(roundTrip / 5)
			recipetest.AckOn(t, it)
		}
		require.False(t, far.Waiting())
		require.NotEmpty(t, w.Items(), "there was a backlog all the time")
		recipetest.AckOn(t, far.Get())
	})
}
