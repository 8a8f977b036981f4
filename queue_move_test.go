package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Acks that put items into another queue, in one transaction.

// next returns a second queue of a client, with segments of n creates.
func next(c *Client, n int64, opts *QueueOptions) *Queue {
	q := NewQueue(c, "/next", opts)
	q.itemQueue.SegmentSize = n
	return q
}

// listed returns the data of all items.
func listed(t testing.TB, q *Queue) (all []string) {
	t.Helper()
	for e, err := range q.Items(harness.Within(t, 20*time.Second)) {
		if errors.Is(err, ErrUnused) { // an operator has deleted it
			return nil
		}
		require.NoError(t, err)
		all = append(all, string(e.Data))
	}
	return all
}

func ackPutLater(t testing.TB, it *Item, to *Queue, items ...string) *harness.Call[[]ItemID] {
	return harness.Go(t, func(ctx context.Context) ([]ItemID, error) { return it.AckPut(ctx, to, bytesOf(items)) })
}

func bytesOf(items []string) (all [][]byte) {
	for _, item := range items {
		all = append(all, []byte(item))
	}
	return all
}

func TestA21AckPutMovesToAnotherQueueInOneTransaction(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue(w.stranger(nil))
		to := next(clientOf(q.itemQueue.Client), 100, nil)
		putOn(t, q, "x", "y")
		putOn(t, to, "before")
		it := takeOn(t, q)
		requests := w.requests(func() {
			ids, err := it.AckPut(t.Context(), to, [][]byte{[]byte("a"), []byte("b")})
			require.NoError(t, err)
			require.Len(t, ids, 2)
		})
		require.Equal(t, map[string]int{"multi(setData,delete,delete,delete,check,create,create)": 1}, requests)
		require.ErrorIs(t, it.Err(), ErrReleased)
		require.Equal(t, []string{"y"}, listed(t, q))
		require.Equal(t, []string{"before", "a", "b"}, drain(t, to))
		_, err := it.AckPut(t.Context(), to, [][]byte{[]byte("again")})
		require.ErrorIs(t, err, ErrReleased)

		ids, err := takeOn(t, q).AckPut(t.Context(), to, nil)
		require.NoError(t, err)
		require.Empty(t, ids, "an ack")
		require.Empty(t, listed(t, q))
		require.Empty(t, listed(t, to))
	})
}

// The items come next to each other all the same.
func TestAckPutFillsSegments(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue(w.stranger(nil))
		to := next(clientOf(q.itemQueue.Client), 3, nil)
		putOn(t, q, "x")
		putOn(t, to, "before")
		it := takeOn(t, q)
		consumer := next(w.stranger(nil), 3, nil)
		ackOn(t, takeOn(t, consumer))
		waiting := takeLater(t, consumer)
		synctest.Wait()
		require.True(t, waiting.Waiting())
		ids, err := it.AckPut(t.Context(), to, bytesOf(names(8)))
		require.NoError(t, err)
		require.Len(t, ids, 8)
		require.Empty(t, listed(t, q))
		require.Equal(t, []string{"0000000000", "0000000001", "0000000002", "0000000003"}, w.srv.Children(to.itemQueue.Abs()+"/s"))
		require.Equal(t, "0", string(waiting.Get().Data), "the one that sleeps at the full segment is woken")
		ackOn(t, waiting.Get())
		require.Equal(t, names(8)[1:], drain(t, to))
	})
}

// An item goes to the end of its own queue, and its attempts begin anew.
func TestAckPutIntoItsOwnQueueComesAtTheEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.small(2, &QueueOptions{MaxAttempts: 2})
		putOn(t, q, "x", "y")
		nackOn(t, takeOn(t, q))
		for range 10 {
			it := takeOn(t, q)
			_, err := it.AckPut(t.Context(), q, [][]byte{it.Data})
			require.NoError(t, err)
		}
		it := takeOn(t, q)
		require.Equal(t, "x", string(it.Data))
		require.Equal(t, 1, it.Attempt)
		ackOn(t, it)
		require.Equal(t, []string{"y"}, drain(t, q))
		w.oneSegment(q)
	})
}

// Serve leaves an item alone that its handler has moved, and wakes the other queue's
// consumer.
func TestServeLeavesAnItemAloneThatItsHandlerHasMoved(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue(w.stranger(nil))
		to := next(clientOf(q.itemQueue.Client), 3, nil)
		second := next(w.stranger(nil), 3, nil)
		var got []string
		b := serveLater(t, second, func(_ context.Context, it *Item) error {
			got = append(got, string(it.Data))
			return nil
		})
		a := serveLater(t, q, func(ctx context.Context, it *Item) error {
			_, err := it.AckPut(ctx, to, [][]byte{append(it.Data, '!')})
			return err
		})
		synctest.Wait()
		for _, name := range names(9) {
			putOn(t, NewQueue(clientOf(second.itemQueue.Client), w.path, nil), name)
			synctest.Wait()
		}
		require.Equal(t, []string{"0!", "1!", "2!", "3!", "4!", "5!", "6!", "7!", "8!"}, got)
		require.NoError(t, stop(a))
		require.NoError(t, stop(b))
		require.Empty(t, w.items())
	})
}

// What cannot be done is refused before anything is sent, and the item stays claimed.
func TestAckPutRefusesBadInput(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue(w.stranger(nil))
		putOn(t, q, "x")
		it := takeOn(t, q)
		var noContext context.Context
		stranger, large := w.stranger(nil), make([]byte, 2_000_000)
		for want, put := range map[string]func() ([]ItemID, error){
			"nil context":                       func() ([]ItemID, error) { return it.AckPut(noContext, q, nil) },
			"other queue: not made by NewQueue": func() ([]ItemID, error) { return it.AckPut(t.Context(), nil, [][]byte{[]byte("y")}) },
			"other queue: path does not begin with \"/\"": func() ([]ItemID, error) {
				return it.AckPut(t.Context(), NewQueue(clientOf(q.itemQueue.Client), "next", nil), [][]byte{[]byte("y")})
			},
			"put into /next: the queue belongs to another Client": func() ([]ItemID, error) {
				return it.AckPut(t.Context(), next(stranger, 9, nil), [][]byte{[]byte("y")})
			},
			"put into /next: QueueOptions.MaxLen is 9, and AckPut does not wait for room": func() ([]ItemID, error) {
				return it.AckPut(t.Context(), next(clientOf(q.itemQueue.Client), 9, &QueueOptions{MaxLen: 9}), [][]byte{[]byte("y")})
			},
			"put into /next: item of 2 bytes: QueueOptions.MaxItemBytes is 1": func() ([]ItemID, error) {
				return it.AckPut(t.Context(), next(clientOf(q.itemQueue.Client), 9, &QueueOptions{MaxItemBytes: 1}), [][]byte{[]byte("yy")})
			},
			"put into /next: request of 2000413 bytes": func() ([]ItemID, error) {
				return it.AckPut(t.Context(), next(clientOf(q.itemQueue.Client), 9, nil), [][]byte{large})
			},
		} {
			requests := w.requests(func() {
				ids, err := put()
				require.ErrorContains(t, err, "zkrecipes: ack an item of "+w.path+": "+want)
				require.Empty(t, ids)
			})
			require.Empty(t, requests, want)
		}
		require.NoError(t, it.Err())
		ackOn(t, it)
	})
}

// What the move adds to a put may be too much, too. The error names the queue.
func TestA21AckPutThatIsTooLargeNamesTheOtherQueue(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue(w.stranger(nil))
		to := next(clientOf(q.itemQueue.Client), 9, &QueueOptions{MaxAttempts: -1})
		putOn(t, q, "x")
		it := takeOn(t, q)
		for size := jute.MaxFrame; ; size -= 40 {
			_, err := it.AckPut(t.Context(), to, [][]byte{make([]byte, size)})
			if err == nil {
				return
			}
			require.ErrorIs(t, err, ErrTooLarge)
			require.ErrorContains(t, err, "put into /next: ")
			require.NoError(t, it.Err())
		}
	})
}

// The ack, the items and the operations are one transaction, with a receipt.
func TestAckPutCarriesOutOperationsInTheSameTransaction(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q, conn := w.queue(w.stranger(nil)), w.bare()
		to := next(clientOf(q.itemQueue.Client), 100, nil)
		putOn(t, q, "x")
		putOn(t, to, "before")
		it := takeOn(t, q)
		_, err := conn.Create("/taken", nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		ids, err := it.AckPut(t.Context(), to, bytesOf([]string{"a"}), OpSet("/taken", []byte("no"), -1), OpCreate("/taken", nil, 0, nil))
		require.ErrorIs(t, err, zk.ErrNodeExists)
		require.ErrorContains(t, err, "operation 1")
		require.Empty(t, ids)
		require.NoError(t, it.Err(), "still claimed")
		_, err = it.AckPut(t.Context(), to, bytesOf([]string{"a"}), Op{})
		require.ErrorContains(t, err, "operation 0: the zero Op")
		require.Equal(t, []string{"before"}, listed(t, to))
		data, _, err := conn.Get("/taken")
		require.NoError(t, err)
		require.Empty(t, data)

		mine := []byte("done")
		requests := w.requests(func() {
			ids, err = it.AckPut(t.Context(), to, bytesOf([]string{"a", "b"}), OpSet("/taken", mine, 0), OpCreate("/effect", nil, 0, nil))
		})
		require.NoError(t, err)
		require.Len(t, ids, 2)
		require.Equal(t, map[string]int{"multi(setData,delete,delete,delete,setData,create,check,create,create)": 1}, requests)
		require.Empty(t, listed(t, q))
		require.Equal(t, []string{"before", "a", "b"}, drain(t, to))

		putOn(t, q, "y")
		ids, err = takeOn(t, q).AckPut(t.Context(), to, nil, OpDelete("/effect", -1))
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
			inBubble(t, func(t *testing.T, w *world) {
				q, conn := w.queue(w.stranger(nil)), w.bare()
				to := next(clientOf(q.itemQueue.Client), 100, nil)
				putOn(t, q, "x")
				putOn(t, to, "before")
				it := takeOn(t, q)
				_, err := conn.Create("/n", nil, 0, zk.WorldACL(zk.PermAll))
				require.NoError(t, err)
				w.plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: moves})
				ids, err := it.AckPut(t.Context(), to, bytesOf([]string{"a"}), OpSet("/n", []byte("1"), -1))
				require.NoError(t, err)
				require.Len(t, ids, 1)
				require.Equal(t, 1, sum(w.plan.Fired()))
				_, stat, err := conn.Exists("/n")
				require.NoError(t, err)
				require.EqualValues(t, 1, stat.Version, "once")
				require.Equal(t, []string{"before", "a"}, drain(t, to))
				require.ErrorIs(t, it.Err(), ErrReleased)
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
