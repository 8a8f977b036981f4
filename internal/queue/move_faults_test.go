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
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Moves whose replies are lost, whose sessions expire, and that find another segment.

// moves are the requests with which one item is moved, in segments of one size or the
// other.
func moves(sealing bool) string {
	if sealing {
		return "multi(setData,delete,delete,delete,setData,create,create)"
	}
	return "multi(setData,delete,delete,delete,check,create)"
}

// A move whose request or reply is lost is sent again, and is done once, even if the item
// that was put has been taken and acked in the meantime.
func TestB44AckPutWhoseReplyIsLostIsDoneOnce(t *testing.T) {
	for _, sealing := range []bool{false, true} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("sealing=%v, after=%v", sealing, after), func(t *testing.T) {
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					q := w.Queue(w.Stranger(nil))
					to := next(recipetest.ClientOf(recipetest.QueueOf(q).Client), map[bool]int64{false: 100, true: 1}[sealing], nil)
					second := next(w.Stranger(nil), 100, nil)
					var got []string
					b := recipetest.ServeLater(t, second, func(_ context.Context, it *zkrecipes.Item) error {
						got = append(got, string(it.Data))
						return nil
					})
					recipetest.PutOn(t, q, "x", "y")
					it := recipetest.TakeOn(t, q)
					w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: moves(sealing), Times: 1})
					ids, err := it.AckPut(t.Context(), to, [][]byte{[]byte("moved")})
					require.NoError(t, err)
					require.Len(t, ids, 1)
					synctest.Wait()
					require.Len(t, w.Plan.Fired(), 1)
					require.Equal(t, []string{"moved"}, got)
					require.ErrorIs(t, it.Err(), zkrecipes.ErrReleased)
					require.Equal(t, []string{"y"}, listed(t, q))
					require.NoError(t, stop(b))
					require.Empty(t, listed(t, second))
				})
			})
		}
	}
}

// The reply is lost, and the session ends before the move can be sent again.
func TestB44AckPutWhoseSessionExpiresIsUncertain(t *testing.T) {
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after=%v", after), func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				q := w.Queue(w.Stranger(nil))
				to := next(recipetest.ClientOf(recipetest.QueueOf(q).Client), 100, nil)
				recipetest.PutOn(t, q, "x")
				recipetest.PutOn(t, to, "before")
				it := recipetest.TakeOn(t, q)
				w.Plan.Add(zktest.Fault{Do: zktest.Expire, After: after, Op: moves(false)})
				ids, err := it.AckPut(t.Context(), to, [][]byte{[]byte("moved")})
				require.ErrorIs(t, err, zkrecipes.ErrUncertain)
				require.Len(t, ids, 1, "to search for them")
				synctest.Wait()
				require.Error(t, it.Err())
				if after {
					require.Empty(t, listed(t, q))
					require.Equal(t, []string{"before", "moved"}, listed(t, to))
				} else {
					require.Equal(t, []string{"x"}, listed(t, q))
					require.Equal(t, []string{"before"}, listed(t, to))
				}
			})
		})
	}
}

// An operator deletes the claim while the outcome is unknown. The receipt shows that
// nothing was done.
func TestB44AckPutOfAClaimThatWasDeletedIsLost(t *testing.T) {
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after=%v", after), func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				q, conn := w.Queue(w.Stranger(nil)), w.Bare()
				to := next(recipetest.ClientOf(recipetest.QueueOf(q).Client), 100, nil)
				recipetest.PutOn(t, q, "x")
				recipetest.PutOn(t, to, "before")
				it := recipetest.TakeOn(t, q)
				w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: moves(false), Times: 1})
				w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: moves(false), For: time.Second, Skip: 1})
				a := ackPutLater(t, it, to, "moved")
				time.Sleep(time.Second / 2)
				if !after {
					for _, path := range []string{recipetest.TakenOf(it).Claim.Path, recipetest.TakenOf(it).Claim.Exclusion()} {
						require.NoError(t, conn.Delete(path, -1))
					}
				}
				_, err := a.Wait()
				if after {
					require.NoError(t, err)
					require.Equal(t, []string{"before", "moved"}, listed(t, to))
					return
				}
				require.ErrorIs(t, err, zkrecipes.ErrLost)
				require.ErrorIs(t, it.Err(), zkrecipes.ErrLost)
				require.Equal(t, []string{"before"}, listed(t, to))
				require.Equal(t, []string{"x"}, recipetest.Drain(t, q))
			})
		})
	}
}

// Other producers have sealed the open segment since the last move: it goes on to the next
// one, or lists the segments.
func TestAckPutGoesOnToTheOpenSegment(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(nil))
		to, others := next(recipetest.ClientOf(recipetest.QueueOf(q).Client), 1, nil), next(w.Stranger(nil), 1, nil)
		var want []string
		for n := range 5 {
			recipetest.PutOn(t, q, "x")
			recipetest.PutOn(t, others, recipetest.Names(n)...)
			_, err := recipetest.TakeOn(t, q).AckPut(t.Context(), to, [][]byte{[]byte("moved")})
			require.NoError(t, err)
			want = append(append(want, recipetest.Names(n)...), "moved")
		}
		require.Equal(t, want, listed(t, to))
		require.Empty(t, listed(t, q))
	})
}

// Three others, or four, are quicker in each round trip. The move then sends attempts for
// several segments together, and gets through.
func TestAckPutGoesOnWhileOthersFillEachSegment(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, link := w.ConsumerWithLink()
		to, others := next(recipetest.ClientOf(recipetest.QueueOf(q).Client), 1, nil), next(w.Stranger(nil), 1, nil)
		recipetest.PutOn(t, q, "x")
		it := recipetest.TakeOn(t, q)
		link.SetLatency(time.Second)
		a := ackPutLater(t, it, to, "moved")
		n := 0
		for ; a.Waiting(); n++ {
			require.Less(t, n, 4*zkconn.MaxTries, "it does not get through")
			time.Sleep(300 * time.Millisecond)
			recipetest.PutOn(t, others, fmt.Sprint(n))
		}
		a.Get()
		all := listed(t, others)
		require.Len(t, all, n+1)
		require.Contains(t, all, "moved")
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
				to := next(recipetest.ClientOf(recipetest.QueueOf(q).Client), 2, nil)
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
		_, err = it.AckPut(t.Context(), next(recipetest.ClientOf(recipetest.QueueOf(q).Client), 9, nil), [][]byte{[]byte("y")})
		require.ErrorIs(t, err, zk.ErrNoAuth)
		require.EqualError(t, err, "zkrecipes: ack an item of "+w.Path+": put into /next: zk: not authenticated")
		other := zkrecipes.NewQueue(recipetest.ClientOf(recipetest.QueueOf(q).Client), "/other", nil)
		recipetest.PutOn(t, other, "0")
		_, err = conn.SetACL("/other/s/0000000000", zk.WorldACL(zk.PermRead), -1)
		require.NoError(t, err)
		_, err = it.AckPut(t.Context(), other, [][]byte{[]byte("y")})
		require.EqualError(t, err, "zkrecipes: ack an item of "+w.Path+": put into /other: zk: not authenticated")
		require.NoError(t, it.Err())
		require.Equal(t, []string{"x"}, listed(t, q))
		recipetest.AckOn(t, it)
	})
}

// An item with a foreign znode below it is moved, and marked as done.
func TestB85AckPutOfAnItemWithAForeignZnodeBelow(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		opts, log := recipetest.Logged()
		q, conn := w.Queue(w.Stranger(opts)), w.Bare()
		to := next(recipetest.ClientOf(recipetest.QueueOf(q).Client), 9, nil)
		recipetest.PutOn(t, q, "x")
		it := recipetest.TakeOn(t, q)
		stays := w.Items()[0]
		znode := w.Foreign(conn, stays, "note")
		_, err := it.AckPut(t.Context(), to, [][]byte{[]byte("moved")})
		require.NoError(t, err)
		require.Equal(t, []string{"moved"}, listed(t, to))
		synctest.Wait() // the log is written in the background
		require.Contains(t, log.String(), `"znode":"`+stays+`"`)
		w.Aside(q, stays, znode)
	})
}

// If ctx ends while a move is under way, the client sees it to its end. The items' data
// are those at the call.
func TestAckPutWhoseContextEndsIsSeenToItsEnd(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(nil))
		to := next(recipetest.ClientOf(recipetest.QueueOf(q).Client), 9, nil)
		recipetest.PutOn(t, q, "x")
		recipetest.PutOn(t, to, "before")
		it := recipetest.TakeOn(t, q)
		w.Plan.Add(zktest.Fault{Do: zktest.Drop, Op: moves(false)})
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: moves(false), For: 2 * time.Second})
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
