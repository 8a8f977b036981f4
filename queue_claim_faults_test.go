package zkrecipes

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// A claim that was carried out holds although its reply is lost.
func TestB43ClaimWhoseReplyIsLostIsKept(t *testing.T) {
	for how, action := range losses {
		for _, others := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, others=%v", how, others), func(t *testing.T) {
				t.Parallel()
				r := newQueueRig(t, nil)
				r.warm()
				id := putOn(t, r.q, "x")[0]
				rule := r.p.On(opClaim, 1, action)
				a := takeLater(t, r.q)
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
	for _, which := range []string{"flag", "claim", "both"} {
		t.Run(which, func(t *testing.T) {
			t.Parallel()
			r := newQueueRig(t, nil)
			r.warm()
			putOn(t, r.q, "x")
			rule := r.p.On(opClaim, 1, harness.DropAfter)
			again := r.p.On(opClaim, 1, harness.Hold)
			a := takeLater(t, r.q)
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

// ctx ends while a request of a Take is in flight. The item is given back if it was
// taken, and no place is left behind.
func TestB43TakeCancelledAtEachRequestGivesTheItemBack(t *testing.T) {
	for _, op := range []string{"multi(create,setData)", "getChildren2", opClaim, "getData"} {
		for _, action := range []harness.Action{harness.Hold, harness.HoldReply, harness.Withhold} {
			t.Run(fmt.Sprintf("%s %d", op, action), func(t *testing.T) {
				t.Parallel()
				r := newQueueRig(t, nil)
				r.warm()
				putOn(t, r.q, "x")
				rule := r.p.On(op, 1, action)
				a := takeLater(t, r.q)
				r.p.Await(rule)
				a.Cancel(nil)
				_, err := a.Wait()
				require.ErrorIs(t, err, context.Canceled)
				if action == harness.Withhold {
					r.p.Drop()
				} else {
					rule.Release()
				}
				it := takeOn(t, r.other())
				require.Equal(t, "x", string(it.Data))
				require.LessOrEqual(t, it.Attempt, 2)
				ackOn(t, it)
				atRest(t, r.raw, r.path)
			})
		}
	}
}

// The session expires at any request of a Take. Take goes on in the next session, and
// returns no item that is not claimed on the servers.
func TestB11ExpiryAtEachRequestOfATakeFromAQueueIsNeverReportedHeld(t *testing.T) {
	for _, op := range []string{"multi(create,setData)", "getChildren2", opClaim, "getData"} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s after=%v", op, after), func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					var e events
					c := w.stranger(&Options{Trace: e.trace()})
					q, other := w.queue(c), w.queue(w.stranger(nil))
					warm(t, q)
					synctest.Wait()
					granted := e.count("granted")
					old := sessionID(c)
					putOn(t, other, "x")
					w.plan.Add(zktest.Fault{Do: zktest.Expire, After: after, Op: op})
					a := takeLater(t, q)
					it := a.Get()
					require.NotEqual(t, old, sessionID(c))
					require.NoError(t, it.Err())
					require.Equal(t, []string{it.lease.g.place().name}, w.flags())
					synctest.Wait()
					require.Equal(t, granted+1, e.count("granted"))
					ackOn(t, it)
					require.Empty(t, w.items())
				})
			})
		}
	}
}
