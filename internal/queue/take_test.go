package queue_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/queue"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Items that are taken for long keep their segments. A take does not list each of these.
func TestTakesDoNotListSegmentsInWhichNothingIsFreeAgainAndAgain(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		const old, n = 20, 100
		producer, slow, q := w.Small(10, nil), w.Small(10, nil), w.Small(10, nil)
		recipetest.PutAllOn(t, producer, 0, old*10+n)
		var held []*zkrecipes.Item
		for i := range old * 10 {
			it := recipetest.TakeOn(t, slow)
			if i%10 == 0 {
				held = append(held, it)
			} else {
				recipetest.AckOn(t, it)
			}
		}
		const each = 15
		all := []*zkrecipes.Queue{q, w.Queue(w.Stranger(nil)), w.Queue(w.Stranger(nil))}
		take := func(n int) {
			var calls []*harness.Call[struct{}]
			for _, q := range all {
				calls = append(calls, harness.GoErr(t, func(context.Context) error {
					for range n {
						recipetest.AckedOn(t, q)
					}
					return nil
				}))
			}
			for _, call := range calls {
				call.Get()
			}
		}
		take(3) // the first ones set the watches
		listings := w.Requests(func() { take(each) })["getChildren2"]
		require.LessOrEqual(t, listings, 3*each*4, "of %d old segments", old)

		// What comes back in one of them is taken first, whether the consumer sleeps or not.
		time.Sleep(time.Minute) // until then it expects that others take, too
		id := held[7].ID
		recipetest.NackOn(t, held[7])
		synctest.Wait()
		it := recipetest.TakeOn(t, q)
		require.Equal(t, id, it.ID)
		recipetest.AckOn(t, it)
		for range n - 3*(3+each) {
			recipetest.AckedOn(t, q)
		}
		a := w.TakeLater(q)
		time.Sleep(time.Minute)
		require.True(t, a.Waiting())
		id = held[3].ID
		recipetest.NackOn(t, held[3])
		require.Equal(t, id, a.Get().ID)
	})
}

// handle serves until n items have succeeded, and returns how long that took. Those whose data
// are "bad" fail.
func handle(t *testing.T, q *zkrecipes.Queue, n int, each func(it *zkrecipes.Item)) time.Duration {
	all, began, good := make(chan struct{}), time.Now(), 0
	a := recipetest.ServeLater(t, q, func(_ context.Context, it *zkrecipes.Item) error {
		each(it)
		if string(it.Data) == "bad" {
			return recipetest.ErrHandler
		}
		if good++; good == n {
			close(all)
		}
		return nil
	})
	<-all
	took := time.Since(began)
	require.NoError(t, stop(a))
	return took
}

// However many items always fail, fewer than a thousand are parked, and the others go on.
func TestParkedItemsAreBounded(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		const n = queue.MaxParked + 100
		_, err := w.Queue(w.Stranger(nil)).PutAll(t.Context(), slices.Repeat(bytesOf("bad", "good"), n)...)
		require.NoError(t, err)
		q, link := w.ConsumerWithLink()
		link.SetLatency(time.Millisecond)
		q = w.QueueWith(w.ClientOf(q), hourly(1))
		most := 0
		took := handle(t, q, n, func(*zkrecipes.Item) {
			most = max(most, len(w.Flags()))
		})
		t.Logf("%v, %d items were held at most", took, most)
		require.Less(t, took, time.Minute)
		require.Greater(t, most, queue.MaxParked*9/10, "the bound was met")
		require.LessOrEqual(t, most, queue.MaxParked)
	})
}

// One of three items is claimed, and no flag shows it. A session that does not know that yet passes
// over it, too.
func TestTakeNClaimsNoItemThatIsClaimedWithoutAFlag(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, other, conn := w.Queue(w.Stranger(nil)), w.Queue(w.Stranger(nil)), w.Bare()
		recipetest.PutOn(t, q, recipetest.Names(3)...)
		exclusion := w.Foreign(conn, w.Items()[1], queuelog.ClaimName[1:])
		items := takeN(t, q, 3)
		require.Len(t, items, 2)
		for i, it := range items {
			require.Equal(t, []string{"0", "2"}[i], string(it.Data))
			recipetest.NackOn(t, it)
		}
		for _, want := range []string{"0", "2"} {
			it, err := other.TryTake(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, string(it.Data))
			recipetest.AckOn(t, it)
		}
		_, err := other.TryTake(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrEmpty)
		require.NoError(t, conn.Delete(exclusion, -1))
		require.Equal(t, []string{"1"}, recipetest.Drain(t, q))
	})
}

func TestNoItemIsDeliveredBeyondItsAttemptsIfTheDeadLettersFail(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := strict(w, 1)
		recipetest.PutOn(t, q, "0", "1")
		items := takeN(t, q, 2)
		require.Len(t, items, 2)
		require.Greater(t, items[1].Token(), items[0].Token())
		for _, it := range items {
			recipetest.NackOn(t, it)
		}
		w.SpoilDeadLetters()
		items, err := q.TakeN(t.Context(), 2)
		require.ErrorIs(t, err, zkrecipes.ErrPathInUse)
		require.Empty(t, items)
		time.Sleep(time.Minute) // they are given back
		it, err := q.TryTake(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrPathInUse)
		require.Nil(t, it)
	})
}

// Two values of Queue with the same path have other options. An error that concerns
// one is not the other's.
func TestErrorOfOneTakerIsNotAnothers(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		strict, lenient := w.QueueWith(c, &zkrecipes.QueueOptions{MaxAttempts: 1}), w.QueueWith(c, &zkrecipes.QueueOptions{MaxAttempts: -1})
		recipetest.PutOn(t, strict, "0")
		recipetest.NackOn(t, recipetest.TakeOn(t, strict))
		w.SpoilDeadLetters()
		held := recipetest.TakeOn(t, lenient)
		a, b := w.TakeLater(strict), w.TakeLater(lenient)
		recipetest.NackOn(t, held)
		_, err := a.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrPathInUse)
		recipetest.AckOn(t, b.Get())
	})
}

// One request has room for some of the items only.
func TestTakeNClaimsAsManyItemsAsARequestHasRoomFor(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(&zkrecipes.Options{Identity: strings.Repeat("i", 12_000)}))
		recipetest.PutOn(t, q, recipetest.Names(95)...)
		var got []string
		for len(got) < 95 {
			items := takeN(t, q, 95)
			if len(got) == 0 {
				require.Greater(t, len(items), 50)
			}
			for _, it := range items {
				got = append(got, string(it.Data))
				recipetest.AckOn(t, it)
			}
		}
		require.Equal(t, recipetest.Names(95), got)
	})
}

// Serve's context ends while its claim is under way.
func TestServeBeginsNoHandlerOnceItsContextHasEnded(t *testing.T) {
	for d := 10 * time.Millisecond; d < 500*time.Millisecond; d += 20 * time.Millisecond {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			q, link := w.ConsumerWithLink()
			late := false
			a := harness.GoErr(t, func(ctx context.Context) error {
				return q.Serve(ctx, func(context.Context, *zkrecipes.Item) error {
					late = ctx.Err() != nil
					return nil
				})
			})
			synctest.Wait()
			time.Sleep(time.Second)
			link.SetLatency(100 * time.Millisecond)
			recipetest.PutOn(t, w.Queue(w.Stranger(nil)), "x")
			time.Sleep(d)
			require.NoError(t, stop(a))
			require.False(t, late, "%v", d)
		})
	}
}

// A claim ends just as its item is handed out. Either no consumer gets the item, or that was an
// attempt: no consumer sees an attempt that another one has seen.
func TestAnAttemptIsSeenOnce(t *testing.T) {
	recipetest.EachInBubble(t, map[string]bool{"ended before": false, "ended after": true}, func(t *testing.T, w *recipetest.World, after bool) {
		q := engine(w.NewCore(), w.Path, queue.Options{})
		recipetest.PutOn(t, w.Queue(w.Stranger(nil)), "x")
		items, err := q.Take(t.Context(), 1)
		require.NoError(t, err)
		it := items[0]
		if after {
			require.True(t, it.Seen())
		}
		require.NoError(t, it.Handle.Release())
		synctest.Wait()
		seen := 0
		if it.Seen() {
			seen = it.Claim.Attempt
		}
		next := recipetest.TakeOn(t, w.Queue(w.Stranger(nil)))
		require.Equal(t, seen+1, next.Attempt)
		require.Equal(t, after, seen == 1)
	})
}

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
		q := w.Distant(20*time.Millisecond, &zkrecipes.QueueOptions{MaxAttempts: 1000})
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

const (
	roundTrip = 150 * time.Millisecond
	near      = 2 * time.Millisecond
	far       = 30 * time.Millisecond
)

// Consumers with one worker each, which do not wait for each other. One that is far away costs the near
// ones at most half, and gets items itself.
func TestConsumersOfOneWorkerDoNotWaitForEachOther(t *testing.T) {
	var alone int // those that are near
	eachOf(t, []time.Duration{near, far}, func(t *testing.T, w *recipetest.World, roundTrip time.Duration) {
		each, total, overtaken := w.Rates(roundTrip, roundTrip, roundTrip, roundTrip)
		if roundTrip == near {
			alone = total
		}
		t.Logf("four at %v: %v, %d items/s together; half of the items are overtaken by %d at most", roundTrip, each, total, overtaken[len(overtaken)/2])
		require.Greater(t, float64(total)*roundTrip.Seconds(), 1.0, "items in a round trip")
		require.Less(t, overtaken[len(overtaken)*9/10], 60, "nine of ten items are overtaken by fewer")
	})
	eachOf(t, [][]time.Duration{{far}, {far, far}}, func(t *testing.T, w *recipetest.World, others []time.Duration) {
		each, total, _ := w.Rates(append([]time.Duration{near, near, near, near}, others...)...)
		t.Logf("four at %v and %v: %v, %d items/s together", near, others, each, total)
		require.GreaterOrEqual(t, each[0]+each[1]+each[2]+each[3], alone/2)
		for i, roundTrip := range others {
			// Alone it would take one in three round trips.
			require.Greater(t, float64(each[4+i])*roundTrip.Seconds(), 0.03, "items in a round trip of its own")
		}
	})
}

// The near one takes the first item, again and again, while the far one's claim of it is on its way.
func TestAFarConsumerChoosesAtItsTurnOnceOthersWereQuicker(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, link := w.ConsumerWithLink()
		far := w.TakeLater(q)
		require.Len(t, w.Srv.Children(w.Path+"/line"), 1, "it is the first in line")
		link.SetLatency(roundTrip)
		near := w.Queue(w.Stranger(nil))
		recipetest.PutAllOn(t, near, 0, 1000)
		for range 500 { // 100 round trips
			it := recipetest.TakeOn(t, near)
			time.Sleep(roundTrip / 5)
			recipetest.AckOn(t, it)
		}
		require.False(t, far.Waiting())
		require.NotEmpty(t, w.Items(), "there was a backlog all the time")
		recipetest.AckOn(t, far.Get())
	})
}
