package queue_test

import (
	"context"
	"slices"
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

func TestA21AckPutMovesToAnotherQueueInOneTransaction(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(nil))
		to := next(clientOf(q), 100, nil)
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
		_, err := it.AckPut(t.Context(), to, bytesOf("again"))
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
		to := next(clientOf(q), 3, nil)
		recipetest.PutOn(t, q, "x")
		recipetest.PutOn(t, to, "before")
		it := recipetest.TakeOn(t, q)
		consumer := next(w.Stranger(nil), 3, nil)
		recipetest.AckOn(t, recipetest.TakeOn(t, consumer))
		waiting := recipetest.TakeLater(t, consumer)
		synctest.Wait()
		require.True(t, waiting.Waiting())
		ids, err := it.AckPut(t.Context(), to, bytesOf(recipetest.Names(8)...))
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
			"other queue: not made by NewQueue": func() ([]zkrecipes.ItemID, error) { return it.AckPut(t.Context(), nil, bytesOf("y")) },
			"other queue: path does not begin with \"/\"": func() ([]zkrecipes.ItemID, error) {
				return it.AckPut(t.Context(), zkrecipes.NewQueue(clientOf(q), "next", nil), bytesOf("y"))
			},
			"put into /next: the queue belongs to another Client": func() ([]zkrecipes.ItemID, error) {
				return it.AckPut(t.Context(), next(stranger, 9, nil), bytesOf("y"))
			},
			"put into /next: QueueOptions.MaxLen is 9, and AckPut does not wait for room": func() ([]zkrecipes.ItemID, error) {
				return it.AckPut(t.Context(), next(clientOf(q), 9, &zkrecipes.QueueOptions{MaxLen: 9}), bytesOf("y"))
			},
			"put into /next: item of 2 bytes: QueueOptions.MaxItemBytes is 1": func() ([]zkrecipes.ItemID, error) {
				return it.AckPut(t.Context(), next(clientOf(q), 9, &zkrecipes.QueueOptions{MaxItemBytes: 1}), bytesOf("yy"))
			},
			"put into /next: request of 2000413 bytes": func() ([]zkrecipes.ItemID, error) {
				return it.AckPut(t.Context(), next(clientOf(q), 9, nil), [][]byte{large})
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
		to := next(clientOf(q), 9, &zkrecipes.QueueOptions{MaxAttempts: -1})
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
		to := next(clientOf(q), 100, nil)
		recipetest.PutOn(t, q, "x")
		recipetest.PutOn(t, to, "before")
		it := recipetest.TakeOn(t, q)
		_, err := conn.Create("/taken", nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		ids, err := it.AckPut(t.Context(), to, bytesOf("a"), zkrecipes.OpSet("/taken", []byte("no"), -1), zkrecipes.OpCreate("/taken", nil, 0, nil))
		require.ErrorIs(t, err, zk.ErrNodeExists)
		require.ErrorContains(t, err, "operation 1")
		require.Empty(t, ids)
		require.NoError(t, it.Err(), "still claimed")
		_, err = it.AckPut(t.Context(), to, bytesOf("a"), zkrecipes.Op{})
		require.ErrorContains(t, err, "operation 0: the zero Op")
		require.Equal(t, []string{"before"}, listed(t, to))
		data, _, err := conn.Get("/taken")
		require.NoError(t, err)
		require.Empty(t, data)

		mine := []byte("done")
		requests := w.Requests(func() {
			ids, err = it.AckPut(t.Context(), to, bytesOf("a", "b"), zkrecipes.OpSet("/taken", mine, 0), zkrecipes.OpCreate("/effect", nil, 0, nil))
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

// Other producers have sealed the open segment since the last move: it goes on to the next
// one, or lists the segments.
func TestAckPutGoesOnToTheOpenSegment(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(nil))
		to, others := next(clientOf(q), 1, nil), next(w.Stranger(nil), 1, nil)
		var want []string
		for n := range 5 {
			recipetest.PutOn(t, q, "x")
			recipetest.PutOn(t, others, recipetest.Names(n)...)
			_, err := recipetest.TakeOn(t, q).AckPut(t.Context(), to, bytesOf("moved"))
			require.NoError(t, err)
			want = append(append(want, recipetest.Names(n)...), "moved")
		}
		require.Equal(t, want, listed(t, to))
		require.Empty(t, listed(t, q))
	})
}

// An operator makes either queue again, or sets data on the open segment, at any request
// of a move. The item is moved once, or lost with its queue.
func TestB86OperatorActsAtAnyRequestOfAnAckPut(t *testing.T) {
	acts := map[string]func(t *testing.T, conn *zk.Conn, w *recipetest.World){
		"deletes the other queue": func(t *testing.T, conn *zk.Conn, _ *recipetest.World) { recipetest.RemoveTree(t, conn, "/next") },
		"deletes the queue":       func(t *testing.T, conn *zk.Conn, w *recipetest.World) { recipetest.RemoveTree(t, conn, w.Path) },
		"seals the other queue": func(t *testing.T, conn *zk.Conn, w *recipetest.World) {
			_, err := conn.Set("/next/s/"+slices.Max(w.Srv.Children("/next/s")), nil, -1)
			require.NoError(t, err)
		},
	}
	for what, act := range acts {
		t.Run(what, func(t *testing.T) {
			atAnyRequest(t, func(t *testing.T, w *recipetest.World, between func(call, act func())) {
				q, conn := w.Small(2, nil), w.Insider()
				to := next(clientOf(q), 2, nil)
				recipetest.PutOn(t, next(w.Stranger(nil), 2, nil), "0", "1")
				recipetest.PutOn(t, q, "x")
				it := recipetest.TakeOn(t, q)
				var a *harness.Call[[]zkrecipes.ItemID]
				between(func() { a = ackPutLater(t, it, to, "moved") }, func() { act(t, conn, w) })
				_, err := a.Wait()
				if err == nil {
					require.Empty(t, listed(t, q))
					if what != "deletes the other queue" {
						require.Equal(t, []string{"0", "1", "moved"}, listed(t, to))
					}
				} else {
					require.Equal(t, "deletes the queue", what, "%v", err)
					require.Equal(t, []string{"0", "1"}, listed(t, to))
				}
				recipetest.PutOn(t, q, "last")
				recipetest.PutOn(t, to, "last")
				require.Contains(t, recipetest.Drain(t, q), "last")
				require.Contains(t, recipetest.Drain(t, to), "last")
			})
		})
	}
}

// If the servers refuse to put into the other queue, the error names it, and the item is
// still claimed.
func TestB36AckPutThatIsRefusedChangesNothing(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, conn := w.Queue(w.Stranger(nil)), w.Bare()
		recipetest.PutOn(t, q, "x")
		it := recipetest.TakeOn(t, q)
		_, err := conn.Create("/next", nil, 0, zk.WorldACL(zk.PermRead))
		require.NoError(t, err)
		_, err = it.AckPut(t.Context(), next(clientOf(q), 9, nil), bytesOf("y"))
		require.ErrorIs(t, err, zk.ErrNoAuth)
		require.EqualError(t, err, "zkrecipes: ack an item of "+w.Path+": put into /next: zk: not authenticated")
		other := zkrecipes.NewQueue(clientOf(q), "/other", nil)
		recipetest.PutOn(t, other, "0")
		_, err = conn.SetACL("/other/s/0000000000", zk.WorldACL(zk.PermRead), -1)
		require.NoError(t, err)
		_, err = it.AckPut(t.Context(), other, bytesOf("y"))
		require.EqualError(t, err, "zkrecipes: ack an item of "+w.Path+": put into /other: zk: not authenticated")
		require.NoError(t, it.Err())
		require.Equal(t, []string{"x"}, listed(t, q))
		recipetest.AckOn(t, it)
	})
}

// If ctx ends while a move is under way, the client sees it to its end. The items' data
// are those at the call.
func TestAckPutWhoseContextEndsIsSeenToItsEnd(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(nil))
		to := next(clientOf(q), 9, nil)
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
