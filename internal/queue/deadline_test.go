package queue_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Contexts that end while the servers take their time.

func TestAnItemThatWasClaimedForACallThatHasEndedIsTheNextOnes(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(nil))
		recipetest.Warm(t, q)
		recipetest.PutOn(t, q, "x")
		time.Sleep(time.Second)
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpClaimAlone, After: true, For: 100 * time.Millisecond})
		began, before := time.Now(), w.Srv.Counts()
		_, err := q.Take(harness.Within(t, 30*time.Millisecond))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 30*time.Millisecond, time.Since(began))
		it := recipetest.TakeOn(t, q)
		synctest.Wait()
		require.Equal(t, 1, w.Srv.Counts().Sub(before).Transactions, "the item is not given back and claimed again")
		require.Equal(t, 100*time.Millisecond, time.Since(began))
		require.Equal(t, 1, it.Attempt)
		recipetest.AckOn(t, it)
	})
}

// What was claimed for nobody is given back, whatever moment they end at.
func TestTakesWithDeadlinesOfAnyLengthUseUpNoAttempts(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Distant(20*time.Millisecond, 100)
		recipetest.QueueOf(q).Opts.MaxAttempts = 1000
		recipetest.PutOn(t, q, "x")
		taken, before := 0, w.Srv.Counts()
		for d := time.Millisecond; d < 150*time.Millisecond; d += 7 * time.Millisecond {
			for _, take := range []func(context.Context) (*zkrecipes.Item, error){q.Take, q.TryTake, q.Take} {
				if it, err := take(harness.Within(t, d)); err == nil {
					taken++
					require.Equal(t, taken, it.Attempt)
					recipetest.NackOn(t, it)
				}
			}
			time.Sleep(time.Second)
		}
		require.NotZero(t, taken)
		require.Empty(t, w.Flags())
		claims := w.Srv.Counts().Sub(before).Requests
		require.Greater(t, claims[claimOps[0]]+claims[claimOps[1]], taken, "some were for nobody")
		require.Equal(t, taken+1, recipetest.TakeOn(t, strict(w, 1000)).Attempt)
	})
}

func TestServeWaitsForAnAckNoLongerThanASessionTimeout(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(nil))
		recipetest.PutOn(t, q, "x")
		release := make(chan struct{})
		a := recipetest.ServeLater(t, q, func(context.Context, *zkrecipes.Item) error { <-release; return nil })
		time.Sleep(time.Second)
		a.Cancel(nil)
		time.Sleep(time.Hour)
		require.True(t, a.Waiting(), "for the handler")
		w.Plan.Add(zktest.Fault{Do: zktest.Answer, Code: -127, Times: -1})
		close(release)
		time.Sleep(recipetest.DefaultSessionTimeout - time.Second)
		require.True(t, a.Waiting(), "for the ack")
		time.Sleep(2 * time.Second)
		require.False(t, a.Waiting())
		w.Plan.Stop()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Empty(t, w.Items(), "it was acked in the background")
	})
}

// What gives such a claim back writes the item's data, for which the consumer's requests have no
// room.
func TestAnItemTooLargeForItsConsumerIsGivenBackAfterATakeThatHasEnded(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		recipetest.PutOn(t, w.Queue(w.Stranger(nil)), strings.Repeat("x", 20_000))
		q := w.Queue(w.Stranger(&zkrecipes.Options{MaxBuffer: 8 << 10}))
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpClaimAlone, After: true, For: 100 * time.Millisecond})
		_, err := q.Take(harness.Within(t, 30*time.Millisecond))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(time.Minute)
		require.Empty(t, w.Flags())
		require.Len(t, recipetest.Drain(t, w.Queue(w.Stranger(nil))), 1)
	})
}
