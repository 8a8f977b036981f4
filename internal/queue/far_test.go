package queue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

const (
	near = 2 * time.Millisecond
	far  = 30 * time.Millisecond
)

func describe(overtaken []int) string {
	at := func(share float64) int { return overtaken[int(share*float64(len(overtaken)-1))] }
	return fmt.Sprintf("overtaken: half %d at most, nine of ten %d, all but one in a hundred %d, all %d", at(0.5), at(0.9), at(0.99), at(1))
}

// Consumers with one worker each, all as far from the servers. They do not wait for each
// other.
func TestB99ConsumersOfOneWorkerDoNotWaitForEachOther(t *testing.T) {
	for _, roundTrip := range []time.Duration{near, far} {
		t.Run(roundTrip.String(), func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				each, total, overtaken := w.Rates(roundTrip, roundTrip, roundTrip, roundTrip)
				t.Logf("four at %v: %v, %d items/s together; %s", roundTrip, each, total, describe(overtaken))
				require.Greater(t, float64(total)*roundTrip.Seconds(), 1.1, "items in a round trip")
				require.Less(t, overtaken[len(overtaken)*9/10], 60, "nine of ten items are overtaken by fewer")
			})
		})
	}
}

// One that is far away costs the near ones at most half, and gets items itself.
func TestB99OneFarConsumerAmongNearOnes(t *testing.T) {
	var alone int
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var each []int
		each, alone, _ = w.Rates(near, near, near, near)
		t.Logf("four at %v: %v, %d items/s together", near, each, alone)
	})
	for _, others := range [][]time.Duration{{far}, {far, far}} {
		t.Run(fmt.Sprint(others), func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				each, total, overtaken := w.Rates(append([]time.Duration{near, near, near, near}, others...)...)
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
