package queue_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// A put whose reply is lost is sent again. Its receipt shows whether the first attempt
// was applied. The item may have been consumed by then.
func TestB42PutWhoseReplyIsLostMakesOneItem(t *testing.T) {
	for _, op := range []string{recipetest.OpReceipt, recipetest.OpPut, recipetest.OpSealing} {
		for how, action := range losses {
			for _, consumed := range []bool{false, true} {
				if consumed && action == harness.DropBefore {
					continue
				}
				t.Run(fmt.Sprintf("%s, %s, consumed=%v", op, how, consumed), func(t *testing.T) {
					t.Parallel()
					r := recipetest.NewQueueRig(t, nil)
					recipetest.QueueOf(r.Q).SegmentSize = 3
					want := []string{}
					if op != recipetest.OpReceipt {
						recipetest.PutOn(t, r.Q, "warm")
						want = append(want, "warm")
					}
					if op == recipetest.OpSealing {
						recipetest.PutOn(t, r.Q, "1")
						want = append(want, "1")
					}
					rule := r.P.On(op, 1, action)
					a := recipetest.PutLater(t, r.Q, "lost")
					r.P.Await(rule)
					if consumed {
						var it *zkrecipes.Item
						other := r.Other()
						for it == nil || string(it.Data) != "lost" {
							it = recipetest.TakeOn(t, other)
							recipetest.AckOn(t, it)
						}
						want = nil
					} else {
						want = append(want, "lost")
					}
					id := a.Get()
					require.Len(t, string(id), 22)
					recipetest.PutOn(t, r.Q, "next")
					require.Equal(t, append(want, "next"), recipetest.Drain(t, r.Q))
					require.LessOrEqual(t, len(harness.Children(t, r.Raw, r.Path+"/puts")), 1, "one receipt")
				})
			}
		}
	}
}

// Concurrent puts have receipts of their own. Later puts reuse them.
func TestB42ReceiptsOfPutsThatOverlapAreSeparate(t *testing.T) {
	r := recipetest.NewQueueRig(t, nil)
	r.Warm()
	for range 3 {
		rule := r.P.On(recipetest.OpPut, 1, harness.DropAfter)
		var puts []*harness.Call[zkrecipes.ItemID]
		for i := range 5 {
			puts = append(puts, recipetest.PutLater(t, r.Q, fmt.Sprint(i)))
		}
		r.P.Await(rule)
		for _, a := range puts {
			a.Get()
		}
		r.P.Off(rule)
		require.Len(t, recipetest.Drain(t, r.Q), 5)
	}
	require.LessOrEqual(t, len(harness.Children(t, r.Raw, r.Path+"/puts")), 5, "no more than concurrent puts")
	for range 20 {
		recipetest.PutOn(t, r.Q, "x")
	}
	require.LessOrEqual(t, len(harness.Children(t, r.Raw, r.Path+"/puts")), 5)
}

// If the session ends before the reply, the outcome is unknown.
func TestB42PutIsUncertainIfTheSessionEndsBeforeItsReply(t *testing.T) {
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after=%v", after), func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				q := w.Queue(w.Stranger(nil))
				recipetest.Warm(t, q)
				w.Plan.Add(zktest.Fault{Do: zktest.Expire, After: after, Op: recipetest.OpPut})
				id, err := q.Put(t.Context(), []byte("x"))
				require.ErrorIs(t, err, zkrecipes.ErrUncertain)
				require.ErrorIs(t, err, zk.ErrSessionExpired)
				require.Len(t, string(id), 22, "the ID is returned, so that the caller can search for it")
				var there []zkrecipes.ItemID
				for e, err := range q.Items(t.Context()) {
					require.NoError(t, err)
					there = append(there, e.ID)
				}
				if after {
					require.Equal(t, []zkrecipes.ItemID{id}, there)
				} else {
					require.Empty(t, there)
				}
				recipetest.PutOn(t, q, "next")
			})
		})
	}
}

// A put that was not sent before its session ended is sent in the next one.
func TestB42UnsentPutIsSentInTheNextSession(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		q := w.Queue(c)
		recipetest.Warm(t, q)
		old := recipetest.SessionID(c)
		w.Plan.Add(zktest.Fault{Do: zktest.Refuse, Times: 100})
		require.True(t, w.Srv.Disconnect(old))
		synctest.Wait()
		a := recipetest.PutLater(t, q, "x")
		synctest.Wait()
		require.True(t, w.Srv.Expire(old))
		w.Plan.Stop()
		a.Get()
		require.NotEqual(t, old, recipetest.SessionID(c))
		require.Equal(t, []string{"x"}, recipetest.Drain(t, q))
	})
}

// ctx ends before or after a put is sent. A put that was not sent has failed. One that
// was sent is uncertain, and its receipt is used again once its outcome is known.
func TestB32CancelledPutIsUncertainOnlyOnceItIsSent(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		q := w.Queue(c)
		recipetest.Warm(t, q)
		canceled := func(data string) (zkrecipes.ItemID, error) {
			a := w.PutLater(q, data)
			a.Cancel(nil)
			id, err := a.Wait()
			require.ErrorIs(t, err, context.Canceled)
			return id, err
		}
		receipts := func() []string {
			synctest.Wait() // they are given back in the background
			return w.Srv.Children(w.Path + "/puts")
		}

		w.Away(c)
		id, err := canceled("never sent")
		require.NotErrorIs(t, err, zkrecipes.ErrUncertain)
		require.Empty(t, id)
		w.Back()
		recipetest.Warm(t, q)

		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpPut, For: time.Second})
		id, err = canceled("sent")
		require.ErrorIs(t, err, zkrecipes.ErrUncertain)
		it := recipetest.TakeOn(t, q)
		require.Equal(t, id, it.ID)
		recipetest.AckOn(t, it)
		require.Len(t, receipts(), 1)
		recipetest.PutOn(t, q, "next")
		require.Len(t, receipts(), 1, "the receipt was reused")

		w.Plan.Add(zktest.Fault{Do: zktest.Withhold, Op: recipetest.OpPut, After: true})
		_, err = canceled("its reply is lost")
		require.ErrorIs(t, err, zkrecipes.ErrUncertain)
		require.True(t, w.Srv.Disconnect(recipetest.SessionID(c)))
		require.Equal(t, []string{"next", "its reply is lost"}, recipetest.Drain(t, q))
		require.Empty(t, receipts(), "discarded")
	})
}

// The receipts are deleted together with the queue. The outcome of a put or an ack
// under way is then unknown, and it must not be applied a second time: others may have
// seen the item, or the effects of the ack. It makes no difference whether the
// receipts' parent has been created again.
func TestB42PutsAndAcksAreUncertainIfTheirReceiptsAreDeletedWithTheQueue(t *testing.T) {
	const ackAndCreate = "multi(setData,delete,delete,delete,create)"
	for _, parent := range []bool{false, true} {
		deleteQueue := func(r *recipetest.QueueRig) {
			recipetest.RemoveTree(t, r.Raw, r.Path)
			if parent {
				_, err := r.Raw.CreateContainer(r.Path, nil, zk.FlagContainer, zk.WorldACL(zk.PermAll))
				require.NoError(t, err)
				_, err = r.Raw.CreateContainer(r.Path+"/puts", nil, zk.FlagContainer, zk.WorldACL(zk.PermAll))
				require.NoError(t, err)
			}
			r.P.Drop()
		}
		t.Run(fmt.Sprintf("put, parent=%v", parent), func(t *testing.T) {
			r := recipetest.NewQueueRig(t, nil)
			rule := r.P.On(recipetest.OpPut, 1, harness.Withhold)
			a := recipetest.PutLater(t, r.Q, "0")
			r.P.Await(rule)
			harness.Eventually(t, "put", func() bool {
				names, _, err := r.Raw.Children(r.Path + "/s/0000000000")
				return err == nil && len(names) == 1
			})
			deleteQueue(r)
			id, err := a.Wait()
			require.ErrorIs(t, err, zkrecipes.ErrUncertain)
			require.NotEmpty(t, id)
			recipetest.PutOn(t, r.Q, "1")
			require.Equal(t, []string{"1"}, recipetest.Drain(t, r.Q))
		})
		t.Run(fmt.Sprintf("ack, parent=%v", parent), func(t *testing.T) {
			r := recipetest.NewQueueRig(t, nil)
			recipetest.PutOn(t, r.Other(), "0")
			it := recipetest.TakeOn(t, r.Q)
			rule := r.P.On(ackAndCreate, 1, harness.Withhold)
			a := recipetest.AckLater(t, it, zkrecipes.OpCreate(r.Path+"-done", nil, 0, nil))
			r.P.Await(rule)
			harness.Eventually(t, "acked", func() bool {
				done, _, err := r.Raw.Exists(r.Path + "-done")
				return done && err == nil
			})
			deleteQueue(r)
			_, err := a.Wait()
			require.ErrorIs(t, err, zkrecipes.ErrUncertain)
			require.NotErrorIs(t, err, zkrecipes.ErrLost)
		})
	}
}
