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
		require.ErrorIs(t, next(w.ClientOf(q), 2, nil).Remove(t.Context(), ids[0]), zkrecipes.ErrItemGone, "no queue")
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
	eachInBubble(t, map[string]func(*testing.T, *zkrecipes.Queue, []zkrecipes.ItemID){
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

// Items that consumers have stay, and so does a segment in which an item was put, claimed or left by
// others. Those that were empty before are deleted.
func TestPurgeRemovesNothingThatOthersUse(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, other := w.Small(2, nil), w.Queue(w.Stranger(nil))
		recipetest.PutOn(t, q, recipetest.Names(8)...) // segment 4 is open, and empty
		items := takeN(t, q, 6)
		for _, it := range items[2:] {
			recipetest.AckOn(t, it)
		}
		require.Len(t, w.Srv.Children(w.Path+"/s"), 5)
		require.Equal(t, 2, purge(t, other))
		require.Equal(t, []string{"0", "1"}, listed(t, q))
		require.Equal(t, []string{"0000000000", "0000000004"}, w.Srv.Children(w.Path+"/s"))
		a := w.TakeLater(other)
		recipetest.NackOn(t, items[1])
		again := a.Get()
		require.Equal(t, "1", string(again.Data))
		recipetest.AckOn(t, items[0])
		require.Zero(t, purge(t, other))
		recipetest.NackOn(t, again)
		require.Equal(t, 1, purge(t, other))
		recipetest.PutOn(t, other, "last")
		require.Equal(t, []string{"last"}, recipetest.Drain(t, q))
		w.OneSegment(q)
	})
}

// Items that are taken or acked between the listing and the transaction are left out, and
// the others are removed.
func TestPurgeLeavesOutWhatIsTakenMeanwhile(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, other := w.Queue(w.Stranger(nil)), w.Queue(w.Stranger(nil))
		recipetest.PutOn(t, q, recipetest.Names(6)...)
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "multi(setData,delete,delete,delete,delete,delete,delete)", For: time.Second})
		a := harness.Go(t, other.Purge)
		time.Sleep(time.Second / 2)
		recipetest.AckOn(t, recipetest.TakeOn(t, q))
		it := recipetest.TakeOn(t, q)
		require.Equal(t, 4, a.Get())
		require.Len(t, w.Plan.Fired(), 1)
		require.NoError(t, it.Err())
		require.Equal(t, []string{"1"}, listed(t, q))
		recipetest.AckOn(t, it)
	})
}

// The session ends before a Remove is sent. It goes on in the next one, where the item has
// been acked in the meantime: that is no success.
func TestRemoveOfAnItemThatIsAckedBeforeTheNextSession(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, other := w.Queue(w.Stranger(nil)), w.Queue(w.Stranger(nil))
		ids := recipetest.PutOn(t, q, "x")
		w.Plan.Add(zktest.Fault{Do: zktest.Expire, Op: recipetest.OpReceipt})
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "sync", Skip: 1, For: time.Second})
		a := harness.GoErr(t, func(ctx context.Context) error { return other.Remove(ctx, ids[0]) })
		synctest.Wait()
		recipetest.AckOn(t, recipetest.TakeOn(t, q))
		_, err := a.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrItemGone)
		require.Len(t, w.Plan.Fired(), 2)
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

// Free items are removed at any request of a consumer. Nothing that is put later is slept
// beside.
func TestConsumerGetsWhatIsPutAfterAPurgeAtAnyRequest(t *testing.T) {
	atAnyRequest(t, func(t *testing.T, w *recipetest.World, between func(call, act func())) {
		q, other := w.Small(2, nil), w.Small(2, nil)
		recipetest.PutOn(t, q, "0")
		it := recipetest.TakeOn(t, q)
		recipetest.PutOn(t, q, "1", "2", "3")
		recipetest.AckOn(t, it)
		var a *harness.Call[*zkrecipes.Item]
		removed := 0
		between(func() { a = recipetest.TakeLater(t, q) }, func() {
			removed = purge(t, other)
			recipetest.PutOn(t, other, "a", "b")
		})
		it = a.Get()
		recipetest.AckOn(t, it)
		want := []string{"1", "a", "b"} // it was taken first
		if removed == 3 {
			want = want[1:]
		}
		require.Equal(t, want, append([]string{string(it.Data)}, recipetest.Drain(t, q)...))
		w.OneSegment(q)
	})
}

// Free items are removed at any request of a producer that waits for room.
func TestBoundedProducerGoesOnAfterAPurgeAtAnyRequest(t *testing.T) {
	atAnyRequest(t, func(t *testing.T, w *recipetest.World, between func(call, act func())) {
		q, other := w.Small(2, &zkrecipes.QueueOptions{MaxLen: 4}), w.Small(2, nil)
		recipetest.PutOn(t, other, recipetest.Names(4)...)
		it := recipetest.TakeOn(t, other)
		var a *harness.Call[zkrecipes.ItemID]
		removed, sleeps := 0, false
		between(func() { a = recipetest.PutLater(t, q, "last") }, func() {
			sleeps = w.Plan.Fired()["delay before"] == 0
			removed = purge(t, other)
		})
		a.Get()
		recipetest.AckOn(t, it)
		if left := recipetest.Drain(t, other); sleeps && removed == 4 { // Purge woke the producer, and removed its item, too
			require.Empty(t, left)
		} else {
			require.Equal(t, []string{"last"}, left)
			require.Equal(t, 3, removed)
		}
		w.OneSegment(q)
	})
}
