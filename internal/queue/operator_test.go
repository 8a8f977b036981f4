package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/placename"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Operators delete parts of a queue, and clients are closed.

// A consumer or producer whose place is deleted returns ErrEvicted, also if it is the
// first in its line and sleeps. "room" is the name of the producers' line.
func TestB22WaiterOfAQueueWhosePlaceIsDeletedIsEvicted(t *testing.T) {
	t.Parallel()
	for _, sub := range []string{"line", "room"} {
		for _, which := range []string{"first", "second"} {
			t.Run(sub+", "+which, func(t *testing.T) {
				t.Parallel()
				r := recipetest.NewQueueRig(t, &zkrecipes.QueueOptions{MaxLen: 1})
				call := func(q *zkrecipes.Queue) func(context.Context) (struct{}, error) {
					return func(ctx context.Context) (struct{}, error) {
						if sub == "room" {
							_, err := q.Put(ctx, []byte("mine"))
							return struct{}{}, err
						}
						it, err := q.Take(ctx)
						if err == nil {
							err = it.Ack(ctx)
						}
						return struct{}{}, err
					}
				}
				if sub == "room" {
					recipetest.PutOn(t, r.Q, "full")
				}
				other := r.Other()
				ahead := harness.Go(t, call(other))
				recipetest.LineUp(t, r.Raw, r.Path+"/"+sub, 1, recipetest.ClientOf(recipetest.QueueOf(other).Client))
				mine := harness.Go(t, call(r.Q))
				recipetest.LineUp(t, r.Raw, r.Path+"/"+sub, 2, r.C)
				if which == "first" {
					ahead, mine = mine, ahead
				}
				places := placename.ParseAll(harness.Children(t, r.Raw, r.Path+"/"+sub), placename.LockKinds)
				slices.SortFunc(places, placename.Parts.Compare)
				victim := places[map[string]int{"first": 0, "second": 1}[which]]
				require.NoError(t, r.Raw.Delete(r.Path+"/"+sub+"/"+victim.Name, -1))
				_, err := mine.Wait()
				require.ErrorIs(t, err, zkrecipes.ErrEvicted)
				require.True(t, ahead.Waiting())
				if sub == "room" {
					recipetest.AckOn(t, recipetest.TakeOn(t, other))
					ahead.Get()
					require.Equal(t, []string{"mine"}, recipetest.Drain(t, other))
				} else {
					recipetest.PutOn(t, zkrecipes.NewQueue(r.C, r.Path, nil), "x")
					ahead.Get()
				}
				recipetest.AtRest(t, r.Raw, r.Path)
			})
		}
	}
}

// A claim is lost if its flag, the znode that excludes others, or both are deleted. If
// the flag is deleted, the holder notices at once. The item is delivered again.
func TestB22ItemWhoseClaimIsDeletedIsLostAndDeliveredAgain(t *testing.T) {
	for _, which := range []string{"flag", "claim", "both"} {
		t.Run(which, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				q, other := w.Queue(w.Stranger(nil)), w.Queue(w.Stranger(nil))
				conn := w.Bare()
				recipetest.PutOn(t, q, "x")
				it := recipetest.TakeOn(t, q)
				p := recipetest.HandleOf(recipetest.LeaseOf(it)).Grant.Place()
				time.Sleep(2 * time.Second) // the flag is watched by now
				next := w.TakeLater(other)
				require.True(t, next.Waiting())
				work := it.Context(t.Context())
				var deleted []any // in one transaction, as consumers delete a claim without a flag
				if which != "claim" {
					deleted = append(deleted, &zk.DeleteRequest{Path: p.Path, Version: -1})
				}
				if which != "flag" {
					deleted = append(deleted, &zk.DeleteRequest{Path: recipetest.TakenOf(it).Claim.Exclusion(), Version: -1})
				}
				_, err := conn.Multi(deleted...)
				require.NoError(t, err)
				synctest.Wait()
				if which == "claim" {
					require.True(t, next.Waiting(), "the flag exists")
					require.NoError(t, it.Err())
					require.ErrorIs(t, it.Ack(t.Context()), zkrecipes.ErrLost)
				}
				require.ErrorIs(t, it.Err(), zkrecipes.ErrLost)
				require.ErrorIs(t, context.Cause(work), zkrecipes.ErrLost)
				again := next.Get()
				require.Equal(t, it.ID, again.ID)
				require.Equal(t, 2, again.Attempt)
				require.Equal(t, []string{recipetest.HandleOf(recipetest.LeaseOf(again)).Grant.Place().Name}, w.Flags())
				require.ErrorIs(t, it.Ack(t.Context()), zkrecipes.ErrLost)
				require.ErrorIs(t, it.Nack(t.Context()), zkrecipes.ErrLost)
				require.NoError(t, again.Err())
				recipetest.AckOn(t, again)
				require.Empty(t, w.Items())
			})
		})
	}
}

// A consumer whose flag was deleted sweeps the rest of its claim. At any of its requests an
// operator deletes that, too, and another consumer takes the item: its claim stays.
func TestB22SweepOfAClaimLeavesTheNextConsumersAlone(t *testing.T) {
	for _, op := range []string{"getData", "multi(setData)", "multi(delete)"} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprint(op, after), func(t *testing.T) {
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					q, conn := w.Queue(w.Stranger(nil)), w.Bare()
					recipetest.PutOn(t, q, "x")
					it := recipetest.TakeOn(t, q)
					time.Sleep(2 * time.Second) // the flag is watched by now
					next := w.TakeLater(w.Queue(w.Stranger(nil)))
					exclusion := recipetest.TakenOf(it).Claim.Exclusion()
					w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: op, Path: exclusion, For: 2 * time.Second, After: after})
					require.NoError(t, conn.Delete(recipetest.TakenOf(it).Claim.Path, -1))
					time.Sleep(time.Second)
					if op != "multi(delete)" || !after { // else it is the next one's
						err := conn.Delete(exclusion, -1)
						// It may be the next consumer's read that was delayed, and not the holder's.
						require.True(t, err == nil || op == "getData" && errors.Is(err, zk.ErrNoNode), "%v", err)
					}
					again := next.Get()
					time.Sleep(time.Minute)
					require.NoError(t, again.Err())
					require.Equal(t, []string{queuelog.ClaimName[1:]}, w.Srv.Children(recipetest.TakenOf(again).Claim.Item), "it excludes")
					recipetest.AckOn(t, again)
					require.Empty(t, w.Items())
				})
			})
		}
	}
}

// A claim whose flag was deleted still excludes other consumers until its holder
// notices. They wait until the rest of the claim is gone, and do nothing else for it.
func TestB22ItemWhoseFlagIsDeletedIsTakenUntilItsClaimGoes(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		q, other := w.Queue(c), w.Queue(w.Stranger(nil))
		conn := w.Bare()
		recipetest.PutOn(t, q, "0")
		it := recipetest.TakeOn(t, q)
		require.NoError(t, conn.Delete(recipetest.HandleOf(recipetest.LeaseOf(it)).Grant.Place().Path, -1)) // the flag is not watched yet
		next := w.TakeLater(other)
		require.True(t, next.Waiting())
		requests := w.Requests(func() { recipetest.PutOn(t, q, "1") })
		require.LessOrEqual(t, requests["sync"], 2)
		second := next.Get()
		require.Equal(t, "1", string(second.Data))
		third := w.TakeLater(other)
		synctest.Wait()
		require.True(t, third.Waiting())
		require.True(t, w.Srv.Expire(recipetest.SessionID(c)))
		again := third.Get()
		require.Equal(t, it.ID, again.ID)
		recipetest.AckOn(t, again)
		recipetest.AckOn(t, second)
		require.Empty(t, w.Items())
	})
}

// The whole queue is deleted, with the places of its waiters. They go on in the queue
// that is created next. Tools delete a tree in one transaction, or one znode after the
// other.
func TestA21TakerAndProducerRecoverWhenTheQueueIsDeleted(t *testing.T) {
	t.Parallel()
	deletions := map[string]func(t *testing.T, r *recipetest.QueueRig){
		"in one transaction": func(t *testing.T, r *recipetest.QueueRig) { recipetest.RemoveTree(t, r.Raw, r.Path) },
		"leaves first": func(t *testing.T, r *recipetest.QueueRig) {
			var remove func(string)
			remove = func(path string) {
				for _, name := range harness.Children(t, r.Raw, path) {
					remove(path + "/" + name)
				}
				_ = r.Raw.Delete(path, -1) // the waiters may have created it again by now
			}
			remove(r.Path)
		},
		"line last": func(t *testing.T, r *recipetest.QueueRig) {
			all := recipetest.Tree(t, r.Raw, r.Path)
			slices.SortFunc(all, func(a, b string) int {
				return strings.Compare(strings.Replace(b, "/line", "/!", 1), strings.Replace(a, "/line", "/!", 1))
			})
			for _, name := range all {
				_ = r.Raw.Delete(r.Path+name, -1)
			}
		},
	}
	for how, remove := range deletions {
		t.Run(how+", takers", func(t *testing.T) {
			t.Parallel()
			r := recipetest.NewQueueRig(t, nil)
			r.Warm()
			other := r.Other()
			first := recipetest.TakeLater(t, r.Q)
			recipetest.LineUp(t, r.Raw, r.Path+"/line", 1, r.C)
			second := recipetest.TakeLater(t, other)
			recipetest.LineUp(t, r.Raw, r.Path+"/line", 2, recipetest.ClientOf(recipetest.QueueOf(other).Client))
			remove(t, r)
			recipetest.LineUp(t, r.Raw, r.Path+"/line", 2, r.C, recipetest.ClientOf(recipetest.QueueOf(other).Client))
			require.True(t, first.Waiting())
			require.True(t, second.Waiting())
			ids := recipetest.PutOn(t, r.Q, "0", "1") // the receipts' parent is gone, too
			got := []zkrecipes.ItemID{first.Get().ID, second.Get().ID}
			require.ElementsMatch(t, ids, got)
			recipetest.AckOn(t, first.Get())
			recipetest.AckOn(t, second.Get())
			recipetest.AtRest(t, r.Raw, r.Path)
		})
	}
	t.Run("a producer", func(t *testing.T) {
		t.Parallel()
		r := recipetest.NewQueueRig(t, &zkrecipes.QueueOptions{MaxLen: 1})
		recipetest.PutOn(t, r.Q, "full")
		a := recipetest.PutLater(t, r.Q, "next")
		recipetest.LineUp(t, r.Raw, r.Path+"/room", 1, r.C)
		recipetest.RemoveTree(t, r.Raw, r.Path)
		a.Get()
		require.Equal(t, []string{"next"}, recipetest.Drain(t, r.Other()))
	})
}

// A queue that was deleted and created again has segments with the same numbers as
// the old one.
func TestB23QueueDeletedAndCreatedAgainIsDrainedFromItsFirstSegment(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, other := w.Queue(w.Stranger(nil)), w.Queue(w.Stranger(nil))
		recipetest.QueueOf(q).SegmentSize, recipetest.QueueOf(other).SegmentSize = 2, 2
		conn := w.Bare()
		recipetest.PutOn(t, q, recipetest.Names(10)...)
		for range 9 {
			recipetest.AckOn(t, recipetest.TakeOn(t, q))
		}
		require.Len(t, w.Items(), 1)
		recipetest.PutOn(t, other, "x")
		first := slices.Min(w.Srv.Children(w.Path + "/s"))
		require.Greater(t, first, "0000000000", "the oldest segment that q knows")
		recipetest.RemoveTree(t, conn, w.Path)
		for len(w.Srv.Children(w.Path+"/s")) < 6 { // until the segment that q knows exists again
			recipetest.PutOn(t, other, "new")
		}
		n := len(w.Items())
		require.Len(t, recipetest.Drain(t, q), n, "from the first segment on")
		require.Empty(t, w.Items())
		recipetest.PutOn(t, q, "after")
		require.Equal(t, []string{"after"}, recipetest.Drain(t, other))
	})
}

// Somebody deletes the open segment, or all segments.
func TestB23SegmentsThatAreDeletedAreCreatedAgain(t *testing.T) {
	for _, all := range []bool{false, true} {
		for _, waits := range []bool{false, true} {
			t.Run(fmt.Sprintf("all=%v waits=%v", all, waits), func(t *testing.T) {
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					q, other := w.Queue(w.Stranger(nil)), w.Queue(w.Stranger(nil))
					recipetest.QueueOf(q).SegmentSize, recipetest.QueueOf(other).SegmentSize = 3, 3
					conn := w.Bare()
					recipetest.PutOn(t, q, "0", "1", "2") // the last one seals the segment
					var held []*zkrecipes.Item
					for range 3 {
						held = append(held, recipetest.TakeOn(t, q))
					}
					var a *harness.Call[*zkrecipes.Item]
					if waits {
						a = w.TakeLater(other)
					}
					require.NoError(t, conn.Delete(w.Path+"/s/0000000001", -1))
					if all {
						recipetest.RemoveTree(t, conn, w.Path+"/s/0000000000")
					}
					synctest.Wait()
					ids := recipetest.PutOn(t, q, "3", "4", "5", "6")
					if !waits {
						a = w.TakeLater(other)
					}
					it := a.Get()
					require.Equal(t, ids[0], it.ID)
					recipetest.AckOn(t, it)
					for _, it := range held {
						if all {
							require.ErrorIs(t, it.Ack(t.Context()), zkrecipes.ErrLost)
						} else {
							recipetest.AckOn(t, it)
						}
					}
					require.Equal(t, []string{"4", "5", "6"}, recipetest.Drain(t, other))
				})
			})
		}
	}
}

// Znodes of other programs are ignored everywhere in the queue, and none is deleted.
func TestB25ForeignZnodesInAQueueAreIgnored(t *testing.T) {
	r := recipetest.NewQueueRig(t, nil)
	recipetest.QueueOf(r.Q).SegmentSize = 3
	r.Warm()
	foreign := []string{
		"/x", "/s/x", "/s/00000000000", "/s/-000000001", "/s/0000000000/x", "/s/0000000000/ünï",
		"/s/0000000000/" + strings.Repeat("a", 32), "/s/0000000000/" + strings.Repeat("a", 22) + "+000000001",
		"/s/0000000000/" + queuelog.NewID() + "0000000099.flag", "/s/0000000000/" + queuelog.NewID() + "99999999999",
		"/line/x", "/line/lock-", "/puts/x",
	}
	for _, name := range foreign {
		_, err := r.Raw.Create(r.Path+name, []byte("mine"), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
	}
	recipetest.PutOn(t, r.Q, recipetest.Names(10)...)
	require.Equal(t, recipetest.Names(10), recipetest.Drain(t, r.Other()))
	for _, name := range foreign {
		data, _, err := r.Raw.Get(r.Path + name)
		require.NoError(t, err, name)
		require.Equal(t, "mine", string(data))
	}
	_, err := r.Raw.Create(r.Path+"/line/x__READ__", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	_, err = r.Q.Take(r.Ctx)
	require.ErrorContains(t, err, "another recipe uses this path")
}

// Close gives items back and ends waits. The contexts of the items end before the
// items are given back.
func TestB35CloseGivesAQueuesItemsBackAndEndsWaits(t *testing.T) {
	r := recipetest.NewQueueRig(t, &zkrecipes.QueueOptions{MaxLen: 2})
	recipetest.PutOn(t, r.Q, "0", "1")
	it := recipetest.TakeOn(t, r.Q)
	second := recipetest.TakeOn(t, r.Q)
	work := it.Context(r.Ctx)
	taker := recipetest.TakeLater(t, r.Q)
	producer := recipetest.PutLater(t, r.Q, "2")
	server := recipetest.ServeLater(t, r.Q, func(context.Context, *zkrecipes.Item) error { return nil })
	recipetest.LineUp(t, r.Raw, r.Path+"/line", 1, r.C)
	recipetest.LineUp(t, r.Raw, r.Path+"/room", 1, r.C)
	require.NoError(t, r.C.Close())
	require.ErrorIs(t, context.Cause(work), zkrecipes.ErrClosed)
	require.ErrorIs(t, it.Err(), zkrecipes.ErrClosed)
	require.NoError(t, r.C.Close())
	for what, err := range map[string]error{
		"take": func() error { _, err := taker.Wait(); return err }(),
		"put":  func() error { _, err := producer.Wait(); return err }(), "serve": func() error { _, err := server.Wait(); return err }(),
		"ack": it.Ack(r.Ctx), "nack": second.Nack(r.Ctx),
		"take again": func() error { _, err := r.Q.Take(r.Ctx); return err }(),
		"put again":  func() error { _, err := r.Q.Put(r.Ctx, nil); return err }(),
		"len":        func() error { _, err := r.Q.Len(r.Ctx); return err }(),
	} {
		require.ErrorIs(t, err, zkrecipes.ErrClosed, what)
	}
	require.Equal(t, []string{"0", "1"}, recipetest.Drain(t, r.Other()))
	recipetest.AtRest(t, r.Raw, r.Path)
}

func TestB35CloseWhileDisconnectedEndsTakesAndClaimsOfAQueue(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		q := w.Queue(c)
		recipetest.PutOn(t, q, "x")
		it := recipetest.TakeOn(t, q)
		a := w.TakeLater(q)
		w.Plan.Add(zktest.Fault{Do: zktest.Refuse, Times: 2})
		require.True(t, w.Srv.Disconnect(recipetest.SessionID(c)))
		synctest.Wait()
		began := time.Now()
		require.ErrorContains(t, c.Close(), "left to time out")
		require.Less(t, time.Since(began), time.Second)
		_, err := a.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		require.ErrorIs(t, it.Err(), zkrecipes.ErrClosed)
		again := recipetest.TakeOn(t, w.Queue(w.Stranger(nil)))
		require.Equal(t, 2, again.Attempt)
		recipetest.AckOn(t, again)
	})
}

// An ack that is in flight when the client is closed is carried out, or the item is
// delivered again.
func TestB35AckInFlightAtCloseIsCarriedOut(t *testing.T) {
	r := recipetest.NewQueueRig(t, nil)
	recipetest.PutOn(t, r.Q, "x", "y")
	it := recipetest.TakeOn(t, r.Q)
	rule := r.P.On(recipetest.OpAck, 1, harness.Hold)
	a := recipetest.AckLater(t, it)
	r.P.Await(rule)
	closed := harness.Go(t, func(context.Context) (error, error) { return nil, r.C.Close() })
	harness.Eventually(t, "closing", func() bool { return it.Err() != nil })
	require.ErrorIs(t, it.Err(), zkrecipes.ErrClosed)
	rule.Release()
	_, err := a.Wait()
	require.NoError(t, err, "it was carried out")
	_, err = closed.Wait()
	require.NoError(t, err)
	require.Equal(t, []string{"y"}, recipetest.Drain(t, r.Other()))
	recipetest.AtRest(t, r.Raw, r.Path)
}

// A consumer that knows the segments of a deleted queue takes all items of the queue
// that was created in its place, in order.
func TestB23ConsumerOfADeletedQueueTakesFromTheNewOneInOrder(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		queue := func() *zkrecipes.Queue {
			q := w.Queue(w.Stranger(nil))
			recipetest.QueueOf(q).SegmentSize = 2
			return q
		}
		consumer, producer := queue(), queue()
		for range 7 {
			recipetest.PutOn(t, consumer, "old")
			recipetest.AckOn(t, recipetest.TakeOn(t, consumer))
		}
		recipetest.RemoveTree(t, w.Bare(), w.Path)
		want := recipetest.Names(14)
		recipetest.PutOn(t, producer, want[0])
		it := recipetest.TakeOn(t, consumer)
		require.Equal(t, want[0], string(it.Data))
		recipetest.AckOn(t, it)
		recipetest.PutOn(t, producer, want[1:]...)
		require.Equal(t, want[1:], recipetest.Drain(t, queue()))
	})
}

// The cause of a caller's context says nothing about the outcome of the request,
// whichever error it is.
func TestB44CauseOfAContextIsNotTheOutcome(t *testing.T) {
	r := recipetest.NewQueueRig(t, nil)
	recipetest.PutOn(t, r.Q, "0", "1")
	it := recipetest.TakeOn(t, r.Q)
	r.P.Refuse(true)
	s, _ := recipetest.Core(r.C).Session()
	recipetest.AwaitDown(t, s)
	for _, cause := range []error{errs.Lost(errs.ErrDeleted), zkrecipes.ErrUncertain, zkrecipes.ErrEvicted, zkconn.ErrSessionOver, zk.ErrNoNode} {
		ack, put := recipetest.AckLater(t, it), recipetest.PutLater(t, r.Q, "never sent")
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
	r.P.Refuse(false)
	recipetest.AckOn(t, it)
	require.Equal(t, []string{"1"}, recipetest.Drain(t, r.Q))
}

// If an item is deleted before it is claimed, the claim fails. Take does not return
// the item, and no znode is left behind.
func TestB22ItemThatIsDeletedBeforeItsClaimIsNotHandedOut(t *testing.T) {
	r := recipetest.NewQueueRig(t, nil)
	r.Warm()
	recipetest.PutOn(t, r.Q, "0")
	segment := r.Path + "/s/0000000000"
	rule := r.P.On(recipetest.OpClaimAlone, 1, harness.Hold)
	a := recipetest.TakeLater(t, r.Q)
	r.P.Await(rule)
	require.NoError(t, r.Raw.Delete(segment+"/"+harness.Children(t, r.Raw, segment)[0], -1))
	rule.Release()
	recipetest.PutOn(t, r.Other(), "1")
	it := a.Get()
	require.Equal(t, "1", string(it.Data))
	recipetest.AckOn(t, it)
	require.Empty(t, harness.Children(t, r.Raw, segment))
}

// A segment that was listed, and is read for the first time later, may have been
// deleted and created again in between, with others before it.
func TestB23SegmentCreatedAfterItsListingIsNotTakenForTheOneThatWasListed(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, other := w.Queue(w.Stranger(nil)), w.Queue(w.Stranger(nil))
		recipetest.QueueOf(q).SegmentSize, recipetest.QueueOf(other).SegmentSize = 1, 1
		conn := w.Bare()
		recipetest.PutOn(t, other, recipetest.Names(6)...) // in the segments 0 to 5; 6 is open
		for _, n := range []int{1, 2, 3, 4} {
			recipetest.RemoveTree(t, conn, fmt.Sprintf("%s/s/%010d", w.Path, n))
		}
		held := recipetest.TakeOn(t, q) // lists the segments 0, 5 and 6
		for _, n := range []int{5, 6} {
			recipetest.RemoveTree(t, conn, fmt.Sprintf("%s/s/%010d", w.Path, n))
		}
		recipetest.PutOn(t, other, "a", "b", "c", "d", "e") // in the segments 1 to 5
		var taken []string
		for range 5 {
			it := recipetest.TakeOn(t, q)
			taken = append(taken, string(it.Data))
			recipetest.AckOn(t, it)
		}
		require.Equal(t, []string{"a", "b", "c", "d", "e"}, taken)
		recipetest.AckOn(t, held)
	})
}
