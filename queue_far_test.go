package zkrecipes

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	near = 2 * time.Millisecond
	far  = 30 * time.Millisecond
)

// rates returns how many items a second consumers take and ack, each a process of one
// worker with that round trip, from a queue with a backlog. overtaken tells for each delivery
// how many earlier items are delivered after it.
func (w *world) rates(roundTrips ...time.Duration) (perSecond []int, total int, overtaken []int) {
	const seconds = 8
	t := w.t
	producer := w.queue(w.stranger(nil))
	for i := range 8 {
		putAllOn(t, producer, 1000*i, 1000)
	}
	var mu sync.Mutex
	var order []int
	counts := make([]atomic.Int64, len(roundTrips))
	for i, roundTrip := range roundTrips {
		q, link := w.consumerWithLink()
		q.itemQueue.Opts.Workers = 1
		link.SetLatency(roundTrip)
		serveLater(t, q, func(_ context.Context, it *Item) error {
			counts[i].Add(1)
			n, err := strconv.Atoi(string(it.Data))
			mu.Lock()
			defer mu.Unlock()
			order = append(order, n)
			return err
		})
	}
	time.Sleep(time.Second) // all are at work
	counted := w.srv.Counts()
	before := make([]int64, len(counts))
	for i := range counts {
		before[i] = counts[i].Load()
	}
	time.Sleep(seconds * time.Second)
	items := 0
	for i := range counts {
		n := int(counts[i].Load() - before[i])
		items += n
		perSecond = append(perSecond, n/seconds)
	}
	counted = w.srv.Counts().Sub(counted)
	requests := 0
	for _, n := range counted.Requests {
		requests += n
	}
	t.Logf("%.2f requests an item, %.2f commits", float64(requests)/float64(items), float64(counted.Transactions)/float64(items))
	require.LessOrEqual(t, requests, 6*items)
	require.NotEmpty(t, w.items(), "there was a backlog all the time")
	mu.Lock()
	defer mu.Unlock()
	return perSecond, items / seconds, overtakes(order)
}

// overtakes returns for each of the numbers how many lower ones come after it, or never.
func overtakes(order []int) (all []int) {
	var done []int // ascending
	for _, n := range order {
		i, _ := slices.BinarySearch(done, n)
		all = append(all, n-i)
		done = slices.Insert(done, i, n)
	}
	slices.Sort(all)
	return all
}

func describe(overtaken []int) string {
	at := func(share float64) int { return overtaken[int(share*float64(len(overtaken)-1))] }
	return fmt.Sprintf("overtaken: half %d at most, nine of ten %d, all but one in a hundred %d, all %d", at(0.5), at(0.9), at(0.99), at(1))
}

// Consumers with one worker each, all as far from the servers. They do not wait for each
// other.
func TestB99ConsumersOfOneWorkerDoNotWaitForEachOther(t *testing.T) {
	for _, roundTrip := range []time.Duration{near, far} {
		t.Run(roundTrip.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				each, total, overtaken := w.rates(roundTrip, roundTrip, roundTrip, roundTrip)
				t.Logf("four at %v: %v, %d items/s together; %s", roundTrip, each, total, describe(overtaken))
				require.Greater(t, float64(total)*roundTrip.Seconds(), 1.1, "items in a round trip")
			})
		})
	}
}

// One that is far away costs the near ones at most half, and gets items itself.
func TestB99OneFarConsumerAmongNearOnes(t *testing.T) {
	var alone int
	inBubble(t, func(t *testing.T, w *world) {
		var each []int
		each, alone, _ = w.rates(near, near, near, near)
		t.Logf("four at %v: %v, %d items/s together", near, each, alone)
	})
	for _, others := range [][]time.Duration{{far}, {far, far}} {
		t.Run(fmt.Sprint(others), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				each, total, overtaken := w.rates(append([]time.Duration{near, near, near, near}, others...)...)
				t.Logf("four at %v and %v: %v, %d items/s together; %s", near, others, each, total, describe(overtaken))
				require.GreaterOrEqual(t, each[0]+each[1]+each[2]+each[3], alone/2)
				for i, roundTrip := range others {
					// Alone it would take one in three round trips.
					require.Greater(t, float64(each[4+i])*roundTrip.Seconds(), 0.03, "items in a round trip of its own")
				}
			})
		})
	}
}
