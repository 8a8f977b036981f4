package queue_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Acks that put items into another queue, in one transaction.

// What cannot be done is refused before anything is sent, and the item stays claimed.
func TestAckPutRefusesBadInput(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(nil))
		recipetest.PutOn(t, q, "x")
		it := recipetest.TakeOn(t, q)
		to := func(opts *zkrecipes.QueueOptions) *zkrecipes.Queue {
			return zkrecipes.NewQueue(w.ClientOf(q), "/next", opts)
		}
		for want, put := range map[string]struct {
			to   *zkrecipes.Queue
			data string
		}{
			"other queue: not made by NewQueue":                                           {nil, "y"},
			`other queue: path does not begin with "/"`:                                   {zkrecipes.NewQueue(w.ClientOf(q), "next", nil), "y"},
			"put into /next: the queue belongs to another Client":                         {zkrecipes.NewQueue(w.Stranger(nil), "/next", nil), "y"},
			"put into /next: QueueOptions.MaxLen is 9, and AckPut does not wait for room": {to(&zkrecipes.QueueOptions{MaxLen: 9}), "y"},
			"put into /next: item of 2 bytes: QueueOptions.MaxItemBytes is 1":             {to(&zkrecipes.QueueOptions{MaxItemBytes: 1}), "yy"},
			"put into /next: request of 2000301 bytes":                                    {to(nil), strings.Repeat("y", 2_000_000)},
		} {
			requests := w.Requests(func() {
				ids, err := it.AckPut(t.Context(), put.to, bytesOf(put.data))
				require.ErrorContains(t, err, "zkrecipes: ack an item of "+w.Path+": "+want)
				require.Empty(t, ids)
			})
			require.Empty(t, requests, want)
		}
		var noContext context.Context
		_, err := it.AckPut(noContext, q, nil)
		require.ErrorContains(t, err, "nil context")
		_, err = it.AckPut(t.Context(), to(nil), [][]byte{make([]byte, jute.MaxFrame-500)}) // the ack is too much
		require.ErrorIs(t, err, zkrecipes.ErrTooLarge)
		require.ErrorContains(t, err, "put into /next: ")
		require.NoError(t, it.Err())
		recipetest.AckOn(t, it)
	})
}

// The ack, the items and the operations are one transaction, with a receipt.
func TestAckPutIsOneTransaction(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, conn, ctx := w.Queue(w.Stranger(nil)), w.Bare(), t.Context()
		to := zkrecipes.NewQueue(w.ClientOf(q), "/next", nil)
		recipetest.PutOn(t, q, "x")
		recipetest.PutOn(t, to, "before")
		it := recipetest.TakeOn(t, q)
		_, err := conn.Create("/taken", nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		ids, err := it.AckPut(ctx, to, bytesOf("a"), zkrecipes.OpSet("/taken", []byte("no"), -1), zkrecipes.OpCreate("/taken", nil, 0, nil))
		require.ErrorIs(t, err, zk.ErrNodeExists)
		require.ErrorContains(t, err, "operation 1")
		require.Empty(t, ids)
		require.NoError(t, it.Err(), "still claimed")
		_, err = it.AckPut(ctx, to, bytesOf("a"), zkrecipes.Op{})
		require.ErrorContains(t, err, "operation 0: the zero Op")
		require.Equal(t, []string{"before"}, listed(t, to))
		data, _, err := conn.Get("/taken")
		require.NoError(t, err)
		require.Empty(t, data)

		requests := w.Requests(func() {
			ids, err = it.AckPut(ctx, to, bytesOf("a", "b"), zkrecipes.OpSet("/taken", []byte("done"), 0), zkrecipes.OpCreate("/effect", nil, 0, nil))
		})
		require.NoError(t, err)
		require.Len(t, ids, 2)
		require.Equal(t, 1, recipetest.Sum(requests))
		require.ErrorIs(t, it.Err(), zkrecipes.ErrReleased)
		require.Empty(t, w.Items())
		require.Equal(t, []string{"before", "a", "b"}, recipetest.Drain(t, to))
		_, err = it.AckPut(ctx, to, bytesOf("again"))
		require.ErrorIs(t, err, zkrecipes.ErrReleased)

		recipetest.PutOn(t, q, "an ack", "an ack with an operation")
		ackPutOn(t, recipetest.TakeOn(t, q), to)
		_, err = recipetest.TakeOn(t, q).AckPut(ctx, to, nil, zkrecipes.OpDelete("/effect", -1))
		require.NoError(t, err)
		require.NotContains(t, w.Srv.Children("/"), "effect")
		require.Empty(t, w.Items())
		require.Empty(t, listed(t, to))
	})
}

// If the servers refuse to put into the other queue, the error names it, and the item is
// still claimed.
func TestAckPutThatIsRefusedChangesNothing(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, conn := w.Queue(w.Stranger(nil)), w.Bare()
		recipetest.PutOn(t, q, "x")
		it := recipetest.TakeOn(t, q)
		_, err := conn.Create("/next", nil, 0, zk.WorldACL(zk.PermRead))
		require.NoError(t, err)
		other := zkrecipes.NewQueue(w.ClientOf(q), "/other", nil)
		recipetest.PutOn(t, other, "0")
		_, err = conn.SetACL("/other/s/0000000000", zk.WorldACL(zk.PermRead), -1)
		require.NoError(t, err)
		for name, to := range map[string]*zkrecipes.Queue{"/next": zkrecipes.NewQueue(w.ClientOf(q), "/next", nil), "/other": other} {
			_, err := it.AckPut(t.Context(), to, bytesOf("y"))
			require.ErrorIs(t, err, zk.ErrNoAuth)
			require.EqualError(t, err, "zkrecipes: ack an item of "+w.Path+": put into "+name+": zk: not authenticated")
		}
		require.NoError(t, it.Err())
		recipetest.AckOn(t, it)
	})
}

// If ctx ends while a move is under way, the client sees it to its end. The items' data
// are those at the call.
func TestAckPutWhoseContextEndsIsSeenToItsEnd(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(nil))
		to := zkrecipes.NewQueue(w.ClientOf(q), "/next", nil)
		recipetest.PutOn(t, q, "x")
		recipetest.PutOn(t, to, "before")
		it := recipetest.TakeOn(t, q)
		w.Plan.Add(zktest.Fault{Do: zktest.Drop, Op: "multi(setData,delete,delete,delete,check,create)"})
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "multi(setData,delete,delete,delete,check,create)", For: 2 * time.Second})
		ctx, cancel := context.WithCancel(t.Context())
		data := []byte("moved")
		a := harness.Go(t, func(context.Context) ([]zkrecipes.ItemID, error) { return it.AckPut(ctx, to, [][]byte{data}) })
		time.Sleep(time.Second)
		cancel()
		ids, err := a.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrUncertain)
		require.Len(t, ids, 1)
		copy(data, "wrong") // the client may have to send them again
		time.Sleep(time.Minute)
		require.ErrorIs(t, it.Err(), zkrecipes.ErrReleased)
		require.Equal(t, []string{"before", "moved"}, listed(t, to))
		require.Empty(t, listed(t, q))
	})
}
