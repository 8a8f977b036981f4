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
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The ends of the counters of a queue's lines and segments. See rollover_test.go.

// counters are those that end: of the first place beyond the limit, and where ZooKeeper
// gives the same number again and again.
var counters = map[string]int32{"limit": line.MaxNumber - 2, "end": math.MaxInt32 - 1}

func eachCounter(t *testing.T, f func(t *testing.T, w *recipetest.World, counter int32)) {
	eachInBubble(t, counters, f)
}

// Consumers wait on both sides of the limit. Each item goes to one of them.
func TestConsumersThatWaitAtTheEndOfTheirCounterAreServed(t *testing.T) {
	eachCounter(t, func(t *testing.T, w *recipetest.World, counter int32) {
		producer := w.Queue(w.Stranger(nil))
		recipetest.Warm(t, producer)
		canceled(t, w.TakeLater(producer)) // makes the line
		time.Sleep(time.Second)
		require.NoError(t, w.Srv.SetCounter(w.Path+"/line", counter))
		var takers []*harness.Call[*zkrecipes.Item]
		for range 4 {
			q := w.Queue(w.Stranger(nil))
			takers = append(takers, w.TakeLater(q), w.TakeLater(q))
		}
		recipetest.PutOn(t, producer, recipetest.Names(len(takers))...)
		got := map[string]bool{}
		for _, taker := range takers {
			it := taker.Get()
			got[string(it.Data)] = true
			recipetest.AckOn(t, it)
		}
		require.Len(t, got, len(takers))
		require.Empty(t, w.Srv.Children(w.Path+"/line"))
	})
}

// The places of a Serve are beyond the limit.
func TestServeGoesOnBeyondTheEndOfTheConsumersCounter(t *testing.T) {
	eachCounter(t, func(t *testing.T, w *recipetest.World, counter int32) {
		producer := w.Queue(w.Stranger(nil))
		recipetest.Warm(t, producer)
		canceled(t, w.TakeLater(producer)) // makes the line
		time.Sleep(time.Second)
		require.NoError(t, w.Srv.SetCounter(w.Path+"/line", counter))
		handled := make(chan string, 100)
		for range 2 {
			q := w.QueueWith(w.Stranger(nil), &zkrecipes.QueueOptions{Workers: 2})
			recipetest.ServeLater(t, q, func(_ context.Context, it *zkrecipes.Item) error {
				handled <- string(it.Data)
				return nil
			})
		}
		for _, data := range recipetest.Names(20) {
			recipetest.PutOn(t, producer, data)
			require.Equal(t, data, <-handled)
		}
		synctest.Wait()
		require.Empty(t, w.Items())
	})
}

func TestBoundedPutsGoOnBeyondTheEndOfTheProducersCounter(t *testing.T) {
	eachCounter(t, func(t *testing.T, w *recipetest.World, counter int32) {
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
			require.ElementsMatch(t, numbers(10), all)
			require.Equal(t, numbers(5), those(all, numbers(5)...))
			require.Equal(t, numbers(10)[5:], those(all, numbers(10)[5:]...))
			recipetest.PutAllOn(t, q, 0, 150)
			require.Equal(t, numbers(150), recipetest.Drain(t, consumer))
		})
	}
}

// those returns those of all that are wanted, in their order.
func those(all []string, wanted ...string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return !slices.Contains(wanted, s) })
}

// A place beyond the limit, in a session that ends.
func TestConsumersGoOnWhenTheSessionOfOneThatIsAsideEnds(t *testing.T) {
	eachCounter(t, func(t *testing.T, w *recipetest.World, counter int32) {
		producer, first := w.Queue(w.Stranger(nil)), w.Queue(w.Stranger(nil))
		recipetest.Warm(t, producer)
		inLine := w.TakeLater(first)
		require.NoError(t, w.Srv.SetCounter(w.Path+"/line", math.MaxInt32))
		c := w.Stranger(nil)
		aside := w.TakeLater(w.Queue(c))
		w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: recipetest.OpDelete})
		other := w.TakeLater(w.Queue(w.Stranger(nil)))
		require.Len(t, w.Srv.Children(w.Path+"/line"), 1)
		require.True(t, w.Srv.Expire(recipetest.SessionID(c)))
		time.Sleep(3 * time.Second)
		recipetest.PutOn(t, producer, recipetest.Names(3)...)
		for _, a := range []*harness.Call[*zkrecipes.Item]{inLine, aside, other} {
			recipetest.AckOn(t, a.Get())
		}
	})
}
