package queue_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Operators remove free items.

func TestRemoveRemovesAFreeItem(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Small(2, nil)
		ids := recipetest.PutOn(t, q, recipetest.Names(5)...)
		require.NoError(t, q.Remove(t.Context(), ids[2]))
		require.Equal(t, []string{"0", "1", "3", "4"}, listed(t, q))
		err := q.Remove(t.Context(), ids[2])
		require.ErrorIs(t, err, zkrecipes.ErrItemGone)
		require.EqualError(t, err, "zkrecipes: remove an item of "+w.Path+": no such item")
		require.ErrorIs(t, q.Remove(t.Context(), "x"), zkrecipes.ErrItemGone)
		require.ErrorIs(t, w.Queue(w.Stranger(nil)).Remove(t.Context(), ""), zkrecipes.ErrItemGone)
		require.ErrorIs(t, zkrecipes.NewQueue(w.ClientOf(q), "/next", nil).Remove(t.Context(), ids[0]), zkrecipes.ErrItemGone, "no queue")
		require.NotContains(t, w.Srv.Children("/"), "next", "nothing was created")
		require.Equal(t, []string{"0", "1", "3", "4"}, recipetest.Drain(t, q))
		w.OneSegment(q)
	})
}

// An item that a consumer has cannot be removed, even if the operator's listing does not
// show the claim yet.
func TestRemoveLeavesAnItemThatIsTaken(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, other := w.Queue(w.Stranger(nil)), w.Queue(w.Stranger(nil))
		ids := recipetest.PutOn(t, q, "x", "y")
		it := recipetest.TakeOn(t, q)
		err := other.Remove(t.Context(), ids[0])
		require.ErrorIs(t, err, zkrecipes.ErrItemTaken)
		require.EqualError(t, err, "zkrecipes: remove an item of "+w.Path+": item is taken")
		recipetest.NackOn(t, it)

		recipetest.PutOn(t, other, "warm")
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "multi(setData,delete)", For: time.Second})
		a := harness.GoErr(t, func(ctx context.Context) error { return other.Remove(ctx, ids[0]) })
		time.Sleep(time.Second / 2)
		it = recipetest.TakeOn(t, q)
		_, err = a.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrItemTaken)
		require.Len(t, w.Plan.Fired(), 1)
		require.NoError(t, it.Err())

		// It is acked before the operator has found out why it cannot be removed.
		recipetest.NackOn(t, it)
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "multi(setData,delete)", For: time.Second},
			zktest.Fault{Do: zktest.Delay, Op: "getChildren2", Path: w.Items()[0], For: time.Second})
		a = harness.GoErr(t, func(ctx context.Context) error { return other.Remove(ctx, ids[0]) })
		time.Sleep(time.Second / 2)
		it = recipetest.TakeOn(t, q)
		time.Sleep(time.Second)
		recipetest.AckOn(t, it)
		_, err = a.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrItemGone)
		require.Equal(t, []string{"y", "warm"}, recipetest.Drain(t, q))
	})
}

// The open segment alone is left, so neither a Take nor a Len pays for what was removed.
func TestRemovalsDeleteTheSegmentsThatTheyEmpty(t *testing.T) {
	removeAll := func(t *testing.T, q *zkrecipes.Queue, ids []zkrecipes.ItemID) {
		for _, id := range ids {
			require.NoError(t, q.Remove(t.Context(), id))
		}
	}
	recipetest.EachInBubble(t, map[string]func(*testing.T, *zkrecipes.Queue, []zkrecipes.ItemID){
		"Remove": removeAll,
		"Remove, the last first": func(t *testing.T, q *zkrecipes.Queue, ids []zkrecipes.ItemID) {
			slices.Reverse(ids)
			removeAll(t, q, ids)
		},
		"Purge": func(t *testing.T, q *zkrecipes.Queue, ids []zkrecipes.ItemID) {
			require.Equal(t, len(ids), purge(t, q))
		},
	}, func(t *testing.T, w *recipetest.World, remove func(*testing.T, *zkrecipes.Queue, []zkrecipes.ItemID)) {
		q, other := w.Small(2, nil), w.Queue(w.Stranger(nil))
		ids := recipetest.PutOn(t, q, recipetest.Names(21)...)
		require.Len(t, w.Srv.Children(w.Path+"/s"), 11)
		remove(t, other, ids)
		require.Equal(t, []string{"0000000010"}, w.Srv.Children(w.Path+"/s"), "the open one stays")
		recipetest.PutOn(t, q, recipetest.Names(5)...)
		require.Equal(t, recipetest.Names(5), recipetest.Drain(t, other))
	})
}

// A queue with many items below a long path is purged in requests that the servers accept.
func TestPurgeOfManyItemsBelowALongPath(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		path := "/"
		for len(path) < 20_000 {
			path += "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
		}
		q := zkrecipes.NewQueue(w.Stranger(nil), path, nil)
		recipetest.PutOn(t, q, recipetest.Names(90)...)
		require.Equal(t, 90, purge(t, q))
		require.Empty(t, listed(t, q))
	})
}

// If the servers refuse to delete, the error says what.
func TestRemovalThatIsRefusedIsAnError(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, conn := w.Queue(w.Stranger(nil)), w.Bare()
		ids := recipetest.PutOn(t, q, "x")
		_, err := conn.SetACL(w.Segment(0), zk.WorldACL(zk.PermRead|zk.PermCreate|zk.PermWrite), -1)
		require.NoError(t, err)
		want := fmt.Sprintf("item %s: zk: not authenticated", w.Items()[0])
		require.EqualError(t, q.Remove(t.Context(), ids[0]), "zkrecipes: remove an item of "+w.Path+": "+want)
		removed, err := q.Purge(t.Context())
		require.EqualError(t, err, "zkrecipes: purge "+w.Path+": "+want)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		require.Zero(t, removed)
	})
}

// An operator removes the item that a consumer is about to claim. The consumer is alone, so it goes on
// in order.
func TestOneWorkerGoesOnInOrderAfterTheItemThatItClaimsWasRemoved(t *testing.T) {
	recipetest.EachInBubble(t, map[string]func(ctx context.Context, q *zkrecipes.Queue, id zkrecipes.ItemID) error{
		"Remove": func(ctx context.Context, q *zkrecipes.Queue, id zkrecipes.ItemID) error { return q.Remove(ctx, id) },
		"Bury":   func(ctx context.Context, q *zkrecipes.Queue, id zkrecipes.ItemID) error { return q.Bury(ctx, id) },
	}, func(t *testing.T, w *recipetest.World, remove func(context.Context, *zkrecipes.Queue, zkrecipes.ItemID) error) {
		q, operator := w.Queue(w.Stranger(nil)), w.Queue(w.Stranger(nil))
		recipetest.Warm(t, q)
		ids := recipetest.PutOn(t, operator, recipetest.Names(20)...)
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpClaimAlone, For: time.Second})
		h := serve(t, q, nil)
		require.NoError(t, remove(t.Context(), operator, ids[0]))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, recipetest.Names(20)[1:], h.got)
		require.NoError(t, stop(h.Call))
	})
}
