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

// ending counts the items whose data end with that, as a dead letter's do.
func (p *putsOf) ending(data string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for all, count := range p.byData {
		if strings.HasSuffix(all, data) {
			n += count
		}
	}
	return n
}

const roundTrip = 150 * time.Millisecond

// eachTraffic runs f with a distant producer among others, whose segments last for 200 ms
// and for 40 ms, and are emptied at once or stay full. With the race detector, which makes
// this traffic take minutes, it runs one of the four.
func eachTraffic(t *testing.T, f func(t *testing.T, w *recipetest.World, q *zkrecipes.Queue, puts *putsOf)) {
	for _, drained := range []bool{false, true} {
		for _, segment := range []int64{100, 20} {
			if recipetest.HasRaceDetector() && !(drained && segment == 100) {
				continue
			}
			t.Run(fmt.Sprintf("drained=%v, segment=%d", drained, segment), func(t *testing.T) {
				puts := &putsOf{}
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					q := w.Distant(roundTrip, segment)
					end := w.Traffic(segment, drained)
					defer end()
					time.Sleep(time.Second)
					f(t, w, q, puts)
				}, puts.option())
			})
		}
	}
}

func TestB83ADistantProducerGetsThroughAmongOthers(t *testing.T) {
	eachTraffic(t, func(t *testing.T, w *recipetest.World, q *zkrecipes.Queue, puts *putsOf) {
		var longest time.Duration
		for i := range 30 {
			began := time.Now()
			recipetest.PutOn(t, q, fmt.Sprint(i))
			longest = max(longest, time.Since(began))
			require.Equal(t, 1, puts.count(fmt.Sprint(i)))
			time.Sleep(time.Duration(i) * 37 * time.Millisecond)
		}
		t.Logf("the longest of 30 puts took %d round trips", longest/roundTrip)
		require.Less(t, longest, 25*roundTrip)
	})
}

// Each batch fills segments of its own.
func TestB83DistantBatchesGetThrough(t *testing.T) {
	eachTraffic(t, func(t *testing.T, w *recipetest.World, q *zkrecipes.Queue, puts *putsOf) {
		for i := range 5 {
			batch := slices.Repeat([][]byte{[]byte("batch")}, 150)
			_, err := q.PutAll(harness.Within(t, time.Minute), batch...)
			require.NoError(t, err)
			require.Equal(t, len(batch)*(i+1), puts.count("batch"))
		}
	})
}

// Producers with a bound stand in a line, and nobody overtakes those that ask for time.
func TestB83ADistantProducerWithABoundGetsThrough(t *testing.T) {
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

// The reply to one of the attempts is lost, or the attempt itself. The item is put once.
func TestB83DistantPutWhoseReplyIsLostMakesOneItem(t *testing.T) {
	eachTraffic(t, func(t *testing.T, w *recipetest.World, q *zkrecipes.Queue, puts *putsOf) {
		recipetest.PutOn(t, q, "first use")
		fired := 0
		for skip := range 8 {
			for _, after := range []bool{false, true} {
				data := fmt.Sprintf("%d %v", skip, after)
				w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: "multi", Path: w.ReceiptsOf(recipetest.ClientOf(recipetest.QueueOf(q).Client)), Skip: skip})
				time.Sleep(300 * time.Millisecond)
				recipetest.PutOn(t, q, data)
				require.Equal(t, 1, puts.count(data), data)
				w.Plan.Stop()
			}
		}
		for _, n := range w.Plan.Fired() {
			fired += n
		}
		require.Greater(t, fired, 4)
	})
}

// The session ends before the reply to one of the attempts.
func TestB83DistantPutIsUncertainIfItsSessionEnds(t *testing.T) {
	eachTraffic(t, func(t *testing.T, w *recipetest.World, q *zkrecipes.Queue, puts *putsOf) {
		uncertain := 0
		for skip := range 6 {
			for _, after := range []bool{false, true} {
				data := fmt.Sprintf("%d %v", skip, after)
				recipetest.PutOn(t, q, "first use in the session")
				w.Plan.Add(zktest.Fault{Do: zktest.Expire, After: after, Op: "multi", Path: w.ReceiptsOf(recipetest.ClientOf(recipetest.QueueOf(q).Client)), Skip: skip})
				time.Sleep(300 * time.Millisecond)
				_, err := q.Put(harness.Within(t, time.Minute), []byte(data))
				if err == nil {
					require.Equal(t, 1, puts.count(data), data)
				} else {
					require.ErrorIs(t, err, zkrecipes.ErrUncertain)
					require.LessOrEqual(t, puts.count(data), 1, data)
					uncertain++
				}
				w.Plan.Stop()
			}
		}
		require.NotZero(t, uncertain)
	})
}

// ctx ends at any moment. The receipt is used again only once every attempt's outcome is
// known.
func TestB83DistantPutThatIsCanceledIsPutOnceAtMost(t *testing.T) {
	eachTraffic(t, func(t *testing.T, w *recipetest.World, q *zkrecipes.Queue, puts *putsOf) {
		for i := range 20 {
			data := fmt.Sprint("canceled ", i)
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+i)*41*time.Millisecond)
			_, err := q.Put(ctx, []byte(data))
			cancel()
			switch {
			case err == nil:
				require.Equal(t, 1, puts.count(data))
			case !errors.Is(err, zkrecipes.ErrUncertain):
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Zero(t, puts.count(data))
			}
			// If it used the receipt with a wrong version, it would take itself for done.
			w.Plan.Add(zktest.Fault{Do: zktest.Drop, Op: "multi", Path: w.ReceiptsOf(recipetest.ClientOf(recipetest.QueueOf(q).Client))})
			recipetest.PutOn(t, q, fmt.Sprint("next ", i))
			require.Equal(t, 1, puts.count(fmt.Sprint("next ", i)))
			require.LessOrEqual(t, puts.count(data), 1)
		}
	})
}

// An operator deletes the queue between the attempts. It is made anew by the next put.
func TestB83DistantPutGoesOnInTheQueueThatIsMadeAnew(t *testing.T) {
	eachTraffic(t, func(t *testing.T, w *recipetest.World, q *zkrecipes.Queue, puts *putsOf) {
		raw := w.Bare()
		for i := range 10 {
			data := fmt.Sprint(i)
			put := recipetest.PutLater(t, q, data)
			time.Sleep(time.Duration(i) * 61 * time.Millisecond)
			recipetest.RemoveTree(t, raw, w.Path)
			put.Get()
			require.Equal(t, 1, puts.count(data))
		}
	})
}

// A move to a queue among fast producers.
func TestB83ADistantAckPutGetsThroughAmongOthers(t *testing.T) {
	eachTraffic(t, func(t *testing.T, w *recipetest.World, q *zkrecipes.Queue, puts *putsOf) {
		from := zkrecipes.NewQueue(recipetest.ClientOf(recipetest.QueueOf(q).Client), "/from", nil)
		var longest time.Duration
		for i := range 20 {
			recipetest.PutOn(t, from, "x")
			it := recipetest.TakeOn(t, from)
			began := time.Now()
			_, err := it.AckPut(harness.Within(t, time.Minute), q, [][]byte{fmt.Append(nil, i)})
			require.NoError(t, err)
			longest = max(longest, time.Since(began))
			require.Equal(t, 1, puts.count(fmt.Sprint(i)))
			time.Sleep(time.Duration(i) * 37 * time.Millisecond)
		}
		t.Logf("the longest of 20 moves took %d round trips", longest/roundTrip)
		require.Less(t, longest, 25*roundTrip)
		require.Empty(t, listed(t, from))
	})
}

// The reply to one of the attempts is lost, or the attempt itself. The item is moved once.
func TestB44DistantAckPutWhoseReplyIsLostMovesTheItemOnce(t *testing.T) {
	eachTraffic(t, func(t *testing.T, w *recipetest.World, q *zkrecipes.Queue, puts *putsOf) {
		from := zkrecipes.NewQueue(recipetest.ClientOf(recipetest.QueueOf(q).Client), "/from", nil)
		recipetest.PutOn(t, from, "first use")
		recipetest.AckOn(t, recipetest.TakeOn(t, from))
		fired := 0
		for skip := range 6 {
			for _, after := range []bool{false, true} {
				data := fmt.Sprintf("%d %v", skip, after)
				recipetest.PutOn(t, from, "x")
				it := recipetest.TakeOn(t, from)
				w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: "multi", Path: "/from/puts/*", Skip: skip})
				time.Sleep(300 * time.Millisecond)
				_, err := it.AckPut(harness.Within(t, time.Minute), q, [][]byte{[]byte(data)})
				require.NoError(t, err)
				require.Equal(t, 1, puts.count(data), data)
				w.Plan.Stop()
			}
		}
		for _, n := range w.Plan.Fired() {
			fired += n
		}
		require.NotZero(t, fired)
		require.Empty(t, listed(t, from))
	})
}

// The dead letters of many queues come into one queue, from near and far. Serve outlives
// that.
func TestB83DistantServeMovesItsDeadLettersAmongOthers(t *testing.T) {
	eachTraffic(t, func(t *testing.T, w *recipetest.World, q *zkrecipes.Queue, puts *putsOf) {
		from := zkrecipes.NewQueue(recipetest.ClientOf(recipetest.QueueOf(q).Client), "/from", &zkrecipes.QueueOptions{MaxAttempts: 1, DeadLetter: w.Path})
		recipetest.QueueOf(from).SegmentSize = recipetest.QueueOf(q).SegmentSize
		recipetest.PutOn(t, from, "given back")
		recipetest.NackOn(t, recipetest.TakeOn(t, from)) // the next consumer moves it
		recipetest.PutOn(t, from, "fails", "good")
		handled := make(chan string, 10)
		a := recipetest.ServeLater(t, from, func(_ context.Context, it *zkrecipes.Item) error {
			handled <- string(it.Data)
			if string(it.Data) == "fails" {
				return recipetest.ErrHandler
			}
			return nil
		})
		require.Equal(t, "fails", <-handled)
		require.Equal(t, "good", <-handled)
		require.NoError(t, stop(a))
		require.Empty(t, listed(t, from))
		for _, data := range []string{"given back", "fails"} {
			require.Equal(t, 1, puts.ending(data), data)
		}
	})
}
