package queue_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Lost requests and replies of acks and nacks, and sessions that expire meanwhile.

// losses are the ways to lose a request after which its sender does not know the
// outcome.
var losses = map[string]harness.Action{
	"before it is applied": harness.DropBefore,
	"its reply":            harness.DropAfter,
}

// An ack whose reply is lost is sent again. It succeeds if the first attempt was
// carried out.
func TestB44AckWhoseReplyIsLostIsDoneOnce(t *testing.T) {
	for how, action := range losses {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := recipetest.NewQueueRig(t, nil)
			recipetest.PutOn(t, r.Q, "x", "y")
			it := recipetest.TakeOn(t, r.Q)
			rule := r.P.On(recipetest.OpAck, 1, action)
			a := recipetest.AckLater(t, it)
			r.P.Await(rule)
			a.Get()
			require.ErrorIs(t, it.Err(), zkrecipes.ErrReleased)
			require.Equal(t, []string{"y"}, recipetest.Drain(t, r.Q), "not redelivered")
			recipetest.AtRest(t, r.Raw, r.Path)
		})
		// With the caller's operations, which are carried out once: a receipt shows
		// whether they were.
		t.Run(how+", with operations", func(t *testing.T) {
			t.Parallel()
			r := recipetest.NewQueueRig(t, nil)
			recipetest.PutOn(t, r.Q, "x", "y")
			_, err := r.Raw.Create(r.Path+"-done", nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			for i, op := range []string{
				"multi(setData,delete,delete,delete,create,setData)",
				"multi(setData,delete,delete,delete,create,setData)",
			} {
				it := recipetest.TakeOn(t, r.Q)
				rule := r.P.On(op, 1, action)
				a := recipetest.AckLater(t, it,
					zkrecipes.OpCreate(r.Path+"-done/", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll)),
					zkrecipes.OpSet(r.Path+"-done", []byte(it.ID), -1))
				r.P.Await(rule)
				a.Get()
				require.ErrorIs(t, it.Err(), zkrecipes.ErrReleased)
				require.Len(t, harness.Children(t, r.Raw, r.Path+"-done"), i+1)
				data, stat, err := r.Raw.Get(r.Path + "-done")
				require.NoError(t, err)
				require.Equal(t, string(it.ID), string(data))
				require.EqualValues(t, i+1, stat.Version)
			}
			require.Empty(t, recipetest.Drain(t, r.Q))
			recipetest.AtRest(t, r.Raw, r.Path)
		})
	}
}

// If one of the caller's operations fails, Ack changes nothing, returns an error that
// names the operation, and the item stays claimed. That also holds for NoNode, and
// after an earlier reply was lost.
func TestB44CallersOperationThatFailsIsAnErrorAndNothingIsDone(t *testing.T) {
	r := recipetest.NewQueueRig(t, nil)
	recipetest.PutOn(t, r.Q, "x")
	it := recipetest.TakeOn(t, r.Q)
	ops := []zkrecipes.Op{
		zkrecipes.OpCreate(r.Path+"-effect", nil, 0, zk.WorldACL(zk.PermAll)),
		zkrecipes.OpDelete(r.Path+"-missing", -1),
	}
	op := "multi(setData,delete,delete,delete,create,delete)"
	ackAndFail(t, it, ops)
	for _, action := range []harness.Action{harness.DropBefore, harness.DropAfter} {
		rule := r.P.On(op, 1, action)
		ackAndFail(t, it, ops)
		r.P.Await(rule)
	}
	err := it.Ack(r.Ctx, ops...)
	require.EqualError(t, err, "zkrecipes: ack an item of "+r.Path+": operation 1: zk: node does not exist")
	require.ErrorContains(t, it.Ack(r.Ctx, zkrecipes.Op{}), "operation 0: the zero Op")
	exists, _, err := r.Raw.Exists(r.Path + "-effect")
	require.NoError(t, err)
	require.False(t, exists)
	require.NoError(t, it.Err())
	require.NoError(t, it.Ack(r.Ctx, ops[0]))
	exists, _, err = r.Raw.Exists(r.Path + "-effect")
	require.NoError(t, err)
	require.True(t, exists)
	require.Empty(t, recipetest.Drain(t, r.Q))
}

// ackAndFail acks with operations the second of which fails.
func ackAndFail(t *testing.T, it *zkrecipes.Item, ops []zkrecipes.Op) {
	t.Helper()
	_, err := recipetest.AckLater(t, it, ops...).Wait()
	require.ErrorIs(t, err, zk.ErrNoNode)
	require.ErrorContains(t, err, "operation 1:")
	require.NoError(t, it.Err(), "still claimed")
}

// An operator deletes the claim while the outcome of the ack is unknown. With the
// caller's operations, the receipt shows that nothing was carried out.
func TestB44AckOfAClaimThatWasDeletedIsLost(t *testing.T) {
	for _, with := range []bool{false, true} {
		for _, which := range []string{"flag", "claim", "both"} {
			t.Run(fmt.Sprintf("%s, operations=%v", which, with), func(t *testing.T) {
				t.Parallel()
				r := recipetest.NewQueueRig(t, nil)
				r.Warm()
				recipetest.PutOn(t, r.Q, "x")
				it := recipetest.TakeOn(t, r.Q)
				p := recipetest.HandleOf(recipetest.LeaseOf(it)).Grant.Place()
				op, ops := recipetest.OpAck, []zkrecipes.Op(nil)
				if with {
					op, ops = "multi(setData,delete,delete,delete,create)",
						[]zkrecipes.Op{zkrecipes.OpCreate(r.Path+"-effect", nil, 0, zk.WorldACL(zk.PermAll))}
				}
				rule := r.P.On(op, 1, harness.DropBefore) // so that it is sent again
				second := r.P.On(op, 1, harness.Hold)
				a := recipetest.AckLater(t, it, ops...)
				r.P.Await(rule)
				r.P.Await(second)
				if which != "claim" {
					require.NoError(t, r.Raw.Delete(p.Path, -1))
				}
				if which != "flag" {
					require.NoError(t, r.Raw.Delete(recipetest.TakenOf(it).Claim.Exclusion(), -1))
				}
				second.Release()
				_, err := a.Wait()
				if !with && which == "both" { // the outcome cannot be found out; at worst the item is delivered once more
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, zkrecipes.ErrLost)
					require.ErrorIs(t, it.Err(), zkrecipes.ErrLost)
				}
				exists, _, err := r.Raw.Exists(r.Path + "-effect")
				require.NoError(t, err)
				require.False(t, exists)
				again := recipetest.TakeOn(t, r.Other())
				require.Equal(t, it.ID, again.ID)
				require.Equal(t, 2, again.Attempt)
				recipetest.AckOn(t, again)
				recipetest.AtRest(t, r.Raw, r.Path)
			})
		}
	}
}

// Once the session has expired the outcome cannot be found out, with or without
// operations.
func TestB44AckWhoseSessionExpiresIsUncertain(t *testing.T) {
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after=%v", after), func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				q := w.Queue(w.Stranger(nil))
				recipetest.PutOn(t, q, "x")
				it := recipetest.TakeOn(t, q)
				w.Plan.Add(zktest.Fault{Do: zktest.Expire, After: after, Op: recipetest.OpAck})
				err := it.Ack(t.Context())
				require.ErrorIs(t, err, zkrecipes.ErrUncertain)
				synctest.Wait()
				require.Error(t, it.Err())
				if after {
					require.Empty(t, w.Items())
				} else {
					require.Equal(t, []string{"x"}, recipetest.Drain(t, q))
				}
			})
		})
	}
}

// If ctx ends before an ack is sent, nothing is carried out. If it ends later, the
// outcome is uncertain. The client resolves it in the background, and Err returns it.
func TestB32AckWhoseContextEndsIsUncertainOnlyOnceSent(t *testing.T) {
	r := recipetest.NewQueueRig(t, nil)
	recipetest.PutOn(t, r.Q, "x", "y")
	it := recipetest.TakeOn(t, r.Q)
	r.P.Refuse(true)
	harness.Eventually(t, "disconnected", func() bool { s, _ := recipetest.Core(r.C).Session(); up, _ := s.Connected(); return !up })
	a := recipetest.AckLater(t, it)
	a.Cancel(nil)
	_, err := a.Wait()
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, zkrecipes.ErrUncertain)
	require.NoError(t, it.Err())
	r.P.Refuse(false)

	rule := r.P.On(recipetest.OpAck, 1, harness.Hold)
	a = recipetest.AckLater(t, it)
	r.P.Await(rule)
	a.Cancel(nil)
	_, err = a.Wait()
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, zkrecipes.ErrUncertain)
	require.NoError(t, it.Err())
	second := recipetest.AckLater(t, it)
	rule.Release()
	_, err = second.Wait()
	require.ErrorIs(t, err, zkrecipes.ErrReleased, "the first ack was carried out")
	require.ErrorIs(t, it.Err(), zkrecipes.ErrReleased)

	it = recipetest.TakeOn(t, r.Q)
	rule = r.P.On(recipetest.OpAck, 1, harness.DropBefore)
	again := r.P.On(recipetest.OpAck, 1, harness.Hold)
	a = recipetest.AckLater(t, it)
	r.P.Await(rule)
	a.Cancel(nil)
	_, err = a.Wait()
	require.ErrorIs(t, err, zkrecipes.ErrUncertain)
	r.P.Await(again)
	again.Release()
	harness.Eventually(t, "acked", func() bool { return errors.Is(it.Err(), zkrecipes.ErrReleased) })
	require.Empty(t, recipetest.Drain(t, r.Q))
}

// A nack whose reply is lost, and that is sent again, never deletes the next
// consumer's claim.
func TestB07NackOfAQueuesItemWhoseReplyIsLostLeavesTheNextClaimAlone(t *testing.T) {
	r := recipetest.NewQueueRig(t, nil)
	other := r.Other()
	recipetest.PutOn(t, r.Q, "x")
	it := recipetest.TakeOn(t, r.Q)
	rule := r.P.On(recipetest.OpNack, 1, harness.DropAfter)
	again := r.P.On(recipetest.OpNack, 1, harness.Hold)
	require.NoError(t, it.Nack(r.Ctx))
	r.P.Await(rule)
	next := recipetest.TakeOn(t, other)
	require.Equal(t, it.ID, next.ID)
	r.P.Await(again)
	again.Release()
	recipetest.PutOn(t, r.Q, "y")
	it = recipetest.TakeOn(t, r.Q)
	require.Equal(t, "y", string(it.Data))
	recipetest.AckOn(t, it)
	require.NoError(t, next.Err())
	recipetest.AckOn(t, next)
	recipetest.AtRest(t, r.Raw, r.Path)
}

// Nack while disconnected returns at once. The client gives the item back once it is
// connected.
func TestB08NackWhileDisconnectedReturnsAtOnce(t *testing.T) {
	r := recipetest.NewQueueRig(t, nil)
	recipetest.PutOn(t, r.Q, "x")
	it := recipetest.TakeOn(t, r.Q)
	r.P.Refuse(true)
	harness.Eventually(t, "disconnected", func() bool { s, _ := recipetest.Core(r.C).Session(); up, _ := s.Connected(); return !up })
	require.NoError(t, it.Nack(r.Ctx))
	require.ErrorIs(t, it.Err(), zkrecipes.ErrReleased)
	next := recipetest.TakeLater(t, r.Other())
	r.P.Refuse(false)
	again := next.Get()
	require.Equal(t, 2, again.Attempt)
	recipetest.AckOn(t, again)
}

// The operations that the caller gives to Ack are carried out exactly once, whatever
// is lost.
func TestB53AckWithOperationsIsCarriedOutExactlyOnce(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(nil))
		_, err := q.PutAll(t.Context(), []byte("0"), []byte("1"), []byte("2"), []byte("3"))
		require.NoError(t, err)
		for i, fault := range []zktest.Fault{
			{Do: zktest.Drop, Times: 3},
			{Do: zktest.Drop, After: true},
			{Do: zktest.Answer, Code: -7, Times: 2},
			{Do: zktest.Answer, Code: -7, After: true},
		} {
			it := recipetest.TakeOn(t, q)
			fault.Op, fault.Path = "multi", "/effect*"
			w.Plan.Add(fault)
			require.NoError(t, it.Ack(t.Context(), zkrecipes.OpCreate(fmt.Sprint("/effect", i), nil, 0, nil)), "%v", fault)
			require.Len(t, w.Items(), 3-i)
		}
		require.Equal(t, map[string]int{"drop before": 3, "drop after": 1, "answer before": 2, "answer after": 1}, w.Plan.Fired())
	})
}
