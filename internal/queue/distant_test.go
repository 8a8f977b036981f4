package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// A producer far away, among others that fill segments faster than its requests travel.

// putsOf counts the items that were ever put, by their data.
type putsOf struct {
	mu     sync.Mutex
	byData map[string]int
}

func (p *putsOf) option() zktest.Option {
	p.byData = map[string]int{}
	return zktest.OnChange(func(ch zktest.Change) {
		if ch.Created && strings.HasPrefix(ch.Path, "/line/s/") {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.byData[string(ch.Data)]++
		}
	})
}

func (p *putsOf) count(data string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byData[data]
}

const (
	roundTrip = 150 * time.Millisecond
	near      = 2 * time.Millisecond
	far       = 30 * time.Millisecond
)

// distantRun is a distant producer among others.
type distantRun struct {
	*recipetest.World
	q    *zkrecipes.Queue
	puts *putsOf
	way
}

// way is how a producer puts an item into q: receipts are those of its next put, as a Fault's
// Path. put puts the item.
type way func(t *testing.T, w *recipetest.World, q *zkrecipes.Queue) (receipts string, put func(ctx context.Context, data string) error)

var ways = map[string]way{
	"Put": func(_ *testing.T, w *recipetest.World, q *zkrecipes.Queue) (string, func(context.Context, string) error) {
		return w.ReceiptsOf(clientOf(q)), func(ctx context.Context, data string) error {
			_, err := q.Put(ctx, []byte(data))
			return err
		}
	},
	"AckPut": func(t *testing.T, w *recipetest.World, q *zkrecipes.Queue) (string, func(context.Context, string) error) {
		from := zkrecipes.NewQueue(clientOf(q), "/from", nil)
		recipetest.PutOn(t, from, "x")
		it := recipetest.TakeOn(t, from)
		return "/from/puts/*", func(ctx context.Context, data string) error {
			_, err := it.AckPut(ctx, q, bytesOf(data))
			return err
		}
	},
}

// eachWay runs f for each way to put, among others whose segments last for 200 ms and are
// emptied at once, or last for 40 ms and stay full. With the race detector, which makes this
// traffic take minutes, it runs one of these.
func eachWay(t *testing.T, f func(t *testing.T, r *distantRun)) {
	for name, way := range ways {
		for _, drained := range []bool{true, false} {
			if recipetest.HasRaceDetector() && !drained {
				continue
			}
			t.Run(fmt.Sprintf("%s, drained=%v", name, drained), func(t *testing.T) {
				t.Parallel()
				puts, segment := &putsOf{}, map[bool]int64{true: 40, false: 8}[drained]
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					q := w.Distant(roundTrip, segment)
					defer w.Traffic(segment, drained)()
					time.Sleep(time.Second)
					f(t, &distantRun{w, q, puts, way})
				}, puts.option())
			})
		}
	}
}

// put puts an item, which must succeed.
func (r *distantRun) put(data string) {
	r.T.Helper()
	_, put := r.way(r.T, r.World, r.q)
	require.NoError(r.T, put(harness.Within(r.T, time.Minute), data))
	require.Equal(r.T, 1, r.puts.count(data), data)
}

// B83
func TestADistantProducerGetsThroughAmongOthers(t *testing.T) {
	eachWay(t, func(t *testing.T, r *distantRun) {
		var longest time.Duration
		for i := range 20 {
			_, put := r.way(t, r.World, r.q)
			began := time.Now()
			require.NoError(t, put(harness.Within(t, time.Minute), fmt.Sprint(i)))
			longest = max(longest, time.Since(began))
			require.Equal(t, 1, r.puts.count(fmt.Sprint(i)))
			time.Sleep(time.Duration(i) * 37 * time.Millisecond)
		}
		t.Logf("the longest of 20 puts took %d round trips", longest/roundTrip)
		require.Less(t, longest, 25*roundTrip)
	})
}

// B83: The reply to one of the attempts is lost, or the attempt itself. The item is put once. If
// the session ends, it may be uncertain.
func TestDistantPutWhoseReplyIsLostMakesOneItem(t *testing.T) {
	// B44: of a move
	eachWay(t, func(t *testing.T, r *distantRun) {
		r.put("first use")
		fired, uncertain := 0, 0
		for i := range 24 {
			skip := i % 8
			for _, do := range []zktest.Action{zktest.Drop, zktest.Expire} {
				if do == zktest.Expire && i >= 4 {
					continue
				}
				for _, after := range []bool{false, true} {
					data := fmt.Sprint(i, do, after)
					receipts, put := r.way(t, r.World, r.q)
					r.Plan.Add(zktest.Fault{Do: do, After: after, Op: "multi", Path: receipts, Skip: skip})
					time.Sleep(300 * time.Millisecond)
					err := put(harness.Within(t, time.Minute), data)
					if do == zktest.Expire && err != nil {
						require.ErrorIs(t, err, zkrecipes.ErrUncertain)
						require.LessOrEqual(t, r.puts.count(data), 1, data)
						uncertain++
					} else {
						require.NoError(t, err)
						require.Equal(t, 1, r.puts.count(data), data)
					}
					r.Plan.Stop()
				}
			}
		}
		for _, n := range r.Plan.Fired() {
			fired += n
		}
		require.Greater(t, fired, 4)
		require.NotZero(t, uncertain)
	})
}

// B83: ctx ends at any moment. The receipt is used again only once every attempt's outcome is
// known.
func TestDistantPutThatIsCanceledIsPutOnceAtMost(t *testing.T) {
	eachWay(t, func(t *testing.T, r *distantRun) {
		for i := range 20 {
			data := fmt.Sprint("canceled ", i)
			_, put := r.way(t, r.World, r.q)
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+i)*41*time.Millisecond)
			err := put(ctx, data)
			cancel()
			switch {
			case err == nil:
				require.Equal(t, 1, r.puts.count(data))
			case !errors.Is(err, zkrecipes.ErrUncertain):
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Zero(t, r.puts.count(data))
			}
			// If it used the receipt with a wrong version, it would take itself for done.
			r.Plan.Add(zktest.Fault{Do: zktest.Drop, Op: "multi", Path: r.ReceiptsOf(clientOf(r.q))})
			recipetest.PutOn(t, r.q, fmt.Sprint("next ", i))
			require.Equal(t, 1, r.puts.count(fmt.Sprint("next ", i)))
			require.LessOrEqual(t, r.puts.count(data), 1)
		}
	})
}

// B83: Each batch fills segments of its own. An operator deletes the queue between the attempts
// of a put, and the next put makes it anew.
func TestDistantBatchesGetThrough(t *testing.T) {
	puts := &putsOf{}
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, raw := w.Distant(roundTrip, 40), w.Bare()
		defer w.Traffic(40, true)()
		time.Sleep(time.Second)
		for i := range 5 {
			batch := slices.Repeat(bytesOf("batch"), 60)
			_, err := q.PutAll(harness.Within(t, time.Minute), batch...)
			require.NoError(t, err)
			require.Equal(t, len(batch)*(i+1), puts.count("batch"))
		}
		for i, data := range recipetest.Names(10) {
			put := recipetest.PutLater(t, q, data)
			time.Sleep(time.Duration(i) * 61 * time.Millisecond)
			recipetest.RemoveTree(t, raw, w.Path)
			put.Get()
			require.Equal(t, 1, puts.count(data))
		}
	}, puts.option())
}

// B83: Producers with a bound stand in a line, and nobody overtakes those that ask for time.
func TestADistantProducerWithABoundGetsThrough(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		distant, near := w.Distant(roundTrip, 20), w.Queue(w.Stranger(nil))
		recipetest.QueueOf(distant).Opts.MaxLen, recipetest.QueueOf(near).Opts.MaxLen = 1<<30, 1<<30
		recipetest.QueueOf(near).SegmentSize = 20
		var wg sync.WaitGroup
		defer wg.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range 4 {
			wg.Go(func() {
				for ctx.Err() == nil {
					_, _ = near.Put(ctx, nil)
					time.Sleep(2 * time.Millisecond)
				}
			})
		}
		for i := range 10 {
			began := time.Now()
			recipetest.PutOn(t, distant, "x")
			limit := 20 * roundTrip
			if i == 0 { // others overtake it until it asks for enough time
				limit *= 2
			}
			require.Less(t, time.Since(began), limit)
		}
	})
}

func describe(overtaken []int) string {
	at := func(share float64) int { return overtaken[int(share*float64(len(overtaken)-1))] }
	return fmt.Sprintf("overtaken: half %d at most, nine of ten %d, all but one in a hundred %d, all %d", at(0.5), at(0.9), at(0.99), at(1))
}

// B99: Consumers with one worker each, all as far from the servers. They do not wait for each
// other.
func TestConsumersOfOneWorkerDoNotWaitForEachOther(t *testing.T) {
	eachOf(t, []time.Duration{near, far}, func(t *testing.T, w *recipetest.World, roundTrip time.Duration) {
		each, total, overtaken := w.Rates(roundTrip, roundTrip, roundTrip, roundTrip)
		t.Logf("four at %v: %v, %d items/s together; %s", roundTrip, each, total, describe(overtaken))
		require.Greater(t, float64(total)*roundTrip.Seconds(), 1.1, "items in a round trip")
		require.Less(t, overtaken[len(overtaken)*9/10], 60, "nine of ten items are overtaken by fewer")
	})
}

// B99: One that is far away costs the near ones at most half, and gets items itself.
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
