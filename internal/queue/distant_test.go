package queue_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// Clients far away, among others.

const (
	roundTrip = 150 * time.Millisecond
	near      = 2 * time.Millisecond
	far       = 30 * time.Millisecond
)

// puts has a producer put again and again, with a pause, until the test ends.
func puts(t *testing.T, q *zkrecipes.Queue, pause time.Duration) {
	harness.GoErr(t, func(ctx context.Context) error {
		for ctx.Err() == nil {
			_, _ = q.Put(ctx, nil)
			time.Sleep(pause)
		}
		return nil
	})
}

// Producers with a bound stand in a line, and the others wait for a distant one.
func TestADistantProducerWithABoundGetsThrough(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		distant, near := w.Distant(roundTrip, 100), w.Queue(w.Stranger(nil))
		recipetest.QueueOf(distant).Opts.MaxLen, recipetest.QueueOf(near).Opts.MaxLen = 1<<30, 1<<30
		recipetest.ServeLater(t, w.Queue(w.Stranger(nil)), func(context.Context, *zkrecipes.Item) error { return nil })
		for range 2 {
			puts(t, near, 10*time.Millisecond)
		}
		const n = 20
		began := time.Now()
		for range n {
			recipetest.PutOn(t, distant, "x")
		}
		took := time.Since(began)
		t.Logf("a put takes %d round trips", took/roundTrip/n) // some 25, with the race detector up to 80
		require.Less(t, took, n*200*roundTrip)
	})
}

// Consumers with one worker each, which do not wait for each other. One that is far away costs the near
// ones at most half, and gets items itself.
func TestConsumersOfOneWorkerDoNotWaitForEachOther(t *testing.T) {
	var alone int // those that are near
	eachOf(t, []time.Duration{near, far}, func(t *testing.T, w *recipetest.World, roundTrip time.Duration) {
		each, total, overtaken := w.Rates(roundTrip, roundTrip, roundTrip, roundTrip)
		if roundTrip == near {
			alone = total
		}
		t.Logf("four at %v: %v, %d items/s together; half of the items are overtaken by %d at most", roundTrip, each, total, overtaken[len(overtaken)/2])
		require.Greater(t, float64(total)*roundTrip.Seconds(), 1.1, "items in a round trip")
		require.Less(t, overtaken[len(overtaken)*9/10], 60, "nine of ten items are overtaken by fewer")
	})
	eachOf(t, [][]time.Duration{{far}, {far, far}}, func(t *testing.T, w *recipetest.World, others []time.Duration) {
		each, total, _ := w.Rates(append([]time.Duration{near, near, near, near}, others...)...)
		t.Logf("four at %v and %v: %v, %d items/s together", near, others, each, total)
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
