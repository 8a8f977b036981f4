package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Lost requests and replies of acks and nacks, and sessions that expire meanwhile.

const (
	opReceipt    = "multi(create)"
	opPut        = "multi(setData,check,create)"
	opSealing    = "multi(setData,setData,create,create)"
	opClaim      = "multi(create,create,setData,delete)" // at a turn in the line
	opClaimAlone = "multi(create,create,setData,check)"  // if nobody stands there
	opAck        = "multi(delete,delete,delete)"
	opNack       = "multi(delete,delete)"
	opAckJoin    = "multi(delete,delete,delete,create,setData)"
)

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
			r := newQueueRig(t, nil)
			putOn(t, r.q, "x", "y")
			it := takeOn(t, r.q)
			rule := r.p.On(opAck, 1, action)
			a := ackLater(t, it)
			r.p.Await(rule)
			a.Get()
			require.ErrorIs(t, it.Err(), ErrReleased)
			require.Equal(t, []string{"y"}, drain(t, r.q), "not redelivered")
			atRest(t, r.raw, r.path)
		})
		// With the caller's operations, which are carried out once: a receipt shows
		// whether they were.
		t.Run(how+", with operations", func(t *testing.T) {
			t.Parallel()
			r := newQueueRig(t, nil)
			putOn(t, r.q, "x", "y")
			_, err := r.raw.Create(r.path+"-done", nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			for i, op := range []string{
				"multi(setData,delete,delete,delete,create,setData)",
				"multi(setData,delete,delete,delete,create,setData)",
			} {
				it := takeOn(t, r.q)
				rule := r.p.On(op, 1, action)
				a := ackLater(t, it,
					OpCreate(r.path+"-done/", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll)),
					OpSet(r.path+"-done", []byte(it.ID), -1))
				r.p.Await(rule)
				a.Get()
				require.ErrorIs(t, it.Err(), ErrReleased)
				require.Len(t, harness.Children(t, r.raw, r.path+"-done"), i+1)
				data, stat, err := r.raw.Get(r.path + "-done")
				require.NoError(t, err)
				require.Equal(t, string(it.ID), string(data))
				require.EqualValues(t, i+1, stat.Version)
			}
			require.Empty(t, drain(t, r.q))
			atRest(t, r.raw, r.path)
		})
	}
}

// If one of the caller's operations fails, Ack changes nothing, returns an error that
// names the operation, and the item stays claimed. That also holds for NoNode, and
// after an earlier reply was lost.
func TestB44CallersOperationThatFailsIsAnErrorAndNothingIsDone(t *testing.T) {
	r := newQueueRig(t, nil)
	putOn(t, r.q, "x")
	it := takeOn(t, r.q)
	ops := []Op{
		OpCreate(r.path+"-effect", nil, 0, zk.WorldACL(zk.PermAll)),
		OpDelete(r.path+"-missing", -1),
	}
	op := "multi(setData,delete,delete,delete,create,delete)"
	ackAndFail(t, it, ops)
	for _, action := range []harness.Action{harness.DropBefore, harness.DropAfter} {
		rule := r.p.On(op, 1, action)
		ackAndFail(t, it, ops)
		r.p.Await(rule)
	}
	err := it.Ack(r.ctx, ops...)
	require.EqualError(t, err, "zkrecipes: ack an item of "+r.path+": operation 1: zk: node does not exist")
	require.ErrorContains(t, it.Ack(r.ctx, Op{}), "operation 0: the zero Op")
	exists, _, err := r.raw.Exists(r.path + "-effect")
	require.NoError(t, err)
	require.False(t, exists)
	require.NoError(t, it.Err())
	require.NoError(t, it.Ack(r.ctx, ops[0]))
	exists, _, err = r.raw.Exists(r.path + "-effect")
	require.NoError(t, err)
	require.True(t, exists)
	require.Empty(t, drain(t, r.q))
}

// ackAndFail acks with operations the second of which fails.
func ackAndFail(t *testing.T, it *Item, ops []Op) {
	t.Helper()
	_, err := ackLater(t, it, ops...).Wait()
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
				r := newQueueRig(t, nil)
				r.warm()
				putOn(t, r.q, "x")
				it := takeOn(t, r.q)
				p := it.lease.handle.Grant.Place()
				op, ops := opAck, []Op(nil)
				if with {
					op, ops = "multi(setData,delete,delete,delete,create)",
						[]Op{OpCreate(r.path+"-effect", nil, 0, zk.WorldACL(zk.PermAll))}
				}
				rule := r.p.On(op, 1, harness.DropBefore) // so that it is sent again
				second := r.p.On(op, 1, harness.Hold)
				a := ackLater(t, it, ops...)
				r.p.Await(rule)
				r.p.Await(second)
				if which != "claim" {
					require.NoError(t, r.raw.Delete(p.Path, -1))
				}
				if which != "flag" {
					require.NoError(t, r.raw.Delete(it.takenItem.Claim.Exclusion(), -1))
				}
				second.Release()
				_, err := a.Wait()
				if !with && which == "both" { // the outcome cannot be found out; at worst the item is delivered once more
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, ErrLost)
					require.ErrorIs(t, it.Err(), ErrLost)
				}
				exists, _, err := r.raw.Exists(r.path + "-effect")
				require.NoError(t, err)
				require.False(t, exists)
				again := takeOn(t, r.other())
				require.Equal(t, it.ID, again.ID)
				require.Equal(t, 2, again.Attempt)
				ackOn(t, again)
				atRest(t, r.raw, r.path)
			})
		}
	}
}

// Once the session has expired the outcome cannot be found out, with or without
// operations.
func TestB44AckWhoseSessionExpiresIsUncertain(t *testing.T) {
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after=%v", after), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				q := w.queue(w.stranger(nil))
				putOn(t, q, "x")
				it := takeOn(t, q)
				w.plan.Add(zktest.Fault{Do: zktest.Expire, After: after, Op: opAck})
				err := it.Ack(t.Context())
				require.ErrorIs(t, err, ErrUncertain)
				synctest.Wait()
				require.Error(t, it.Err())
				if after {
					require.Empty(t, w.items())
				} else {
					require.Equal(t, []string{"x"}, drain(t, q))
				}
			})
		})
	}
}

// If ctx ends before an ack is sent, nothing is carried out. If it ends later, the
// outcome is uncertain. The client resolves it in the background, and Err returns it.
func TestB32AckWhoseContextEndsIsUncertainOnlyOnceSent(t *testing.T) {
	r := newQueueRig(t, nil)
	putOn(t, r.q, "x", "y")
	it := takeOn(t, r.q)
	r.p.Refuse(true)
	harness.Eventually(t, "disconnected", func() bool { s, _ := r.c.client.Session(); up, _ := s.Connected(); return !up })
	a := ackLater(t, it)
	a.Cancel(nil)
	_, err := a.Wait()
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, ErrUncertain)
	require.NoError(t, it.Err())
	r.p.Refuse(false)

	rule := r.p.On(opAck, 1, harness.Hold)
	a = ackLater(t, it)
	r.p.Await(rule)
	a.Cancel(nil)
	_, err = a.Wait()
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, ErrUncertain)
	require.NoError(t, it.Err())
	second := ackLater(t, it)
	rule.Release()
	_, err = second.Wait()
	require.ErrorIs(t, err, ErrReleased, "the first ack was carried out")
	require.ErrorIs(t, it.Err(), ErrReleased)

	it = takeOn(t, r.q)
	rule = r.p.On(opAck, 1, harness.DropBefore)
	again := r.p.On(opAck, 1, harness.Hold)
	a = ackLater(t, it)
	r.p.Await(rule)
	a.Cancel(nil)
	_, err = a.Wait()
	require.ErrorIs(t, err, ErrUncertain)
	r.p.Await(again)
	again.Release()
	harness.Eventually(t, "acked", func() bool { return errors.Is(it.Err(), ErrReleased) })
	require.Empty(t, drain(t, r.q))
}

// A nack whose reply is lost, and that is sent again, never deletes the next
// consumer's claim.
func TestB07NackOfAQueuesItemWhoseReplyIsLostLeavesTheNextClaimAlone(t *testing.T) {
	r := newQueueRig(t, nil)
	other := r.other()
	putOn(t, r.q, "x")
	it := takeOn(t, r.q)
	rule := r.p.On(opNack, 1, harness.DropAfter)
	again := r.p.On(opNack, 1, harness.Hold)
	require.NoError(t, it.Nack(r.ctx))
	r.p.Await(rule)
	next := takeOn(t, other)
	require.Equal(t, it.ID, next.ID)
	r.p.Await(again)
	again.Release()
	putOn(t, r.q, "y")
	it = takeOn(t, r.q)
	require.Equal(t, "y", string(it.Data))
	ackOn(t, it)
	require.NoError(t, next.Err())
	ackOn(t, next)
	atRest(t, r.raw, r.path)
}

// Nack while disconnected returns at once. The client gives the item back once it is
// connected.
func TestB08NackWhileDisconnectedReturnsAtOnce(t *testing.T) {
	r := newQueueRig(t, nil)
	putOn(t, r.q, "x")
	it := takeOn(t, r.q)
	r.p.Refuse(true)
	harness.Eventually(t, "disconnected", func() bool { s, _ := r.c.client.Session(); up, _ := s.Connected(); return !up })
	require.NoError(t, it.Nack(r.ctx))
	require.ErrorIs(t, it.Err(), ErrReleased)
	next := takeLater(t, r.other())
	r.p.Refuse(false)
	again := next.Get()
	require.Equal(t, 2, again.Attempt)
	ackOn(t, again)
}

// The operations that the caller gives to Ack are carried out exactly once, whatever
// is lost.
func TestB53AckWithOperationsIsCarriedOutExactlyOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue(w.stranger(nil))
		_, err := q.PutAll(t.Context(), []byte("0"), []byte("1"), []byte("2"), []byte("3"))
		require.NoError(t, err)
		for i, fault := range []zktest.Fault{
			{Do: zktest.Drop, Times: 3},
			{Do: zktest.Drop, After: true},
			{Do: zktest.Answer, Code: -7, Times: 2},
			{Do: zktest.Answer, Code: -7, After: true},
		} {
			it := takeOn(t, q)
			fault.Op, fault.Path = "multi", "/effect*"
			w.plan.Add(fault)
			require.NoError(t, it.Ack(t.Context(), OpCreate(fmt.Sprint("/effect", i), nil, 0, nil)), "%v", fault)
			require.Len(t, w.items(), 3-i)
		}
		require.Equal(t, map[string]int{"drop before": 3, "drop after": 1, "answer before": 2, "answer after": 1}, w.plan.Fired())
	})
}
