package queue_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// claimOps are the transactions that claim an item: in the line, and where nobody stands
// there.
var claimOps = []string{recipetest.OpClaim, recipetest.OpClaimAlone}

// A claim that was carried out holds although its reply is lost.
func TestB43ClaimWhoseReplyIsLostIsKept(t *testing.T) {
	for _, op := range claimOps {
		testClaimWhoseReplyIsLost(t, op)
	}
}

func testClaimWhoseReplyIsLost(t *testing.T, op string) {
	for how, action := range losses {
		for _, others := range []bool{false, true} {
			if others && op == recipetest.OpClaimAlone {
				continue // the other one may be quicker
			}
			t.Run(fmt.Sprintf("%s %s, others=%v", op, how, others), func(t *testing.T) {
				t.Parallel()
				r := recipetest.NewQueueRig(t, nil)
				var rule *harness.Rule
				id, a := r.TakeOneBy(op, func() { rule = r.P.On(op, 1, action) })
				r.P.Await(rule)
				var b *harness.Call[*zkrecipes.Item]
				if others {
					b = recipetest.TakeLater(t, r.Other())
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
				recipetest.AckOn(t, it)
				if others {
					recipetest.PutOn(t, r.Q, "y")
					recipetest.AckOn(t, b.Get())
				}
				recipetest.AtRest(t, r.Raw, r.Path)
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
			r := recipetest.NewQueueRig(t, nil)
			var rule, again *harness.Rule
			_, a := r.TakeOneBy(op, func() {
				rule = r.P.On(op, 1, harness.DropAfter)
				again = r.P.On(op, 1, harness.Hold)
			})
			r.P.Await(rule)
			r.P.Await(again)
			segment := r.Path + "/s/0000000000"
			for _, name := range harness.Children(t, r.Raw, segment) {
				if len(name) > recipetest.NameLength && which != "claim" {
					require.NoError(t, r.Raw.Delete(segment+"/"+name, -1))
				}
				if len(name) == recipetest.NameLength && which != "flag" {
					require.NoError(t, r.Raw.Delete(segment+"/"+name+queuelog.ClaimName, -1))
				}
			}
			again.Release()
			it := a.Get()
			require.NoError(t, it.Err())
			if which == "claim" { // which the consumer finds out when it acks
				require.ErrorIs(t, it.Ack(r.Ctx), zkrecipes.ErrLost)
				it = recipetest.TakeOn(t, r.Q)
			}
			require.Equal(t, 2, it.Attempt)
			recipetest.AckOn(t, it)
			recipetest.AtRest(t, r.Raw, r.Path)
		})
	}
}

// ctx ends while a request of a Take is in flight. While there is a connection, a Take
// whose claim is under way returns the item, and nothing is claimed for nobody.
func TestB43TakeCancelledAtEachRequestKeepsOrGivesBackTheItem(t *testing.T) {
	for _, op := range []string{recipetest.OpJoin, "getChildren2", recipetest.OpClaim, recipetest.OpClaimAlone, "getData"} {
		for _, action := range []harness.Action{harness.Hold, harness.HoldReply, harness.Withhold} {
			t.Run(fmt.Sprintf("%s %d", op, action), func(t *testing.T) {
				t.Parallel()
				testTakeCancelledAt(t, op, action)
			})
		}
	}
}

func testTakeCancelledAt(t *testing.T, op string, action harness.Action) {
	r := recipetest.NewQueueRig(t, nil)
	var rule *harness.Rule
	var a *harness.Call[*zkrecipes.Item]
	if op == recipetest.OpJoin {
		r.Warm()
		rule = r.P.On(op, 1, action)
		a = recipetest.TakeLater(t, r.Q)
		r.P.Await(rule)
		recipetest.PutOn(t, r.Other(), "x")
	} else {
		_, a = r.TakeOneBy(op, func() { rule = r.P.On(op, 1, action) })
		r.P.Await(rule)
	}
	a.Cancel(nil)
	attempt, err, it := 1, error(nil), (*zkrecipes.Item)(nil)
	switch claims := op != recipetest.OpJoin && op != "getChildren2"; {
	case action == harness.Withhold:
		r.P.Drop()
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
		it = recipetest.TakeOn(t, r.Other())
	}
	require.Equal(t, "x", string(it.Data))
	require.LessOrEqual(t, it.Attempt, attempt)
	recipetest.AckOn(t, it)
	recipetest.AtRest(t, r.Raw, r.Path)
}

// The session expires at any request of a Take. Take goes on in the next session, and
// returns no item that is not claimed on the servers.
func TestB11ExpiryAtEachRequestOfATakeFromAQueueIsNeverReportedHeld(t *testing.T) {
	for _, op := range []string{recipetest.OpJoin, "getChildren2", recipetest.OpClaim, recipetest.OpClaimAlone, "getData"} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s after=%v", op, after), func(t *testing.T) {
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					inLine := op == recipetest.OpJoin || op == recipetest.OpClaim
					var e recipetest.Events
					c := w.Stranger(&zkrecipes.Options{Trace: e.Trace()})
					q, other := w.Queue(c), w.Queue(w.Stranger(nil))
					recipetest.Warm(t, q)
					synctest.Wait()
					granted := e.Count("granted")
					old := recipetest.SessionID(c)
					if !inLine {
						recipetest.PutOn(t, other, "x")
					}
					w.Plan.Add(zktest.Fault{Do: zktest.Expire, After: after, Op: op})
					a := recipetest.TakeLater(t, q)
					if inLine {
						synctest.Wait()
						recipetest.PutOn(t, other, "x")
					}
					it := a.Get()
					require.NotEqual(t, old, recipetest.SessionID(c))
					require.NoError(t, it.Err())
					require.Equal(t, []string{recipetest.HandleOf(recipetest.LeaseOf(it)).Grant.Place().Name}, w.Flags())
					synctest.Wait()
					require.Equal(t, granted+1, e.Count("granted"))
					recipetest.AckOn(t, it)
					require.Empty(t, w.Items())
				})
			})
		}
	}
}
