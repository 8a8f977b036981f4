package queue_test

import (
	"context"
	"fmt"
	"strings"
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
// expires. The others do not wait for that: each one that is killed costs some patience, once.
func TestDeliveriesGoOnWhenSeveralAtTheHeadAreDead(t *testing.T) {
	for _, dead := range []int{1, 2} {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			for range dead {
				q, link := w.ConsumerWithLink()
				w.TakeLater(q)
				time.AfterFunc(time.Second, link.Stop)
				defer link.Resume()
			}
			q := w.Queue(w.Stranger(nil))
			live := w.TakeLater(q)
			time.Sleep(2 * time.Second)
			producer, began := w.Queue(w.Stranger(nil)), time.Now()
			recipetest.PutOn(t, producer, "x")
			recipetest.AckOn(t, live.Get())
			t.Logf("%d killed at once: %v at a session timeout of %v", dead, time.Since(began), recipetest.DefaultSessionTimeout)
			require.LessOrEqual(t, time.Since(began), time.Duration(dead)*time.Second)
			slow := 0
			for range 20 {
				next := w.TakeLater(q)
				began := time.Now()
				recipetest.PutOn(t, producer, "x")
				recipetest.AckOn(t, next.Get())
				if time.Since(began) >= queue.ItemPatience {
					slow++
				}
			}
			require.LessOrEqual(t, slow, 2*dead, "nobody waits for the dead again and again")
		})
	}
}

func TestDebugRecordsTellWhoLeavesAnItemUnused(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		first, link := w.ConsumerWithLink()
		w.TakeLater(first)
		time.Sleep(time.Second)
		link.Stop()
		defer link.Resume()
		var log recipetest.Warnings
		live := w.TakeLater(w.Queue(w.Stranger(&zkrecipes.Options{Logger: log.Verbose()})))
		time.Sleep(time.Second)
		waits := log.With(`msg="place waits in the line of a queue"`)
		require.Len(t, waits, 1)
		require.Contains(t, waits[0], "looks=true")
		_, dead, _ := strings.Cut(strings.TrimSpace(waits[0]), " first=")
		dead, _, _ = strings.Cut(dead, " ")
		recipetest.PutOn(t, w.Queue(w.Stranger(nil)), "x")
		recipetest.AckOn(t, live.Get())
		unused := log.With(`msg="first in the line of a queue leaves something unused"`)
		require.Len(t, unused, 1)
		require.Contains(t, unused[0], "first="+dead)
	})
}

// The consumer that has the turn dies, and seconds later another one that has it. Those
// that have joined behind them do not know that both are dead.
func TestDeliveriesGoOnAfterTwoDeathsSecondsApart(t *testing.T) {
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
		require.LessOrEqual(t, first, time.Second)
		require.LessOrEqual(t, second, 2*time.Second)
		for _, link := range links[:2] {
			link.Resume()
		}
	})
}

// A consumer that was far behind when it listed the line has come nearer since.
func TestTwoDeadHoldUpNobodyThatHasWaitedInALongLine(t *testing.T) {
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
		require.LessOrEqual(t, took, 2*time.Second)
		for _, link := range links {
			link.Resume()
		}
	})
}

// The second in a line of four gives up, and the first and the third die. The fourth was too far behind to
// look before.
func TestTwoDeadHoldUpNobodyAlthoughOneBetweenThemHasLeft(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var calls []*harness.Call[*zkrecipes.Item]
		var links []*harness.Link
		for range queue.Lookers + 1 {
			q, link := w.ConsumerWithLink()
			calls, links = append(calls, w.TakeLater(q)), append(links, link)
		}
		time.Sleep(time.Second)
		recipetest.Cancels(t, calls[1])
		time.Sleep(time.Second)
		links[0].Stop()
		links[2].Stop()
		began := time.Now()
		recipetest.PutOn(t, w.Queue(w.Stranger(nil)), "x")
		recipetest.AckOn(t, calls[3].Get())
		require.LessOrEqual(t, time.Since(began), time.Second)
		links[0].Resume()
		links[2].Resume()
	})
}

// A head that is alive gets its items before the second in line takes them.
func TestSecondInLineLeavesItemsToTheFirstForAGrace(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		first, link := w.ConsumerWithLink()
		a := w.TakeLater(first)
		b := w.TakeLater(w.Queue(w.Stranger(nil)))
		time.Sleep(time.Second)
		link.SetLatency(queue.ItemPatience / 4)
		recipetest.PutOn(t, w.Queue(w.Stranger(nil)), "x")
		recipetest.AckOn(t, a.Get())
		synctest.Wait()
		require.True(t, b.Waiting())
	})
}

func TestTryTakeReturnsErrEmptyInsteadOfWaiting(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(nil))
		empty := func() {
			t.Helper()
			_, err := q.TryTake(t.Context())
			require.ErrorIs(t, err, zkrecipes.ErrEmpty)
		}
		empty()
		require.Empty(t, w.Requests(func() { empty(); empty() }), "nothing has changed")
		recipetest.PutOn(t, q, "0", "1")
		var items []*zkrecipes.Item
		for _, want := range recipetest.Names(2) {
			it, err := q.TryTake(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, string(it.Data))
			items = append(items, it)
		}
		require.Positive(t, items[0].Token())
		require.Greater(t, items[1].Token(), items[0].Token())
		empty()
		recipetest.NackOn(t, items[0])
		it, err := q.TryTake(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2, it.Attempt)
	})
}

func TestTakeNClaimsWhatIsFreeInOneTransaction(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(nil))
		recipetest.Warm(t, q)
		recipetest.PutOn(t, w.Queue(w.Stranger(nil)), recipetest.Names(7)...)
		for _, want := range [][]string{recipetest.Names(7)[:5], recipetest.Names(7)[5:]} {
			before := w.Srv.Counts()
			items := takeN(t, q, 5)
			require.Equal(t, 1, w.Srv.Counts().Sub(before).Transactions)
			require.Len(t, items, len(want))
			for i, it := range items {
				require.Equal(t, 1, it.Attempt)
				require.Equal(t, want[i], string(it.Data))
				recipetest.AckOn(t, it)
			}
		}
		_, err := q.TakeN(harness.Within(t, time.Second), 5)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		for _, n := range []int{0, -1} {
			_, err = q.TakeN(t.Context(), n)
			require.ErrorContains(t, err, fmt.Sprintf("n is %d items: must be at least 1", n))
		}
	})
}

// The workers of a Client share a place in the line, and one transaction claims for all
// that are free.
func TestWorkersOfAClientShareAPlaceAndAClaim(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		core, release := w.NewCore(), make(chan struct{})
		a := harness.GoErr(t, func(ctx context.Context) error {
			return engine(core, w.Path, queue.Options{Workers: 8}).Serve(ctx, func(context.Context, *queue.Item) error {
				<-release
				return nil
			})
		})
		synctest.Wait()
		require.Len(t, w.Srv.Children(w.Path+"/line"), 1)
		before := w.Srv.Counts()
		recipetest.PutAllOn(t, w.Queue(w.Stranger(nil)), 0, 8)
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
		pools := queue.PoolsOf(core.Client)
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
		recipetest.Cancels(t, calls[1])
		recipetest.PutOn(t, w.Queue(w.Stranger(nil)), recipetest.Names(4)...)
		for i, k := range []int{0, 2, 3, 4} {
			it := calls[k].Get()
			require.Equal(t, fmt.Sprint(i), string(it.Data))
			recipetest.AckOn(t, it)
		}
	})
}
