package zkrecipes

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// claimOps are the transactions that claim an item: in the line, and where nobody stands
// there.
var claimOps = []string{opClaim, opClaimAlone}

// takeOneBy puts an item and has it taken by the transaction op. hook is called before
// that one can be sent.
func (r *queueRig) takeOneBy(op string, hook func()) (ItemID, *harness.Call[*Item]) {
	r.t.Helper()
	r.warm()
	if op == opClaimAlone {
		id := putOn(r.t, r.q, "x")[0]
		hook()
		return id, takeLater(r.t, r.q)
	}
	a := takeLater(r.t, r.q)
	lineUp(r.t, r.raw, r.path+"/line", 1, r.c)
	hook()
	return putOn(r.t, r.other(), "x")[0], a
}

// A claim that was carried out holds although its reply is lost.
func TestB43ClaimWhoseReplyIsLostIsKept(t *testing.T) {
	for _, op := range claimOps {
		testClaimWhoseReplyIsLost(t, op)
	}
}

func testClaimWhoseReplyIsLost(t *testing.T, op string) {
	for how, action := range losses {
		for _, others := range []bool{false, true} {
			if others && op == opClaimAlone {
				continue // the other one may be quicker
			}
			t.Run(fmt.Sprintf("%s %s, others=%v", op, how, others), func(t *testing.T) {
				t.Parallel()
				r := newQueueRig(t, nil)
				var rule *harness.Rule
				id, a := r.takeOneBy(op, func() { rule = r.p.On(op, 1, action) })
				r.p.Await(rule)
				var b *harness.Call[*Item]
				if others {
					b = takeLater(t, r.other())
				}
				it := a.Get()
				require.Equal(t, id, it.ID)
				require.Equal(t, "x", string(it.Data))
				require.Equal(t, 1, it.Attempt, "claimed once")
				require.NoError(t, it.Err())
				require.Positive(t, it.Token())
				if others {
					require.True(t, b.Waiting())
				}
				ackOn(t, it)
				if others {
					putOn(t, r.q, "y")
					ackOn(t, b.Get())
				}
				atRest(t, r.raw, r.path)
			})
		}
	}
}

// The reply to a claim is lost, and meanwhile an operator deletes the claim or a part
// of it. The consumer deletes what is left of it, and claims again.
func TestB43ClaimDeletedWhileItsReplyIsLostIsMadeAgain(t *testing.T) {
	for _, op := range claimOps {
		testClaimDeletedWhileItsReplyIsLost(t, op)
	}
}

func testClaimDeletedWhileItsReplyIsLost(t *testing.T, op string) {
	for _, which := range []string{"flag", "claim", "both"} {
		t.Run(op+" "+which, func(t *testing.T) {
			t.Parallel()
			r := newQueueRig(t, nil)
			var rule, again *harness.Rule
			_, a := r.takeOneBy(op, func() {
				rule = r.p.On(op, 1, harness.DropAfter)
				again = r.p.On(op, 1, harness.Hold)
			})
			r.p.Await(rule)
			r.p.Await(again)
			segment := r.path + "/s/0000000000"
			for _, name := range harness.Children(t, r.raw, segment) {
				if len(name) > nameLength && which != "claim" {
					require.NoError(t, r.raw.Delete(segment+"/"+name, -1))
				}
				if len(name) == nameLength && which != "flag" {
					require.NoError(t, r.raw.Delete(segment+"/"+name+queuelog.ClaimName, -1))
				}
			}
			again.Release()
			it := a.Get()
			require.NoError(t, it.Err())
			if which == "claim" { // which the consumer finds out when it acks
				require.ErrorIs(t, it.Ack(r.ctx), ErrLost)
				it = takeOn(t, r.q)
			}
			require.Equal(t, 2, it.Attempt)
			ackOn(t, it)
			atRest(t, r.raw, r.path)
		})
	}
}

// ctx ends while a request of a Take is in flight. While there is a connection, a Take
// whose claim is under way returns the item, and nothing is claimed for nobody.
func TestB43TakeCancelledAtEachRequestKeepsOrGivesBackTheItem(t *testing.T) {
	for _, op := range []string{opJoin, "getChildren2", opClaim, opClaimAlone, "getData"} {
		for _, action := range []harness.Action{harness.Hold, harness.HoldReply, harness.Withhold} {
			t.Run(fmt.Sprintf("%s %d", op, action), func(t *testing.T) {
				t.Parallel()
				testTakeCancelledAt(t, op, action)
			})
		}
	}
}

func testTakeCancelledAt(t *testing.T, op string, action harness.Action) {
	r := newQueueRig(t, nil)
	var rule *harness.Rule
	var a *harness.Call[*Item]
	if op == opJoin {
		r.warm()
		rule = r.p.On(op, 1, action)
		a = takeLater(t, r.q)
		r.p.Await(rule)
		putOn(t, r.other(), "x")
	} else {
		_, a = r.takeOneBy(op, func() { rule = r.p.On(op, 1, action) })
		r.p.Await(rule)
	}
	a.Cancel(nil)
	attempt, err, it := 1, error(nil), (*Item)(nil)
	switch claims := op != opJoin && op != "getChildren2"; {
	case action == harness.Withhold:
		r.p.Drop()
		attempt = 2
		it, err = a.Wait()
	case claims:
		time.Sleep(10 * time.Millisecond) // a Take that does not wait would have returned
		require.True(t, a.Waiting())
		rule.Release()
		it, err = a.Wait()
		require.NoError(t, err)
	default:
		it, err = a.Wait()
		rule.Release()
	}
	if err != nil {
		require.ErrorIs(t, err, context.Canceled)
		it = takeOn(t, r.other())
	}
	require.Equal(t, "x", string(it.Data))
	require.LessOrEqual(t, it.Attempt, attempt)
	ackOn(t, it)
	atRest(t, r.raw, r.path)
}

// The session expires at any request of a Take. Take goes on in the next session, and
// returns no item that is not claimed on the servers.
func TestB11ExpiryAtEachRequestOfATakeFromAQueueIsNeverReportedHeld(t *testing.T) {
	for _, op := range []string{opJoin, "getChildren2", opClaim, opClaimAlone, "getData"} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s after=%v", op, after), func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					inLine := op == opJoin || op == opClaim
					var e events
					c := w.stranger(&Options{Trace: e.trace()})
					q, other := w.queue(c), w.queue(w.stranger(nil))
					warm(t, q)
					synctest.Wait()
					granted := e.count("granted")
					old := sessionID(c)
					if !inLine {
						putOn(t, other, "x")
					}
					w.plan.Add(zktest.Fault{Do: zktest.Expire, After: after, Op: op})
					a := takeLater(t, q)
					if inLine {
						synctest.Wait()
						putOn(t, other, "x")
					}
					it := a.Get()
					require.NotEqual(t, old, sessionID(c))
					require.NoError(t, it.Err())
					require.Equal(t, []string{it.lease.handle.Grant.Place().Name}, w.flags())
					synctest.Wait()
					require.Equal(t, granted+1, e.count("granted"))
					ackOn(t, it)
					require.Empty(t, w.items())
				})
			})
		}
	}
}
