package zkrecipes

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// A put whose reply is lost is sent again. Its receipt shows whether the first attempt
// was applied. The item may have been consumed by then.
func TestB42PutWhoseReplyIsLostMakesOneItem(t *testing.T) {
	for _, op := range []string{opReceipt, opPut, opSealing} {
		for how, action := range losses {
			for _, consumed := range []bool{false, true} {
				if consumed && action == harness.DropBefore {
					continue
				}
				t.Run(fmt.Sprintf("%s, %s, consumed=%v", op, how, consumed), func(t *testing.T) {
					t.Parallel()
					r := newQueueRig(t, nil)
					r.q.itemQueue.SegmentSize = 3
					want := []string{}
					if op != opReceipt {
						putOn(t, r.q, "warm")
						want = append(want, "warm")
					}
					if op == opSealing {
						putOn(t, r.q, "1")
						want = append(want, "1")
					}
					rule := r.p.On(op, 1, action)
					a := putLater(t, r.q, "lost")
					r.p.Await(rule)
					if consumed {
						var it *Item
						other := r.other()
						for it == nil || string(it.Data) != "lost" {
							it = takeOn(t, other)
							ackOn(t, it)
						}
						want = nil
					} else {
						want = append(want, "lost")
					}
					id := a.Get()
					require.Len(t, string(id), 22)
					putOn(t, r.q, "next")
					require.Equal(t, append(want, "next"), drain(t, r.q))
					require.LessOrEqual(t, len(harness.Children(t, r.raw, r.path+"/puts")), 1, "one receipt")
				})
			}
		}
	}
}

// Concurrent puts have receipts of their own. Later puts reuse them.
func TestB42ReceiptsOfPutsThatOverlapAreSeparate(t *testing.T) {
	r := newQueueRig(t, nil)
	r.warm()
	for range 3 {
		rule := r.p.On(opPut, 1, harness.DropAfter)
		var puts []*harness.Call[ItemID]
		for i := range 5 {
			puts = append(puts, putLater(t, r.q, fmt.Sprint(i)))
		}
		r.p.Await(rule)
		for _, a := range puts {
			a.Get()
		}
		r.p.Off(rule)
		require.Len(t, drain(t, r.q), 5)
	}
	require.LessOrEqual(t, len(harness.Children(t, r.raw, r.path+"/puts")), 5, "no more than concurrent puts")
	for range 20 {
		putOn(t, r.q, "x")
	}
	require.LessOrEqual(t, len(harness.Children(t, r.raw, r.path+"/puts")), 5)
}

// If the session ends before the reply, the outcome is unknown.
func TestB42PutIsUncertainIfTheSessionEndsBeforeItsReply(t *testing.T) {
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after=%v", after), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				q := w.queue(w.stranger(nil))
				warm(t, q)
				w.plan.Add(zktest.Fault{Do: zktest.Expire, After: after, Op: opPut})
				id, err := q.Put(t.Context(), []byte("x"))
				require.ErrorIs(t, err, ErrUncertain)
				require.ErrorIs(t, err, zk.ErrSessionExpired)
				require.Len(t, string(id), 22, "the ID is returned, so that the caller can search for it")
				var there []ItemID
				for e, err := range q.Items(t.Context()) {
					require.NoError(t, err)
					there = append(there, e.ID)
				}
				if after {
					require.Equal(t, []ItemID{id}, there)
				} else {
					require.Empty(t, there)
				}
				putOn(t, q, "next")
			})
		})
	}
}

// A put that was not sent before its session ended is sent in the next one.
func TestB42UnsentPutIsSentInTheNextSession(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		q := w.queue(c)
		warm(t, q)
		old := sessionID(c)
		w.plan.Add(zktest.Fault{Do: zktest.Refuse, Times: 100})
		require.True(t, w.srv.Disconnect(old))
		synctest.Wait()
		a := putLater(t, q, "x")
		synctest.Wait()
		require.True(t, w.srv.Expire(old))
		w.plan.Stop()
		a.Get()
		require.NotEqual(t, old, sessionID(c))
		require.Equal(t, []string{"x"}, drain(t, q))
	})
}

// ctx ends before or after a put is sent. A put that was not sent has failed. One that
// was sent is uncertain, and its receipt is reused.
func TestB32CancelledPutIsUncertainOnlyOnceItIsSent(t *testing.T) {
	r := newQueueRig(t, nil)
	r.warm()

	r.p.Refuse(true)
	harness.Eventually(t, "disconnected", func() bool { s, _ := r.c.client.Session(); up, _ := s.Connected(); return !up })
	a := putLater(t, r.q, "never sent")
	a.Cancel(nil)
	id, err := a.Wait()
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, ErrUncertain)
	require.Empty(t, id)
	r.p.Refuse(false)

	rule := r.p.On(opPut, 1, harness.Hold)
	a = putLater(t, r.q, "sent")
	r.p.Await(rule)
	a.Cancel(nil)
	id, err = a.Wait()
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, ErrUncertain)
	require.NotEmpty(t, id)
	rule.Release()
	it := takeOn(t, r.q)
	require.Equal(t, id, it.ID)
	ackOn(t, it)
	require.Len(t, harness.Children(t, r.raw, r.path+"/puts"), 1)
	putOn(t, r.q, "next")
	require.Len(t, harness.Children(t, r.raw, r.path+"/puts"), 1, "the receipt was reused")

	rule = r.p.On(opPut, 1, harness.Withhold)
	a = putLater(t, r.q, "replies are lost")
	r.p.Await(rule)
	a.Cancel(nil)
	_, err = a.Wait()
	require.ErrorIs(t, err, ErrUncertain)
	r.p.Drop()
	require.Equal(t, []string{"next", "replies are lost"}, drain(t, r.q))
	harness.Eventually(t, "receipt discarded", func() bool { return len(harness.Children(t, r.raw, r.path+"/puts")) == 0 })
}

// The receipts are deleted together with the queue. The outcome of a put or an ack
// under way is then unknown, and it must not be applied a second time: others may have
// seen the item, or the effects of the ack. It makes no difference whether the
// receipts' parent has been created again.
func TestB42PutsAndAcksAreUncertainIfTheirReceiptsAreDeletedWithTheQueue(t *testing.T) {
	const ackAndCreate = "multi(setData,delete,delete,delete,create)"
	for _, parent := range []bool{false, true} {
		deleteQueue := func(r *queueRig) {
			removeTree(t, r.raw, r.path)
			if parent {
				_, err := r.raw.CreateContainer(r.path, nil, zk.FlagContainer, zk.WorldACL(zk.PermAll))
				require.NoError(t, err)
				_, err = r.raw.CreateContainer(r.path+"/puts", nil, zk.FlagContainer, zk.WorldACL(zk.PermAll))
				require.NoError(t, err)
			}
			r.p.Drop()
		}
		t.Run(fmt.Sprintf("put, parent=%v", parent), func(t *testing.T) {
			r := newQueueRig(t, nil)
			rule := r.p.On(opPut, 1, harness.Withhold)
			a := putLater(t, r.q, "0")
			r.p.Await(rule)
			harness.Eventually(t, "put", func() bool {
				names, _, err := r.raw.Children(r.path + "/s/0000000000")
				return err == nil && len(names) == 1
			})
			deleteQueue(r)
			id, err := a.Wait()
			require.ErrorIs(t, err, ErrUncertain)
			require.NotEmpty(t, id)
			putOn(t, r.q, "1")
			require.Equal(t, []string{"1"}, drain(t, r.q))
		})
		t.Run(fmt.Sprintf("ack, parent=%v", parent), func(t *testing.T) {
			r := newQueueRig(t, nil)
			putOn(t, r.other(), "0")
			it := takeOn(t, r.q)
			rule := r.p.On(ackAndCreate, 1, harness.Withhold)
			a := ackLater(t, it, OpCreate(r.path+"-done", nil, 0, nil))
			r.p.Await(rule)
			harness.Eventually(t, "acked", func() bool {
				done, _, err := r.raw.Exists(r.path + "-done")
				return done && err == nil
			})
			deleteQueue(r)
			_, err := a.Wait()
			require.ErrorIs(t, err, ErrUncertain)
			require.NotErrorIs(t, err, ErrLost)
		})
	}
}
