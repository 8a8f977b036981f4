package queue_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// The ends of the counters of a queue's lines and segments. See rollover_test.go.

// counters are those that end: of the first place beyond the limit, and where ZooKeeper
// gives the same number again and again.
var counters = map[string]int32{"limit": line.MaxNumber - 2, "end": math.MaxInt32 - 1}

// Consumers wait on both sides of the limit, and take again beyond it.
func TestConsumersThatWaitAtTheEndOfTheirCounterAreServed(t *testing.T) {
	eachInBubble(t, counters, func(t *testing.T, w *recipetest.World, counter int32) {
		producer := w.Queue(w.Stranger(nil))
		recipetest.Warm(t, producer)
		recipetest.Cancels(t, w.TakeLater(producer)) // makes the line
		time.Sleep(time.Second)
		require.NoError(t, w.Srv.SetCounter(w.Path+"/line", counter))
		var takers []*harness.Call[struct{}]
		for range 4 {
			q := w.Queue(w.Stranger(nil))
			for range 2 {
				takers = append(takers, harness.GoErr(t, func(context.Context) error {
					for range 3 {
						recipetest.AckedOn(t, q)
					}
					return nil
				}))
				synctest.Wait()
			}
		}
		recipetest.PutOn(t, producer, recipetest.Names(3*len(takers))...)
		for _, taker := range takers {
			taker.Get()
		}
		require.Empty(t, w.Items())
		time.Sleep(time.Second)
		require.Empty(t, w.Srv.Children(w.Path+"/line"))
	})
}

func TestBoundedPutsGoOnBeyondTheEndOfTheProducersCounter(t *testing.T) {
	eachInBubble(t, counters, func(t *testing.T, w *recipetest.World, counter int32) {
		queues := []*zkrecipes.Queue{w.Bounded(2), w.Bounded(2)}
		recipetest.PutOn(t, queues[0], "0", "1")
		require.NoError(t, w.Srv.SetCounter(w.Path+"/room", counter))
		for i := range 8 {
			w.PutLater(queues[i%2], fmt.Sprint(2+i))
		}
		seen := map[string]bool{}
		for range 10 {
			require.LessOrEqual(t, len(w.Items()), 2)
			seen[recipetest.AckedOn(t, queues[0])] = true
			synctest.Wait()
		}
		require.Len(t, seen, 10)
		require.Empty(t, w.Srv.Children(w.Path+"/room"))
	})
}

// The counter counts items and claims, so a segment whose items were claimed often enough
// comes to its end, too. The items of one transaction keep their order over it. Each
// producer fills that segment with its second put, or its first if it did not know it.
func TestItemsAreDeliveredBeyondTheEndOfASegmentsCounter(t *testing.T) {
	for ahead := range int32(4) {
		eachInBubble(t, map[string]bool{"known": true, "unknown": false}, func(t *testing.T, w *recipetest.World, known bool) {
			q, consumer := w.Queue(w.Stranger(nil)), w.Queue(w.Stranger(nil))
			recipetest.Warm(t, consumer)
			if known {
				recipetest.Warm(t, q)
			}
			require.NoError(t, w.Srv.SetCounter(w.Segment(0), math.MaxInt32-ahead))
			recipetest.PutAllOn(t, q, 0, 5)
			recipetest.PutAllOn(t, q, 5, 5)
			require.Len(t, w.Items(), 10)
			require.Less(t, 1, len(w.SegmentSizes()), "the segment is sealed")
			all := recipetest.Drain(t, consumer)
			require.ElementsMatch(t, recipetest.Names(10), all)
			require.Equal(t, recipetest.Names(5), those(all, recipetest.Names(5)...))
			require.Equal(t, recipetest.Names(10)[5:], those(all, recipetest.Names(10)[5:]...))
			recipetest.PutAllOn(t, q, 0, 150)
			require.Equal(t, recipetest.Names(150), recipetest.Drain(t, consumer))
		})
	}
}

// those returns those of all that are wanted, in their order.
func those(all []string, wanted ...string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return !slices.Contains(wanted, s) })
}
