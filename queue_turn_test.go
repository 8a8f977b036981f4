package zkrecipes

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/queue"
)

// consumerWithLink returns a queue for a client whose process can be stopped.
func (w *world) consumerWithLink() (*Queue, *harness.Link) {
	link := harness.NewLink(w.srv)
	return w.queue(w.stranger(&Options{Dialer: link.Dial})), link
}

// A process that is killed keeps its place at the head of the line until its session
// expires. The others do not wait for that.
func TestB79ItemsAreDeliveredAlthoughTheHeadOfTheLineIsDead(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		dead, link := w.consumerWithLink()
		dead.itemQueue.Opts.Workers = 4
		serveLater(t, dead, func(context.Context, *Item) error { return nil })
		synctest.Wait()
		got := make(chan string, 100)
		for range 2 {
			serveLater(t, w.queue(w.stranger(nil)), func(_ context.Context, it *Item) error {
				got <- string(it.Data)
				return nil
			})
			synctest.Wait()
		}
		require.Len(t, w.srv.Children(w.path+"/line"), 3, "one place for each client, whatever its workers")
		time.Sleep(time.Second)
		link.Stop()
		producer := w.queue(w.stranger(nil))
		var gaps []time.Duration
		for i := range 20 {
			began := time.Now()
			putOn(t, producer, fmt.Sprint(i))
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
	inBubble(t, func(t *testing.T, w *world) {
		dead, link := w.consumerWithLink()
		w.takeLater(dead)
		line := w.srv.Children(w.path + "/line")
		require.Len(t, line, 1, "it is the first in line")
		time.Sleep(time.Second)
		link.Stop()
		producer, live := w.queue(w.stranger(nil)), w.queue(w.stranger(nil))
		_, err := producer.PutAll(t.Context(), make([][]byte, 300)...)
		require.NoError(t, err)
		began := time.Now()
		for range 50 {
			ackOn(t, takeOn(t, live))
		}
		took := time.Since(began)
		t.Logf("50 items took %v", took)
		require.Less(t, took, time.Second)
		require.Subset(t, w.srv.Children(w.path+"/line"), line, "it is still there")
		require.Len(t, w.items(), 250)
		link.Resume()
	})
}

// Several that are killed at once, at the head: each costs some graces.
func TestB96DeliveriesGoOnWhenSeveralAtTheHeadAreDead(t *testing.T) {
	for _, dead := range []int{2, 3, 5} {
		t.Run(fmt.Sprint(dead), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				var links []*harness.Link
				for range dead {
					q, link := w.consumerWithLink()
					w.takeLater(q)
					links = append(links, link)
				}
				live := w.takeLater(w.queue(w.stranger(nil)))
				time.Sleep(time.Second)
				for _, link := range links {
					link.Stop()
				}
				began := time.Now()
				putOn(t, w.queue(w.stranger(nil)), "x")
				it := live.Get()
				took := time.Since(began)
				t.Logf("%d killed at once: %v at a session timeout of %v", dead, took, defaultSessionTimeout)
				require.LessOrEqual(t, took, time.Duration(2*dead)*queue.Grace)
				ackOn(t, it)
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
	inBubble(t, func(t *testing.T, w *world) {
		var links []*harness.Link
		got := make(chan string, 1000)
		for range 7 {
			q, link := w.consumerWithLink()
			links = append(links, link)
			serveLater(t, q, func(_ context.Context, it *Item) error {
				got <- string(it.Data)
				return nil
			})
			synctest.Wait()
		}
		producer := w.queue(w.stranger(nil))
		deliver := func(n int) (longest time.Duration) {
			for i := range n {
				began := time.Now()
				putOn(t, producer, fmt.Sprint(i))
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
	inBubble(t, func(t *testing.T, w *world) {
		var calls []*harness.Call[*Item]
		var links []*harness.Link
		for range 2*queue.Lookers + 3 {
			q, link := w.consumerWithLink()
			calls, links = append(calls, w.takeLater(q)), append(links, link)
		}
		time.Sleep(time.Second)
		producer := w.queue(w.stranger(nil))
		for _, a := range calls[:2*queue.Lookers] {
			putOn(t, producer, "x")
			ackOn(t, a.Get())
			time.Sleep(time.Second)
		}
		for _, link := range links[2*queue.Lookers : 2*queue.Lookers+2] {
			link.Stop()
		}
		began := time.Now()
		putOn(t, producer, "x")
		ackOn(t, calls[2*queue.Lookers+2].Get())
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
	inBubble(t, func(t *testing.T, w *world) {
		first, link := w.consumerWithLink()
		a := w.takeLater(first)
		b := w.takeLater(w.queue(w.stranger(nil)))
		time.Sleep(time.Second)
		link.SetLatency(queue.Grace / 4)
		putOn(t, w.queue(w.stranger(nil)), "x")
		ackOn(t, a.Get())
		synctest.Wait()
		require.True(t, b.Waiting())
	})
}

// The deadline is shorter than a round trip. Each item is handed out in the end, and no
// attempt is counted for a Take that returned none.
func TestB80TakesWithDeadlinesShorterThanARoundTripGetTheirItems(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		putOn(t, w.queue(w.stranger(nil)), names(10)...)
		q, link := w.consumerWithLink()
		q.itemQueue.Opts.MaxAttempts = 1
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
			ackOn(t, it)
		}
		require.Equal(t, names(10), got)
		require.Empty(t, w.srv.Children(w.path+"-dead"))
	})
}

func TestTryTakeReturnsErrEmptyInsteadOfWaiting(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		q := w.queue(c)
		_, err := q.TryTake(t.Context())
		require.ErrorIs(t, err, ErrEmpty)
		requests := w.requests(func() {
			for range 10 {
				_, err := q.TryTake(t.Context())
				require.ErrorIs(t, err, ErrEmpty)
			}
		})
		require.Empty(t, requests, "nothing has changed")
		putOn(t, q, "0", "1")
		var it *Item
		requests = w.requests(func() { it, err = q.TryTake(t.Context()) })
		require.NoError(t, err)
		require.Equal(t, "0", string(it.Data))
		require.Positive(t, it.Token())
		require.Equal(t, map[string]int{"getChildren2": 1, "multi(create,create,setData)": 1, "getData": 1}, requests)
		second, err := q.TryTake(t.Context())
		require.NoError(t, err)
		require.Equal(t, "1", string(second.Data))
		require.Greater(t, second.Token(), it.Token())
		_, err = q.TryTake(t.Context())
		require.ErrorIs(t, err, ErrEmpty)
		nackOn(t, it)
		it, err = q.TryTake(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2, it.Attempt)
		ackOn(t, it)
		ackOn(t, second)
	})
}

// An item that was taken too often goes to the dead letters, and TryTake gets the next.
func TestTryTakeMovesItemsTakenTooOftenToTheDeadLetters(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue(w.stranger(nil))
		q.itemQueue.Opts.MaxAttempts = 1
		putOn(t, q, "0", "1")
		it, err := q.TryTake(t.Context())
		require.NoError(t, err)
		nackOn(t, it)
		it, err = q.TryTake(t.Context())
		require.NoError(t, err)
		require.Equal(t, "1", string(it.Data))
		ackOn(t, it)
		require.Equal(t, []string{"0"}, drain(t, NewQueue(clientOf(q.itemQueue.Client), w.path+"-dead", &QueueOptions{MaxAttempts: -1})))
	})
}

func TestTakeNClaimsWhatIsFreeInOneTransaction(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue(w.stranger(nil))
		warm(t, q)
		putOn(t, w.queue(w.stranger(nil)), names(7)...)
		for _, want := range [][]string{names(7)[:5], names(7)[5:]} {
			var items []*Item
			before := w.srv.Counts()
			items, err := q.TakeN(t.Context(), 5)
			require.NoError(t, err)
			require.Equal(t, 1, w.srv.Counts().Sub(before).Transactions)
			var got []string
			for _, it := range items {
				require.NoError(t, it.Err())
				require.Equal(t, 1, it.Attempt)
				got = append(got, string(it.Data))
				ackOn(t, it)
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
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue(w.stranger(nil))
		q.itemQueue.Opts.Workers = 8
		release := make(chan struct{})
		a := serveLater(t, q, func(_ context.Context, it *Item) error {
			<-release
			return nil
		})
		synctest.Wait()
		require.Len(t, w.srv.Children(w.path+"/line"), 1)
		before := w.srv.Counts()
		_, err := w.queue(w.stranger(nil)).PutAll(t.Context(), make([][]byte, 8)...)
		require.NoError(t, err)
		synctest.Wait()
		counts := w.srv.Counts().Sub(before)
		require.Equal(t, 1, counts.Requests["multi(create,create,create,create,create,create,create,create,create,create,create,create,create,create,create,create,setData,delete)"], "%v", counts.Requests)
		require.Len(t, w.flags(), 8)
		close(release)
		synctest.Wait()
		require.Empty(t, w.items())
		require.Len(t, w.srv.Children(w.path+"/line"), 1)
		require.NoError(t, stop(a))
		synctest.Wait()
		require.Empty(t, w.srv.Children(w.path+"/line"))
	})
}

// A place without takers is kept for a moment and then deleted.
func TestPlaceOfACancelledTakeIsDeleted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue(w.stranger(nil))
		a := w.takeLater(q)
		require.Len(t, w.srv.Children(w.path+"/line"), 1)
		a.Cancel(nil)
		_, err := a.Wait()
		require.ErrorIs(t, err, context.Canceled)
		time.Sleep(2 * queue.Linger)
		synctest.Wait()
		require.Empty(t, w.srv.Children(w.path+"/line"))
		pools := queue.PoolsOf(q.itemQueue.Client)
		pools.Mu.Lock()
		require.Empty(t, pools.All)
		pools.Mu.Unlock()
	})
}

// Several calls of one Client are served in the order in which they came.
func TestTakesOfOneClientAreServedInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue(w.stranger(nil))
		var calls []*harness.Call[*Item]
		for range 5 {
			calls = append(calls, w.takeLater(q))
		}
		calls[1].Cancel(nil)
		_, err := calls[1].Wait()
		require.ErrorIs(t, err, context.Canceled)
		putOn(t, w.queue(w.stranger(nil)), names(4)...)
		for i, k := range []int{0, 2, 3, 4} {
			it := calls[k].Get()
			require.Equal(t, fmt.Sprint(i), string(it.Data))
			ackOn(t, it)
		}
	})
}
