package queue_test

import (
	"context"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// How the outcomes of claims, acks and nacks are settled where the table of faults does not
// come: faults that come together, and what exactly an error says.

// sentAgain makes a transaction lose its reply, or its request, and be sent again a second later
// than it would be.
func sentAgain(w *recipetest.World, op string, after bool) {
	w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: op}, zktest.Fault{Do: zktest.Delay, Op: op, For: 2 * time.Second, Skip: 1})
}

// claimOps are the transactions that claim an item: in the line, and where nobody stands
// there.
var claimOps = []string{recipetest.OpClaim, recipetest.OpClaimAlone}

// A claim whose reply is lost is made once. If meanwhile an operator deletes it or a part
// of it, the consumer deletes what is left, and claims again. If the item goes, too, as when it is
// buried, the consumer gets the next one.
func TestClaimWhoseReplyIsLostIsMadeOnce(t *testing.T) {
	for _, op := range claimOps {
		t.Run(op, func(t *testing.T) {
			cases := maps.Clone(parts)
			cases["nothing"], cases["the item, too"] = part{}, part{true, true, true}
			recipetest.EachInBubble(t, cases, func(t *testing.T, w *recipetest.World, deleted part) {
				q, conn := w.Queue(w.Stranger(nil)), w.Bare()
				recipetest.Warm(t, q)
				sentAgain(w, op, true)
				if op == recipetest.OpClaimAlone {
					recipetest.PutOn(t, q, "x")
				}
				a := w.TakeLater(q)
				if op == recipetest.OpClaim {
					recipetest.PutOn(t, w.Queue(w.Stranger(nil)), "x")
				}
				time.Sleep(time.Second)
				require.Len(t, w.Plan.Fired(), 2)
				deleted.remove(t, w, conn)
				if deleted.item {
					recipetest.PutOn(t, w.Queue(w.Stranger(nil)), "y")
				}
				it := a.Get()
				require.NoError(t, it.Err())
				if deleted.claim && !deleted.flag { // which the consumer finds out when it acks
					require.ErrorIs(t, it.Ack(t.Context()), zkrecipes.ErrLost)
					it = recipetest.TakeOn(t, q)
				}
				require.Equal(t, (deleted.flag || deleted.claim) && !deleted.item, it.Attempt == 2)
				recipetest.AckOn(t, it)
				require.Empty(t, w.Srv.Children(w.Segment(0)))
			})
		})
	}
}

// If one of the caller's operations fails, Ack changes nothing, returns an error that
// names the operation, and the item stays claimed. That also holds for NoNode, and
// after an earlier reply was lost.
func TestCallersOperationThatFailsIsAnErrorAndNothingIsDone(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(nil))
		recipetest.PutOn(t, q, "x")
		it := recipetest.TakeOn(t, q)
		ops := []zkrecipes.Op{zkrecipes.OpCreate("/effect", nil, 0, nil), zkrecipes.OpDelete("/missing", -1)}
		for _, fault := range []zktest.Fault{{}, {Do: zktest.Drop}, {Do: zktest.Drop, After: true}} {
			if fault.Do != "" {
				fault.Op = "multi(setData,delete,delete,delete,create,delete)"
				w.Plan.Add(fault)
			}
			err := it.Ack(t.Context(), ops...)
			require.ErrorIs(t, err, zk.ErrNoNode)
			require.EqualError(t, err, "zkrecipes: ack an item of "+w.Path+": operation 1: zk: node does not exist")
			require.NoError(t, it.Err(), "still claimed")
		}
		require.Len(t, w.Plan.Fired(), 2)
		require.ErrorContains(t, it.Ack(t.Context(), zkrecipes.Op{}), "operation 0: the zero Op")
		require.NotContains(t, w.Srv.Children("/"), "effect")
		require.NoError(t, it.Ack(t.Context(), ops[0]))
		require.Contains(t, w.Srv.Children("/"), "effect")
		require.Empty(t, w.Items())
	})
}

// An operator deletes the claim while the outcome of the ack is unknown. With a receipt,
// which operations and moves have, it is known that nothing was carried out.
func TestAckOfAClaimThatWasDeletedIsLost(t *testing.T) {
	for name, ack := range map[string]struct {
		op       string
		call     func(t *testing.T, it *zkrecipes.Item, to *zkrecipes.Queue) error
		receipts bool
	}{
		"ack": {recipetest.OpAck, func(t *testing.T, it *zkrecipes.Item, _ *zkrecipes.Queue) error { return it.Ack(t.Context()) }, false},
		"operations": {"multi(setData,delete,delete,delete,create)", func(t *testing.T, it *zkrecipes.Item, _ *zkrecipes.Queue) error {
			return it.Ack(t.Context(), zkrecipes.OpCreate("/effect", nil, 0, nil))
		}, true},
		"move": {"multi(setData,delete,delete,delete,check,create)", func(t *testing.T, it *zkrecipes.Item, to *zkrecipes.Queue) error {
			_, err := it.AckPut(t.Context(), to, bytesOf("moved"))
			return err
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.EachInBubble(t, parts, func(t *testing.T, w *recipetest.World, deleted part) {
				q, conn := w.Queue(w.Stranger(nil)), w.Bare()
				to := zkrecipes.NewQueue(w.ClientOf(q), "/next", nil)
				recipetest.PutOn(t, to, "before")
				recipetest.PutOn(t, q, "x")
				it := recipetest.TakeOn(t, q)
				sentAgain(w, ack.op, false)
				time.AfterFunc(time.Second, func() { deleted.remove(t, w, conn) })
				err := ack.call(t, it, to)
				require.Len(t, w.Plan.Fired(), 2)
				if !ack.receipts && deleted.flag && deleted.claim { // the outcome cannot be found out; at worst the item is delivered once more
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, zkrecipes.ErrLost)
					require.ErrorIs(t, it.Err(), zkrecipes.ErrLost)
				}
				require.NotContains(t, w.Srv.Children("/"), "effect")
				require.Equal(t, []string{"before"}, listed(t, to))
				again := recipetest.TakeOn(t, w.Queue(w.Stranger(nil)))
				require.Equal(t, it.ID, again.ID)
				require.Equal(t, 2, again.Attempt)
				recipetest.AckOn(t, again)
				require.Empty(t, w.Srv.Children(w.Segment(0)))
			})
		})
	}
}

// If ctx ends before an ack is sent, nothing is carried out. If it ends later, the
// outcome is uncertain. The client resolves it in the background, and Err returns it.
func TestAckWhoseContextEndsIsUncertainOnlyOnceSent(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(nil))
		recipetest.PutOn(t, q, "x", "y")
		it := recipetest.TakeOn(t, q)
		canceledAck := func() error {
			a := recipetest.AckLater(t, it)
			synctest.Wait()
			a.Cancel(nil)
			_, err := a.Wait()
			require.ErrorIs(t, err, context.Canceled)
			require.NoError(t, it.Err())
			return err
		}
		w.Away(w.ClientOf(q))
		require.NotErrorIs(t, canceledAck(), zkrecipes.ErrUncertain)
		w.Back()
		recipetest.PutOn(t, q, "connected again")

		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpAck, For: time.Second})
		require.ErrorIs(t, canceledAck(), zkrecipes.ErrUncertain)
		require.ErrorIs(t, it.Ack(t.Context()), zkrecipes.ErrReleased, "the first ack was carried out")
		require.ErrorIs(t, it.Err(), zkrecipes.ErrReleased)

		it = recipetest.TakeOn(t, q)
		sentAgain(w, recipetest.OpAck, false)
		require.ErrorIs(t, canceledAck(), zkrecipes.ErrUncertain)
		time.Sleep(time.Minute)
		require.ErrorIs(t, it.Err(), zkrecipes.ErrReleased, "it was sent again")
		require.Equal(t, []string{"connected again"}, recipetest.Drain(t, q))
	})
}

// The cause of a caller's context says nothing about the outcome of the request,
// whichever error it is.
func TestCauseOfTheContextOfAnAckOrPutIsNotItsOutcome(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(nil))
		recipetest.PutOn(t, q, "0", "1")
		it := recipetest.TakeOn(t, q)
		w.Away(w.ClientOf(q))
		for _, cause := range []error{errs.Lost(errs.ErrDeleted), zkrecipes.ErrUncertain, zkrecipes.ErrEvicted, zkconn.ErrSessionOver, zk.ErrNoNode} {
			ack, put := recipetest.AckLater(t, it), recipetest.PutLater(t, q, "never sent")
			ack.Cancel(cause)
			put.Cancel(cause)
			_, err := ack.Wait()
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, cause, "it is part of the error")
			require.NoError(t, it.Err(), "still claimed")
			id, err := put.Wait()
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, cause)
			require.Empty(t, id)
		}
		w.Back()
		recipetest.AckOn(t, it)
		require.Equal(t, []string{"1"}, recipetest.Drain(t, q))
	})
}

// Nack returns at once, also while disconnected. One whose reply is lost is sent again, and
// never deletes the next consumer's claim.
func TestNackOfAQueuesItemWhoseReplyIsLostLeavesTheNextClaimAlone(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, other := w.Queue(w.Stranger(nil)), w.Queue(w.Stranger(nil))
		recipetest.PutOn(t, q, "x")
		it := recipetest.TakeOn(t, q)
		sentAgain(w, recipetest.OpNack, true)
		require.NoError(t, it.Nack(t.Context()))
		next := recipetest.TakeOn(t, other)
		require.Equal(t, it.ID, next.ID)
		time.Sleep(time.Minute)
		require.Len(t, w.Plan.Fired(), 2)
		require.NoError(t, next.Err())

		w.Away(w.ClientOf(other))
		began := time.Now()
		require.NoError(t, next.Nack(t.Context()))
		require.ErrorIs(t, next.Err(), zkrecipes.ErrReleased)
		require.Zero(t, time.Since(began))
		w.Back()
		it = recipetest.TakeOn(t, q)
		require.Equal(t, 3, it.Attempt)
		recipetest.AckOn(t, it)
		require.Empty(t, w.Srv.Children(w.Segment(0)))
	})
}
