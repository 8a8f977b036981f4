package queue_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/queue"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// A process that is killed keeps its place at the head of the line until its session
// expires. The others do not wait for that.
func TestB79ItemsAreDeliveredAlthoughTheHeadOfTheLineIsDead(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		dead, link := w.ConsumerWithLink()
		recipetest.QueueOf(dead).Opts.Workers = 4
		recipetest.ServeLater(t, dead, func(context.Context, *zkrecipes.Item) error { return nil })
		synctest.Wait()
		got := make(chan string, 100)
		for range 2 {
			recipetest.ServeLater(t, w.Queue(w.Stranger(nil)), func(_ context.Context, it *zkrecipes.Item) error {
				got <- string(it.Data)
				return nil
			})
			synctest.Wait()
		}
		require.Len(t, w.Srv.Children(w.Path+"/line"), 3, "one place for each client, whatever its workers")
		time.Sleep(time.Second)
		link.Stop()
		producer := w.Queue(w.Stranger(nil))
		var gaps []time.Duration
		for i := range 20 {
			began := time.Now()
			recipetest.PutOn(t, producer, fmt.Sprint(i))
			require.Equal(t, fmt.Sprint(i), <-got)
			gaps = append(gaps, time.Since(began))
		}
		t.Logf("gaps: %v", gaps)
		require.Less(t, slices.Max(gaps), 3*queue.Grace)
		slices.Sort(gaps)
		require.Less(t, gaps[len(gaps)-5], time.Millisecond, "nobody waits for the dead one again and again")
		link.Resume()
	})
}

// The same while there are items all the time. The one that is dead waits at the head.
func TestB79DeliveriesGoOnWhenTheConsumerWithTheTurnDies(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		dead, link := w.ConsumerWithLink()
		w.TakeLater(dead)
		line := w.Srv.Children(w.Path + "/line")
		require.Len(t, line, 1, "it is the first in line")
		time.Sleep(time.Second)
		link.Stop()
		producer, live := w.Queue(w.Stranger(nil)), w.Queue(w.Stranger(nil))
		_, err := producer.PutAll(t.Context(), make([][]byte, 300)...)
		require.NoError(t, err)
		began := time.Now()
		for range 50 {
			recipetest.AckOn(t, recipetest.TakeOn(t, live))
		}
		took := time.Since(began)
		t.Logf("50 items took %v", took)
		require.Less(t, took, time.Second)
		require.Subset(t, w.Srv.Children(w.Path+"/line"), line, "it is still there")
		require.Len(t, w.Items(), 250)
		link.Resume()
	})
}

// Several that are killed at once, at the head: each costs some graces.
func TestB96DeliveriesGoOnWhenSeveralAtTheHeadAreDead(t *testing.T) {
	for _, dead := range []int{2, 3, 5} {
		t.Run(fmt.Sprint(dead), func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				var links []*harness.Link
				for range dead {
					q, link := w.ConsumerWithLink()
					w.TakeLater(q)
					links = append(links, link)
				}
				live := w.TakeLater(w.Queue(w.Stranger(nil)))
				time.Sleep(time.Second)
				for _, link := range links {
					link.Stop()
				}
				began := time.Now()
				recipetest.PutOn(t, w.Queue(w.Stranger(nil)), "x")
				it := live.Get()
				took := time.Since(began)
				t.Logf("%d killed at once: %v at a session timeout of %v", dead, took, recipetest.DefaultSessionTimeout)
				require.LessOrEqual(t, took, time.Duration(2*dead)*queue.Grace)
				recipetest.AckOn(t, it)
				for _, link := range links {
					link.Resume()
				}
			})
		})
	}
}

// The consumer that has the turn dies, and seconds later another one that has it. Those
// that have joined behind them do not know that both are dead.
func TestB96DeliveriesGoOnAfterTwoDeathsSecondsApart(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var links []*harness.Link
		got := make(chan string, 1000)
		for range 7 {
			q, link := w.ConsumerWithLink()
			links = append(links, link)
			recipetest.ServeLater(t, q, func(_ context.Context, it *zkrecipes.Item) error {
				got <- string(it.Data)
				return nil
			})
			synctest.Wait()
		}
		producer := w.Queue(w.Stranger(nil))
		deliver := func(n int) (longest time.Duration) {
			for i := range n {
				began := time.Now()
				recipetest.PutOn(t, producer, fmt.Sprint(i))
				<-got
				longest = max(longest, time.Since(began))
				time.Sleep(10 * time.Millisecond)
			}
			return longest
		}
		deliver(20)
		time.Sleep(time.Second)
		links[0].Stop()
		first := deliver(150)
		links[1].Stop()
		second := deliver(150)
		t.Logf("longest gaps: %v and %v", first, second)
		require.LessOrEqual(t, first, 4*queue.Grace)
		require.LessOrEqual(t, second, 4*queue.Grace)
		for _, link := range links[:2] {
			link.Resume()
		}
	})
}

// A consumer that was far behind when it listed the line has come nearer since.
func TestB96TwoDeadHoldUpNobodyThatHasWaitedInALongLine(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var calls []*harness.Call[*zkrecipes.Item]
		var links []*harness.Link
		for range 2*queue.Lookers + 3 {
			q, link := w.ConsumerWithLink()
			calls, links = append(calls, w.TakeLater(q)), append(links, link)
		}
		time.Sleep(time.Second)
		producer := w.Queue(w.Stranger(nil))
		for _, a := range calls[:2*queue.Lookers] {
			recipetest.PutOn(t, producer, "x")
			recipetest.AckOn(t, a.Get())
			time.Sleep(time.Second)
		}
		for _, link := range links[2*queue.Lookers : 2*queue.Lookers+2] {
			link.Stop()
		}
		began := time.Now()
		recipetest.PutOn(t, producer, "x")
		recipetest.AckOn(t, calls[2*queue.Lookers+2].Get())
		took := time.Since(began)
		t.Logf("it took %v", took)
		require.LessOrEqual(t, took, 2*queue.Lookers*queue.Grace)
		for _, link := range links {
			link.Resume()
		}
	})
}

// A head that is alive gets its items before the second in line takes them.
func TestSecondInLineLeavesItemsToTheFirstForAGrace(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		first, link := w.ConsumerWithLink()
		a := w.TakeLater(first)
		b := w.TakeLater(w.Queue(w.Stranger(nil)))
		time.Sleep(time.Second)
		link.SetLatency(queue.Grace / 4)
		recipetest.PutOn(t, w.Queue(w.Stranger(nil)), "x")
		recipetest.AckOn(t, a.Get())
		synctest.Wait()
		require.True(t, b.Waiting())
	})
}

// The deadline is shorter than a round trip. Each item is handed out in the end, and no
// attempt is counted for a Take that returned none.
func TestB80TakesWithDeadlinesShorterThanARoundTripGetTheirItems(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		recipetest.PutOn(t, w.Queue(w.Stranger(nil)), recipetest.Names(10)...)
		q, link := w.ConsumerWithLink()
		recipetest.QueueOf(q).Opts.MaxAttempts = 1
		link.SetLatency(150 * time.Millisecond)
		var got []string
		for tries := 0; len(got) < 10; tries++ {
			require.Less(t, tries, 1000)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			it, err := q.Take(ctx)
			cancel()
			if err != nil {
				require.ErrorIs(t, err, context.DeadlineExceeded)
				continue
			}
			require.Equal(t, 1, it.Attempt)
			got = append(got, string(it.Data))
			recipetest.AckOn(t, it)
		}
		require.Equal(t, recipetest.Names(10), got)
		require.Empty(t, w.Srv.Children(w.Path+"-dead"))
	})
}

func TestTryTakeReturnsErrEmptyInsteadOfWaiting(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		q := w.Queue(c)
		_, err := q.TryTake(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrEmpty)
		requests := w.Requests(func() {
			for range 10 {
				_, err := q.TryTake(t.Context())
				require.ErrorIs(t, err, zkrecipes.ErrEmpty)
			}
		})
		require.Empty(t, requests, "nothing has changed")
		recipetest.PutOn(t, q, "0", "1")
		it, err := q.TryTake(t.Context())
		require.NoError(t, err)
		require.Equal(t, "0", string(it.Data))
		require.Positive(t, it.Token())
		second, err := q.TryTake(t.Context())
		require.NoError(t, err)
		require.Equal(t, "1", string(second.Data))
		require.Greater(t, second.Token(), it.Token())
		_, err = q.TryTake(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrEmpty)
		recipetest.NackOn(t, it)
		it, err = q.TryTake(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2, it.Attempt)
		recipetest.AckOn(t, it)
		recipetest.AckOn(t, second)
	})
}

// An item that was taken too often goes to the dead letters, and TryTake gets the next.
func TestTryTakeMovesItemsTakenTooOftenToTheDeadLetters(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(nil))
		recipetest.QueueOf(q).Opts.MaxAttempts = 1
		recipetest.PutOn(t, q, "0", "1")
		it, err := q.TryTake(t.Context())
		require.NoError(t, err)
		recipetest.NackOn(t, it)
		it, err = q.TryTake(t.Context())
		require.NoError(t, err)
		require.Equal(t, "1", string(it.Data))
		recipetest.AckOn(t, it)
		require.Equal(t, []string{"0"}, recipetest.Drain(t, zkrecipes.NewQueue(recipetest.ClientOf(recipetest.QueueOf(q).Client), w.Path+"-dead", &zkrecipes.QueueOptions{MaxAttempts: -1})))
	})
}

func TestTakeNClaimsWhatIsFreeInOneTransaction(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(nil))
		recipetest.Warm(t, q)
		recipetest.PutOn(t, w.Queue(w.Stranger(nil)), recipetest.Names(7)...)
		for _, want := range [][]string{recipetest.Names(7)[:5], recipetest.Names(7)[5:]} {
			var items []*zkrecipes.Item
			before := w.Srv.Counts()
			items, err := q.TakeN(t.Context(), 5)
			require.NoError(t, err)
			require.Equal(t, 1, w.Srv.Counts().Sub(before).Transactions)
			var got []string
			for _, it := range items {
				require.NoError(t, it.Err())
				require.Equal(t, 1, it.Attempt)
				got = append(got, string(it.Data))
				recipetest.AckOn(t, it)
			}
			require.Equal(t, want, got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := q.TakeN(ctx, 5)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		for _, n := range []int{0, -1} {
			_, err = q.TakeN(t.Context(), n)
			require.ErrorContains(t, err, fmt.Sprintf("%d items", n))
		}
	})
}

// The workers of a Client share a place in the line, and one transaction claims for all
// that are free.
func TestWorkersOfAClientShareAPlaceAndAClaim(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(nil))
		recipetest.QueueOf(q).Opts.Workers = 8
		release := make(chan struct{})
		a := recipetest.ServeLater(t, q, func(_ context.Context, it *zkrecipes.Item) error {
			<-release
			return nil
		})
		synctest.Wait()
		require.Len(t, w.Srv.Children(w.Path+"/line"), 1)
		before := w.Srv.Counts()
		_, err := w.Queue(w.Stranger(nil)).PutAll(t.Context(), make([][]byte, 8)...)
		require.NoError(t, err)
		synctest.Wait()
		counts := w.Srv.Counts().Sub(before)
		require.Equal(t, 1, counts.Requests["multi(create,create,create,create,create,create,create,create,create,create,create,create,create,create,create,create,setData,delete)"], "%v", counts.Requests)
		require.Len(t, w.Flags(), 8)
		close(release)
		synctest.Wait()
		require.Empty(t, w.Items())
		require.Len(t, w.Srv.Children(w.Path+"/line"), 1)
		require.NoError(t, stop(a))
		synctest.Wait()
		require.Empty(t, w.Srv.Children(w.Path+"/line"))
	})
}

// A place without takers is kept for a moment and then deleted.
func TestPlaceOfACancelledTakeIsDeleted(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(nil))
		a := w.TakeLater(q)
		require.Len(t, w.Srv.Children(w.Path+"/line"), 1)
		a.Cancel(nil)
		_, err := a.Wait()
		require.ErrorIs(t, err, context.Canceled)
		time.Sleep(2 * queue.Linger)
		synctest.Wait()
		require.Empty(t, w.Srv.Children(w.Path+"/line"))
		pools := queue.PoolsOf(recipetest.QueueOf(q).Client)
		pools.Mu.Lock()
		require.Empty(t, pools.All)
		pools.Mu.Unlock()
	})
}

// Several calls of one Client are served in the order in which they came.
func TestTakesOfOneClientAreServedInOrder(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(nil))
		var calls []*harness.Call[*zkrecipes.Item]
		for range 5 {
			calls = append(calls, w.TakeLater(q))
		}
		calls[1].Cancel(nil)
		_, err := calls[1].Wait()
		require.ErrorIs(t, err, context.Canceled)
		recipetest.PutOn(t, w.Queue(w.Stranger(nil)), recipetest.Names(4)...)
		for i, k := range []int{0, 2, 3, 4} {
			it := calls[k].Get()
			require.Equal(t, fmt.Sprint(i), string(it.Data))
			recipetest.AckOn(t, it)
		}
	})
}
