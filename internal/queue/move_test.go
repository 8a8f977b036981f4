package queue_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
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

// next returns a second queue of a client, with segments of n creates.
func next(c *zkrecipes.Client, n int64, opts *zkrecipes.QueueOptions) *zkrecipes.Queue {
	q := zkrecipes.NewQueue(c, "/next", opts)
	recipetest.QueueOf(q).SegmentSize = n
	return q
}

// listed returns the data of all items.
func listed(t testing.TB, q *zkrecipes.Queue) (all []string) {
	t.Helper()
	for e, err := range q.Items(harness.Within(t, 20*time.Second)) {
		if errors.Is(err, zkrecipes.ErrUnused) { // an operator has deleted it
			return nil
		}
		require.NoError(t, err)
		all = append(all, string(e.Data))
	}
	return all
}

func ackPutLater(t testing.TB, it *zkrecipes.Item, to *zkrecipes.Queue, items ...string) *harness.Call[[]zkrecipes.ItemID] {
	return harness.Go(t, func(ctx context.Context) ([]zkrecipes.ItemID, error) { return it.AckPut(ctx, to, bytesOf(items)) })
}

func bytesOf(items []string) (all [][]byte) {
	for _, item := range items {
		all = append(all, []byte(item))
	}
	return all
}

func TestA21AckPutMovesToAnotherQueueInOneTransaction(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(nil))
		to := next(recipetest.ClientOf(recipetest.QueueOf(q).Client), 100, nil)
		recipetest.PutOn(t, q, "x", "y")
		recipetest.PutOn(t, to, "before")
		it := recipetest.TakeOn(t, q)
		require.Equal(t, 1, recipetest.Sum(w.Requests(func() {
			ids, err := it.AckPut(t.Context(), to, [][]byte{[]byte("a"), []byte("b")})
			require.NoError(t, err)
			require.Len(t, ids, 2)
		})))
		require.ErrorIs(t, it.Err(), zkrecipes.ErrReleased)
		require.Equal(t, []string{"y"}, listed(t, q))
		require.Equal(t, []string{"before", "a", "b"}, recipetest.Drain(t, to))
		_, err := it.AckPut(t.Context(), to, [][]byte{[]byte("again")})
		require.ErrorIs(t, err, zkrecipes.ErrReleased)

		ids, err := recipetest.TakeOn(t, q).AckPut(t.Context(), to, nil)
		require.NoError(t, err)
		require.Empty(t, ids, "an ack")
		require.Empty(t, listed(t, q))
		require.Empty(t, listed(t, to))
	})
}

// The items come next to each other all the same.
func TestAckPutFillsSegments(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(nil))
		to := next(recipetest.ClientOf(recipetest.QueueOf(q).Client), 3, nil)
		recipetest.PutOn(t, q, "x")
		recipetest.PutOn(t, to, "before")
		it := recipetest.TakeOn(t, q)
		consumer := next(w.Stranger(nil), 3, nil)
		recipetest.AckOn(t, recipetest.TakeOn(t, consumer))
		waiting := recipetest.TakeLater(t, consumer)
		synctest.Wait()
		require.True(t, waiting.Waiting())
		ids, err := it.AckPut(t.Context(), to, bytesOf(recipetest.Names(8)))
		require.NoError(t, err)
		require.Len(t, ids, 8)
		require.Empty(t, listed(t, q))
		require.Equal(t, []string{"0000000000", "0000000001", "0000000002", "0000000003"}, w.Srv.Children(recipetest.QueueOf(to).Abs()+"/s"))
		require.Equal(t, "0", string(waiting.Get().Data), "the one that sleeps at the full segment is woken")
		recipetest.AckOn(t, waiting.Get())
		require.Equal(t, recipetest.Names(8)[1:], recipetest.Drain(t, to))
	})
}

// An item goes to the end of its own queue, and its attempts begin anew.
func TestAckPutIntoItsOwnQueueComesAtTheEnd(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Small(2, &zkrecipes.QueueOptions{MaxAttempts: 2})
		recipetest.PutOn(t, q, "x", "y")
		recipetest.NackOn(t, recipetest.TakeOn(t, q))
		for range 10 {
			it := recipetest.TakeOn(t, q)
			_, err := it.AckPut(t.Context(), q, [][]byte{it.Data})
			require.NoError(t, err)
		}
		it := recipetest.TakeOn(t, q)
		require.Equal(t, "x", string(it.Data))
		require.Equal(t, 1, it.Attempt)
		recipetest.AckOn(t, it)
		require.Equal(t, []string{"y"}, recipetest.Drain(t, q))
		w.OneSegment(q)
	})
}

// Serve leaves an item alone that its handler has moved, and wakes the other queue's
// consumer.
func TestServeLeavesAnItemAloneThatItsHandlerHasMoved(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(nil))
		to := next(recipetest.ClientOf(recipetest.QueueOf(q).Client), 3, nil)
		second := next(w.Stranger(nil), 3, nil)
		var got []string
		b := recipetest.ServeLater(t, second, func(_ context.Context, it *zkrecipes.Item) error {
			got = append(got, string(it.Data))
			return nil
		})
		a := recipetest.ServeLater(t, q, func(ctx context.Context, it *zkrecipes.Item) error {
			_, err := it.AckPut(ctx, to, [][]byte{append(it.Data, '!')})
			return err
		})
		synctest.Wait()
		for _, name := range recipetest.Names(9) {
			recipetest.PutOn(t, zkrecipes.NewQueue(recipetest.ClientOf(recipetest.QueueOf(second).Client), w.Path, nil), name)
			synctest.Wait()
		}
		require.Equal(t, []string{"0!", "1!", "2!", "3!", "4!", "5!", "6!", "7!", "8!"}, got)
		require.NoError(t, stop(a))
		require.NoError(t, stop(b))
		require.Empty(t, w.Items())
	})
}

// What cannot be done is refused before anything is sent, and the item stays claimed.
func TestAckPutRefusesBadInput(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(nil))
		recipetest.PutOn(t, q, "x")
		it := recipetest.TakeOn(t, q)
		var noContext context.Context
		stranger, large := w.Stranger(nil), make([]byte, 2_000_000)
		for want, put := range map[string]func() ([]zkrecipes.ItemID, error){
			"nil context":                       func() ([]zkrecipes.ItemID, error) { return it.AckPut(noContext, q, nil) },
			"other queue: not made by NewQueue": func() ([]zkrecipes.ItemID, error) { return it.AckPut(t.Context(), nil, [][]byte{[]byte("y")}) },
			"other queue: path does not begin with \"/\"": func() ([]zkrecipes.ItemID, error) {
				return it.AckPut(t.Context(), zkrecipes.NewQueue(recipetest.ClientOf(recipetest.QueueOf(q).Client), "next", nil), [][]byte{[]byte("y")})
			},
			"put into /next: the queue belongs to another Client": func() ([]zkrecipes.ItemID, error) {
				return it.AckPut(t.Context(), next(stranger, 9, nil), [][]byte{[]byte("y")})
			},
			"put into /next: QueueOptions.MaxLen is 9, and AckPut does not wait for room": func() ([]zkrecipes.ItemID, error) {
				return it.AckPut(t.Context(), next(recipetest.ClientOf(recipetest.QueueOf(q).Client), 9, &zkrecipes.QueueOptions{MaxLen: 9}), [][]byte{[]byte("y")})
			},
			"put into /next: item of 2 bytes: QueueOptions.MaxItemBytes is 1": func() ([]zkrecipes.ItemID, error) {
				return it.AckPut(t.Context(), next(recipetest.ClientOf(recipetest.QueueOf(q).Client), 9, &zkrecipes.QueueOptions{MaxItemBytes: 1}), [][]byte{[]byte("yy")})
			},
			"put into /next: request of 2000413 bytes": func() ([]zkrecipes.ItemID, error) {
				return it.AckPut(t.Context(), next(recipetest.ClientOf(recipetest.QueueOf(q).Client), 9, nil), [][]byte{large})
			},
		} {
			requests := w.Requests(func() {
				ids, err := put()
				require.ErrorContains(t, err, "zkrecipes: ack an item of "+w.Path+": "+want)
				require.Empty(t, ids)
			})
			require.Empty(t, requests, want)
		}
		require.NoError(t, it.Err())
		recipetest.AckOn(t, it)
	})
}

// What the move adds to a put may be too much, too. The error names the queue.
func TestA21AckPutThatIsTooLargeNamesTheOtherQueue(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(nil))
		to := next(recipetest.ClientOf(recipetest.QueueOf(q).Client), 9, &zkrecipes.QueueOptions{MaxAttempts: -1})
		recipetest.PutOn(t, q, "x")
		it := recipetest.TakeOn(t, q)
		for size := jute.MaxFrame; ; size -= 40 {
			_, err := it.AckPut(t.Context(), to, [][]byte{make([]byte, size)})
			if err == nil {
				return
			}
			require.ErrorIs(t, err, zkrecipes.ErrTooLarge)
			require.ErrorContains(t, err, "put into /next: ")
			require.NoError(t, it.Err())
		}
	})
}

// The ack, the items and the operations are one transaction, with a receipt.
func TestAckPutCarriesOutOperationsInTheSameTransaction(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, conn := w.Queue(w.Stranger(nil)), w.Bare()
		to := next(recipetest.ClientOf(recipetest.QueueOf(q).Client), 100, nil)
		recipetest.PutOn(t, q, "x")
		recipetest.PutOn(t, to, "before")
		it := recipetest.TakeOn(t, q)
		_, err := conn.Create("/taken", nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		ids, err := it.AckPut(t.Context(), to, bytesOf([]string{"a"}), zkrecipes.OpSet("/taken", []byte("no"), -1), zkrecipes.OpCreate("/taken", nil, 0, nil))
		require.ErrorIs(t, err, zk.ErrNodeExists)
		require.ErrorContains(t, err, "operation 1")
		require.Empty(t, ids)
		require.NoError(t, it.Err(), "still claimed")
		_, err = it.AckPut(t.Context(), to, bytesOf([]string{"a"}), zkrecipes.Op{})
		require.ErrorContains(t, err, "operation 0: the zero Op")
		require.Equal(t, []string{"before"}, listed(t, to))
		data, _, err := conn.Get("/taken")
		require.NoError(t, err)
		require.Empty(t, data)

		mine := []byte("done")
		requests := w.Requests(func() {
			ids, err = it.AckPut(t.Context(), to, bytesOf([]string{"a", "b"}), zkrecipes.OpSet("/taken", mine, 0), zkrecipes.OpCreate("/effect", nil, 0, nil))
		})
		require.NoError(t, err)
		require.Len(t, ids, 2)
		require.Equal(t, 1, recipetest.Sum(requests))
		require.Empty(t, listed(t, q))
		require.Equal(t, []string{"before", "a", "b"}, recipetest.Drain(t, to))

		recipetest.PutOn(t, q, "y")
		ids, err = recipetest.TakeOn(t, q).AckPut(t.Context(), to, nil, zkrecipes.OpDelete("/effect", -1))
		require.NoError(t, err)
		require.Empty(t, ids, "an ack with an operation")
		exists, _, err := conn.Exists("/effect")
		require.NoError(t, err)
		require.False(t, exists)
		require.Empty(t, listed(t, q))
	})
}

// If a reply is lost, the receipt decides: the operations are not done twice.
func TestAckPutWithOperationsIsDoneOnce(t *testing.T) {
	const moves = "multi(setData,delete,delete,delete,setData,check,create)"
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after=%v", after), func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				q, conn := w.Queue(w.Stranger(nil)), w.Bare()
				to := next(recipetest.ClientOf(recipetest.QueueOf(q).Client), 100, nil)
				recipetest.PutOn(t, q, "x")
				recipetest.PutOn(t, to, "before")
				it := recipetest.TakeOn(t, q)
				_, err := conn.Create("/n", nil, 0, zk.WorldACL(zk.PermAll))
				require.NoError(t, err)
				w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: moves})
				ids, err := it.AckPut(t.Context(), to, bytesOf([]string{"a"}), zkrecipes.OpSet("/n", []byte("1"), -1))
				require.NoError(t, err)
				require.Len(t, ids, 1)
				require.Equal(t, 1, sum(w.Plan.Fired()))
				_, stat, err := conn.Exists("/n")
				require.NoError(t, err)
				require.EqualValues(t, 1, stat.Version, "once")
				require.Equal(t, []string{"before", "a"}, recipetest.Drain(t, to))
				require.ErrorIs(t, it.Err(), zkrecipes.ErrReleased)
			})
		})
	}
}

func sum(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}
