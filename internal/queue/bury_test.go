package queue_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Operators bury items, also those that consumers have.

// An item whose consumer hangs becomes a dead letter. The consumer's context ends, its Ack
// says that the item is gone, and the next Take gets the item behind it.
func TestBuryTakesAnItemFromItsConsumer(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, operator := w.Queue(w.Stranger(&zkrecipes.Options{Identity: "worker"})), w.Queue(w.Stranger(&zkrecipes.Options{Identity: "operator"}))
		ids := recipetest.PutOn(t, q, "hangs", "next")
		recipetest.NackOn(t, recipetest.TakeOn(t, q))
		it := recipetest.TakeOn(t, q)
		ctx := it.Context(t.Context())
		require.NoError(t, operator.Bury(t.Context(), ids[0]))
		require.Equal(t, []string{"next"}, listed(t, q))
		require.Empty(t, w.Flags())

		<-ctx.Done()
		synctest.Wait()
		require.ErrorIs(t, context.Cause(ctx), zkrecipes.ErrLost)
		require.ErrorIs(t, context.Cause(ctx), zkrecipes.ErrItemGone)
		err := it.Ack(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrLost)
		require.ErrorIs(t, err, zkrecipes.ErrItemGone)
		require.ErrorIs(t, it.Nack(t.Context()), zkrecipes.ErrItemGone)
		require.ErrorIs(t, it.Ack(ctx), zkrecipes.ErrItemGone)

		letter := recipetest.TakeOn(t, q.DeadLetters())
		require.Equal(t, ids[0], letter.ID)
		require.Equal(t, "hangs", string(letter.Data))
		require.Equal(t, zkrecipes.Failure{Queue: w.Path, Attempts: 2, Text: "buried by operator while worker had it"}, letter.Failure)
		recipetest.NackOn(t, letter)
		require.Equal(t, []string{"next"}, recipetest.Drain(t, q))
		require.Equal(t, 1, redrive(t, q, 9))
		require.Equal(t, []string{"hangs"}, recipetest.Drain(t, q))
		w.OneSegment(q)
	})
}

// The consumer acks before an event has told it: the servers refuse that.
func TestAckOfAnItemThatWasBuriedSaysThatItIsGone(t *testing.T) {
	recipetest.EachInBubble(t, map[string]func(*testing.T, *zkrecipes.Item) error{
		"Ack": func(t *testing.T, it *zkrecipes.Item) error { return it.Ack(t.Context()) },
		"with ops": func(t *testing.T, it *zkrecipes.Item) error {
			return it.Ack(t.Context(), zkrecipes.OpCreate("/x", nil, 0, nil))
		},
		"Nack": func(t *testing.T, it *zkrecipes.Item) error { return it.Nack(t.Context()) },
		"at once after the event": func(t *testing.T, it *zkrecipes.Item) error {
			<-it.Context(t.Context()).Done()
			return it.Ack(t.Context())
		},
	}, func(t *testing.T, w *recipetest.World, end func(*testing.T, *zkrecipes.Item) error) {
		q := w.Queue(w.Stranger(nil))
		ids := recipetest.PutOn(t, q, "x")
		it := recipetest.TakeOn(t, q)
		require.NoError(t, w.Queue(w.Stranger(nil)).Bury(t.Context(), ids[0]))
		err := end(t, it)
		require.ErrorIs(t, err, zkrecipes.ErrLost)
		require.ErrorIs(t, err, zkrecipes.ErrItemGone)
		require.NotContains(t, w.Srv.Children("/"), "x")
		require.Equal(t, []string{"x"}, recipetest.Drain(t, q.DeadLetters()))
	})
}

func TestBuryOfAnItemThatNobodyHas(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, operator := w.Small(2, nil), w.Queue(w.Sealing(2, &zkrecipes.Options{Identity: "operator"}))
		ids := recipetest.PutOn(t, q, recipetest.Names(5)...)
		require.Empty(t, recipetest.Drain(t, q.DeadLetters()), "there are none yet, which is no error")
		require.NoError(t, operator.Bury(t.Context(), ids[2]))
		require.NoError(t, operator.Bury(t.Context(), ids[3]))
		require.Equal(t, []string{"0", "1", "4"}, listed(t, q))
		require.NotContains(t, w.Srv.Children(w.Path+"/s"), "0000000001", "the segment that it has emptied is gone")
		require.Equal(t, []string{"2", "3"}, listed(t, q.DeadLetters()))
		require.Equal(t, "buried by operator", failures(t, q)[0].Text)
		require.Zero(t, failures(t, q)[0].Attempts)

		err := operator.Bury(t.Context(), ids[2])
		require.ErrorIs(t, err, zkrecipes.ErrItemGone)
		require.EqualError(t, err, "zkrecipes: bury an item of "+w.Path+": no such item")
		require.EqualError(t, q.DeadLetters().Bury(t.Context(), ids[2]), "zkrecipes: bury an item of "+w.Path+"-dead: these are dead letters")
		require.ErrorIs(t, zkrecipes.NewQueue(w.ClientOf(q), "/next", nil).Bury(t.Context(), ids[0]), zkrecipes.ErrItemGone, "no queue")
		require.NotContains(t, w.Srv.Children("/"), "next", "nothing was created")
	})
}

// While Bury's transaction is under way, the item is acked, given back, or taken by another
// consumer. Bury ends the claim that there is then, and no other one.
func TestBuryOfAnItemThatChangesHandsMeanwhile(t *testing.T) {
	recipetest.EachInBubble(t, map[string]bool{"taken": true, "free": false}, func(t *testing.T, w *recipetest.World, taken bool) {
		q, other := w.Queue(w.Stranger(nil)), w.Queue(w.Stranger(&zkrecipes.Options{Identity: "other"}))
		operator := w.Queue(w.Stranger(&zkrecipes.Options{Identity: "operator"}))
		bury := func(id zkrecipes.ItemID, meanwhile func()) error {
			w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "multi", Path: w.Path + "-dead/*", For: time.Second})
			a := harness.GoErr(t, func(ctx context.Context) error { return operator.Bury(ctx, id) })
			time.Sleep(time.Second / 2)
			meanwhile()
			_, err := a.Wait()
			return err
		}
		recipetest.PutOn(t, operator.DeadLetters(), "warm")
		for _, way := range []string{"another has it", "free again", "acked"} {
			ids := recipetest.PutOn(t, q, way)
			var it, now *zkrecipes.Item
			if taken {
				it = recipetest.TakeOn(t, q)
			}
			err := bury(ids[0], func() {
				if it == nil {
					it = recipetest.TakeOn(t, q)
				}
				switch way {
				case "another has it":
					recipetest.NackOn(t, it)
					now = recipetest.TakeOn(t, other)
				case "free again":
					recipetest.NackOn(t, it)
				case "acked":
					recipetest.AckOn(t, it)
				}
			})
			if way == "acked" {
				require.ErrorIs(t, err, zkrecipes.ErrItemGone)
				break
			}
			require.NoError(t, err)
			if now != nil {
				time.Sleep(time.Minute)
				require.Error(t, now.Err())
				require.ErrorIs(t, now.Ack(t.Context()), zkrecipes.ErrItemGone)
			}
		}
		require.Empty(t, w.Items())
		require.Empty(t, w.Flags())
		told := failures(t, q)
		require.Equal(t, zkrecipes.Failure{Queue: w.Path, Attempts: 2, Text: "buried by operator while other had it"}, told[1])
		require.Equal(t, "buried by operator", told[2].Text)
		require.Equal(t, []string{"warm", "another has it", "free again"}, recipetest.Drain(t, q.DeadLetters()))
	})
}

// A consumer takes the item between Bury's reads. The letter counts that claim, too, which Bury ends.
func TestBuryCountsTheClaimThatItEnds(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, operator := w.Queue(w.Stranger(&zkrecipes.Options{Identity: "consumer"})), w.Queue(w.Stranger(&zkrecipes.Options{Identity: "operator"}))
		ids := recipetest.PutOn(t, q, "x")
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "getData", Path: w.Items()[0] + "*", Skip: 1, For: time.Second})
		a := harness.GoErr(t, func(ctx context.Context) error { return operator.Bury(ctx, ids[0]) })
		time.Sleep(time.Second / 2)
		recipetest.TakeOn(t, q)
		_, err := a.Wait()
		require.NoError(t, err)
		require.Equal(t, []zkrecipes.Failure{{Queue: w.Path, Attempts: 1, Text: "buried by operator while consumer had it"}}, failures(t, q))
	})
}

// Somebody has deleted a consumer's flag. What is left of its claim could be the next one's by the
// time that it is deleted.
func TestBuryWaitsForTheRestOfAClaim(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, operator, conn := w.Queue(w.Stranger(nil)), w.Queue(w.Stranger(&zkrecipes.Options{Identity: "operator"})), w.Bare()
		ids := recipetest.PutOn(t, q, "x")
		it := recipetest.TakeOn(t, q)
		parts["flag"].remove(t, w, conn)
		a := harness.GoErr(t, func(ctx context.Context) error { return operator.Bury(ctx, ids[0]) })
		synctest.Wait()
		require.True(t, a.Waiting())
		recipetest.Cancels(t, harness.GoErr(t, func(ctx context.Context) error { return operator.Bury(ctx, ids[0]) }))
		require.ErrorIs(t, it.Nack(t.Context()), zkrecipes.ErrLost)
		_, err := a.Wait()
		require.NoError(t, err)
		require.Equal(t, "buried by operator", failures(t, q)[0].Text, "nobody had it")
	})
}
