package queue_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/queue"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// One of three items is claimed, and no flag shows it.
func TestTakeNClaimsNoItemThatIsClaimedWithoutAFlag(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, raw := w.Queue(w.Stranger(nil)), w.Bare()
		recipetest.PutOn(t, q, recipetest.Names(3)...)
		segment := w.Path + "/s/0000000000"
		exclusion := segment + "/" + queuelog.Entries(w.Srv.Children(segment))[1].Name + queuelog.ClaimName
		_, err := raw.Create(exclusion, nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		items, err := q.TakeN(t.Context(), 3)
		require.NoError(t, err)
		require.Len(t, items, 2)
		for i, it := range items {
			require.Equal(t, []string{"0", "2"}[i], string(it.Data))
			recipetest.AckOn(t, it)
		}
		require.NoError(t, raw.Delete(exclusion, -1))
		require.Equal(t, []string{"1"}, recipetest.Drain(t, q))
	})
}

func TestNoItemIsDeliveredBeyondItsAttemptsIfTheDeadLettersFail(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(nil))
		recipetest.QueueOf(q).Opts.MaxAttempts = 1
		recipetest.PutOn(t, q, "0", "1")
		items, err := q.TakeN(t.Context(), 2)
		require.NoError(t, err)
		require.Len(t, items, 2)
		require.Greater(t, items[1].Token(), items[0].Token())
		for _, it := range items {
			recipetest.NackOn(t, it)
		}
		w.SpoilDeadLetters()
		items, err = q.TakeN(t.Context(), 2)
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
		strict, lenient := w.Queue(c), w.Queue(c)
		recipetest.QueueOf(strict).Opts.MaxAttempts, recipetest.QueueOf(lenient).Opts.MaxAttempts = 1, -1
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
			items, err := q.TakeN(t.Context(), 95)
			require.NoError(t, err)
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

// A consumer that works for longer than the grace remembers that the head is dead.
func TestB79DeadHeadHoldsUpASlowConsumerOnce(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		dead, link := w.ConsumerWithLink()
		w.TakeLater(dead)
		time.Sleep(time.Second)
		link.Stop()
		recipetest.PutOn(t, w.Queue(w.Stranger(nil)), recipetest.Names(15)...)
		acked, late := time.Now(), 0
		handle(t, w.Queue(w.Stranger(nil)), 15, func(*zkrecipes.Item) {
			if time.Since(acked) >= queue.Grace {
				late++
			}
			time.Sleep(4 * queue.Grace)
			acked = time.Now()
		})
		require.Equal(t, 1, late)
		link.Resume()
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

// The claim ends while the ack that takes a place along is under way: that place is
// deleted, and no worker uses it.
func TestB77PlaceOfAnAckThatFailsIsNotUsed(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, link := w.ConsumerWithLink()
		items := make(chan *zkrecipes.Item, 2)
		a := recipetest.ServeLater(t, q, func(_ context.Context, it *zkrecipes.Item) error {
			items <- it
			return nil
		})
		synctest.Wait()
		time.Sleep(time.Second)
		link.SetLatency(50 * time.Millisecond)
		producer := w.Queue(w.Stranger(nil))
		recipetest.PutOn(t, producer, "x")
		it := <-items
		time.Sleep(10 * time.Millisecond)                                                // the ack is under way
		recipetest.HandleOf(recipetest.LeaseOf(it)).Grant.End(errs.Lost(errs.ErrSilent)) // as the session's clock does
		time.Sleep(time.Second)
		require.True(t, a.Waiting())
		recipetest.PutOn(t, producer, "y")
		require.Equal(t, "y", string((<-items).Data))
		time.Sleep(time.Second)
		require.NoError(t, stop(a))
	})
}
