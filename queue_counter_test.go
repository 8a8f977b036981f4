package zkrecipes

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The ends of the counters of a queue's lines and segments. See sequence_aside_test.go.

// counters are those that end: of the first place beyond the limit, and where ZooKeeper
// gives the same number again and again.
var counters = map[string]int32{"limit": line.MaxNumber - 2, "end": math.MaxInt32 - 1}

func eachCounter(t *testing.T, f func(t *testing.T, w *world, counter int32)) {
	for name, counter := range counters {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) { f(t, w, counter) })
		})
	}
}

func TestB84TakesGoOnBeyondTheEndOfTheConsumersCounter(t *testing.T) {
	eachCounter(t, func(t *testing.T, w *world, counter int32) {
		q, producer := w.queue(w.stranger(nil)), w.queue(w.stranger(nil))
		putOn(t, producer, names(10)...)
		warmed := takeOn(t, q)
		ackOn(t, warmed)
		require.NoError(t, w.srv.SetCounter(w.path+"/line", counter))
		for i := 1; i < 10; i++ {
			it := takeOn(t, q)
			require.Equal(t, fmt.Sprint(i), string(it.Data))
			ackOn(t, it)
		}
		require.Empty(t, w.srv.Children(w.path+"/line"))
	})
}

// Consumers wait on both sides of the limit. Each item goes to one of them.
func TestB84ConsumersThatWaitAtTheEndOfTheirCounterAreServed(t *testing.T) {
	eachCounter(t, func(t *testing.T, w *world, counter int32) {
		producer := w.queue(w.stranger(nil))
		warm(t, producer)
		require.NoError(t, w.srv.SetCounter(w.path+"/line", counter))
		var takers []*harness.Call[*Item]
		for range 4 {
			q := w.queue(w.stranger(nil))
			takers = append(takers, w.takeLater(q), w.takeLater(q))
		}
		putOn(t, producer, names(len(takers))...)
		got := map[string]bool{}
		for _, taker := range takers {
			it := taker.Get()
			got[string(it.Data)] = true
			ackOn(t, it)
		}
		require.Len(t, got, len(takers))
		require.Empty(t, w.srv.Children(w.path+"/line"))
	})
}

// The place that an ack takes along is beyond the limit.
func TestB84ServeGoesOnBeyondTheEndOfTheConsumersCounter(t *testing.T) {
	eachCounter(t, func(t *testing.T, w *world, counter int32) {
		producer := w.queue(w.stranger(nil))
		warm(t, producer)
		require.NoError(t, w.srv.SetCounter(w.path+"/line", counter))
		handled := make(chan string, 100)
		for range 2 {
			q := w.queue(w.stranger(nil))
			q.itemQueue.Opts.Workers = 2
			a := serveLater(t, q, func(_ context.Context, it *Item) error {
				handled <- string(it.Data)
				return nil
			})
			defer func() { require.NoError(t, stop(a)) }()
		}
		for i := range 20 {
			putOn(t, producer, fmt.Sprint(i))
			require.Equal(t, fmt.Sprint(i), <-handled)
		}
		synctest.Wait()
		require.Empty(t, w.items())
	})
}

func TestB84BoundedPutsGoOnBeyondTheEndOfTheProducersCounter(t *testing.T) {
	eachCounter(t, func(t *testing.T, w *world, counter int32) {
		q, other := w.queue(w.stranger(nil)), w.queue(w.stranger(nil))
		q.itemQueue.Opts.MaxLen, other.itemQueue.Opts.MaxLen = 2, 2
		putOn(t, q, "0", "1")
		require.NoError(t, w.srv.SetCounter(w.path+"/room", counter))
		var puts []*harness.Call[ItemID]
		for i := range 8 {
			puts = append(puts, putLater(t, []*Queue{q, other}[i%2], fmt.Sprint(2+i)))
			synctest.Wait()
		}
		seen := map[string]bool{}
		for range 10 {
			require.LessOrEqual(t, len(w.items()), 2)
			it := takeOn(t, q)
			seen[string(it.Data)] = true
			ackOn(t, it)
			synctest.Wait()
		}
		require.Len(t, seen, 10)
		for _, put := range puts {
			put.Get()
		}
		require.Empty(t, w.srv.Children(w.path+"/room"))
	})
}

// The counter counts items and claims, so a segment whose items were claimed often enough
// comes to its end, too. The items of one transaction keep their order over it. Each
// producer fills that segment with its second put, or its first if it did not know it.
func TestB84ItemsAreDeliveredBeyondTheEndOfASegmentsCounter(t *testing.T) {
	for ahead := range 4 {
		for name, known := range map[string]bool{"known": true, "unknown": false} {
			t.Run(fmt.Sprintf("%s, %d ahead", name, ahead), func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					q, consumer := w.queue(w.stranger(nil)), w.queue(w.stranger(nil))
					warm(t, consumer)
					if known {
						warm(t, q)
					}
					require.NoError(t, w.srv.SetCounter(w.path+"/s/0000000000", math.MaxInt32-int32(ahead)))
					putAllOn(t, q, 0, 5)
					putAllOn(t, q, 5, 5)
					require.Len(t, w.items(), 10)
					require.Less(t, 1, len(w.segmentSizes()), "the segment is sealed")
					all := drain(t, consumer)
					require.ElementsMatch(t, numbers(10), all)
					require.Equal(t, numbers(5), those(all, "0", "1", "2", "3", "4"))
					require.Equal(t, numbers(10)[5:], those(all, numbers(10)[5:]...))
					putAllOn(t, q, 0, 150)
					require.Equal(t, numbers(150), drain(t, consumer))
				})
			})
		}
	}
}

// those returns those of all that are wanted, in their order.
func those(all []string, wanted ...string) (kept []string) {
	for _, s := range all {
		for _, want := range wanted {
			if s == want {
				kept = append(kept, s)
			}
		}
	}
	return kept
}

// A place beyond the limit, in a session that ends.
func TestB84SessionEndsWhileItsConsumerIsAside(t *testing.T) {
	eachCounter(t, func(t *testing.T, w *world, counter int32) {
		producer, first := w.queue(w.stranger(nil)), w.queue(w.stranger(nil))
		warm(t, producer)
		inLine := w.takeLater(first)
		require.NoError(t, w.srv.SetCounter(w.path+"/line", math.MaxInt32))
		c := w.stranger(nil)
		aside := w.takeLater(w.queue(c))
		w.plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: opDelete})
		other := w.takeLater(w.queue(w.stranger(nil)))
		require.Len(t, w.srv.Children(w.path+"/line"), 1)
		require.True(t, w.srv.Expire(sessionID(c)))
		time.Sleep(3 * time.Second)
		putOn(t, producer, names(3)...)
		for _, a := range []*harness.Call[*Item]{inLine, aside, other} {
			ackOn(t, a.Get())
		}
	})
}
