package zkrecipes

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

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
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
				r := newQueueRig(t, &QueueOptions{MaxLen: 1})
				call := func(q *Queue) func(context.Context) (struct{}, error) {
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
					putOn(t, r.q, "full")
				}
				other := r.other()
				ahead := harness.Go(t, call(other))
				lineUp(t, r.raw, r.path+"/"+sub, 1, clientOf(other.itemQueue.Client))
				mine := harness.Go(t, call(r.q))
				lineUp(t, r.raw, r.path+"/"+sub, 2, r.c)
				if which == "first" {
					ahead, mine = mine, ahead
				}
				places := line.PlaceNames(harness.Children(t, r.raw, r.path+"/"+sub), line.LockKinds)
				slices.SortFunc(places, line.PlaceName.Compare)
				victim := places[map[string]int{"first": 0, "second": 1}[which]]
				require.NoError(t, r.raw.Delete(r.path+"/"+sub+"/"+victim.Name, -1))
				_, err := mine.Wait()
				require.ErrorIs(t, err, ErrEvicted)
				require.True(t, ahead.Waiting())
				if sub == "room" {
					ackOn(t, takeOn(t, other))
					ahead.Get()
					require.Equal(t, []string{"mine"}, drain(t, other))
				} else {
					putOn(t, NewQueue(r.c, r.path, nil), "x")
					ahead.Get()
				}
				atRest(t, r.raw, r.path)
			})
		}
	}
}

// A claim is lost if its flag, the znode that excludes others, or both are deleted. If
// the flag is deleted, the holder notices at once. The item is delivered again.
func TestB22ItemWhoseClaimIsDeletedIsLostAndDeliveredAgain(t *testing.T) {
	for _, which := range []string{"flag", "claim", "both"} {
		t.Run(which, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				q, other := w.queue(w.stranger(nil)), w.queue(w.stranger(nil))
				conn := w.bare()
				putOn(t, q, "x")
				it := takeOn(t, q)
				p := it.lease.handle.Grant.Place()
				time.Sleep(2 * time.Second) // the flag is watched by now
				next := w.takeLater(other)
				require.True(t, next.Waiting())
				work := it.Context(t.Context())
				var deleted []any // in one transaction, as consumers delete a claim without a flag
				if which != "claim" {
					deleted = append(deleted, &zk.DeleteRequest{Path: p.Path, Version: -1})
				}
				if which != "flag" {
					deleted = append(deleted, &zk.DeleteRequest{Path: it.takenItem.Claim.Exclusion(), Version: -1})
				}
				_, err := conn.Multi(deleted...)
				require.NoError(t, err)
				synctest.Wait()
				if which == "claim" {
					require.True(t, next.Waiting(), "the flag exists")
					require.NoError(t, it.Err())
					require.ErrorIs(t, it.Ack(t.Context()), ErrLost)
				}
				require.ErrorIs(t, it.Err(), ErrLost)
				require.ErrorIs(t, context.Cause(work), ErrLost)
				again := next.Get()
				require.Equal(t, it.ID, again.ID)
				require.Equal(t, 2, again.Attempt)
				require.Equal(t, []string{again.lease.handle.Grant.Place().Name}, w.flags())
				require.ErrorIs(t, it.Ack(t.Context()), ErrLost)
				require.ErrorIs(t, it.Nack(t.Context()), ErrLost)
				require.NoError(t, again.Err())
				ackOn(t, again)
				require.Empty(t, w.items())
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
				inBubble(t, func(t *testing.T, w *world) {
					q, conn := w.queue(w.stranger(nil)), w.bare()
					putOn(t, q, "x")
					it := takeOn(t, q)
					time.Sleep(2 * time.Second) // the flag is watched by now
					next := w.takeLater(w.queue(w.stranger(nil)))
					exclusion := it.takenItem.Claim.Exclusion()
					w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: op, Path: exclusion, For: 2 * time.Second, After: after})
					require.NoError(t, conn.Delete(it.takenItem.Claim.Path, -1))
					time.Sleep(time.Second)
					if op != "multi(delete)" || !after { // else it is the next one's
						err := conn.Delete(exclusion, -1)
						// It may be the next consumer's read that was delayed, and not the holder's.
						require.True(t, err == nil || op == "getData" && errors.Is(err, zk.ErrNoNode), "%v", err)
					}
					again := next.Get()
					time.Sleep(time.Minute)
					require.NoError(t, again.Err())
					require.Equal(t, []string{queuelog.ClaimName[1:]}, w.srv.Children(again.takenItem.Claim.Item), "it excludes")
					ackOn(t, again)
					require.Empty(t, w.items())
				})
			})
		}
	}
}

// A claim whose flag was deleted still excludes other consumers until its holder
// notices. They wait until the rest of the claim is gone, and do nothing else for it.
func TestB22ItemWhoseFlagIsDeletedIsTakenUntilItsClaimGoes(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		q, other := w.queue(c), w.queue(w.stranger(nil))
		conn := w.bare()
		putOn(t, q, "0")
		it := takeOn(t, q)
		require.NoError(t, conn.Delete(it.lease.handle.Grant.Place().Path, -1)) // the flag is not watched yet
		next := w.takeLater(other)
		require.True(t, next.Waiting())
		requests := w.requests(func() { putOn(t, q, "1") })
		require.LessOrEqual(t, requests["sync"], 2)
		second := next.Get()
		require.Equal(t, "1", string(second.Data))
		third := w.takeLater(other)
		synctest.Wait()
		require.True(t, third.Waiting())
		require.True(t, w.srv.Expire(sessionID(c)))
		again := third.Get()
		require.Equal(t, it.ID, again.ID)
		ackOn(t, again)
		ackOn(t, second)
		require.Empty(t, w.items())
	})
}

// The whole queue is deleted, with the places of its waiters. They go on in the queue
// that is created next. Tools delete a tree in one transaction, or one znode after the
// other.
func TestA21TakerAndProducerRecoverWhenTheQueueIsDeleted(t *testing.T) {
	t.Parallel()
	deletions := map[string]func(t *testing.T, r *queueRig){
		"in one transaction": func(t *testing.T, r *queueRig) { removeTree(t, r.raw, r.path) },
		"leaves first": func(t *testing.T, r *queueRig) {
			var remove func(string)
			remove = func(path string) {
				for _, name := range harness.Children(t, r.raw, path) {
					remove(path + "/" + name)
				}
				_ = r.raw.Delete(path, -1) // the waiters may have created it again by now
			}
			remove(r.path)
		},
		"line last": func(t *testing.T, r *queueRig) {
			all := tree(t, r.raw, r.path)
			slices.SortFunc(all, func(a, b string) int {
				return strings.Compare(strings.Replace(b, "/line", "/!", 1), strings.Replace(a, "/line", "/!", 1))
			})
			for _, name := range all {
				_ = r.raw.Delete(r.path+name, -1)
			}
		},
	}
	for how, remove := range deletions {
		t.Run(how+", takers", func(t *testing.T) {
			t.Parallel()
			r := newQueueRig(t, nil)
			r.warm()
			other := r.other()
			first := takeLater(t, r.q)
			lineUp(t, r.raw, r.path+"/line", 1, r.c)
			second := takeLater(t, other)
			lineUp(t, r.raw, r.path+"/line", 2, clientOf(other.itemQueue.Client))
			remove(t, r)
			lineUp(t, r.raw, r.path+"/line", 2, r.c, clientOf(other.itemQueue.Client))
			require.True(t, first.Waiting())
			require.True(t, second.Waiting())
			ids := putOn(t, r.q, "0", "1") // the receipts' parent is gone, too
			got := []ItemID{first.Get().ID, second.Get().ID}
			require.ElementsMatch(t, ids, got)
			ackOn(t, first.Get())
			ackOn(t, second.Get())
			atRest(t, r.raw, r.path)
		})
	}
	t.Run("a producer", func(t *testing.T) {
		t.Parallel()
		r := newQueueRig(t, &QueueOptions{MaxLen: 1})
		putOn(t, r.q, "full")
		a := putLater(t, r.q, "next")
		lineUp(t, r.raw, r.path+"/room", 1, r.c)
		removeTree(t, r.raw, r.path)
		a.Get()
		require.Equal(t, []string{"next"}, drain(t, r.other()))
	})
}

// A queue that was deleted and created again has segments with the same numbers as
// the old one.
func TestB23QueueDeletedAndCreatedAgainIsDrainedFromItsFirstSegment(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q, other := w.queue(w.stranger(nil)), w.queue(w.stranger(nil))
		q.itemQueue.SegmentSize, other.itemQueue.SegmentSize = 2, 2
		conn := w.bare()
		putOn(t, q, names(10)...)
		for range 9 {
			ackOn(t, takeOn(t, q))
		}
		require.Len(t, w.items(), 1)
		putOn(t, other, "x")
		first := slices.Min(w.srv.Children(w.path + "/s"))
		require.Greater(t, first, "0000000000", "the oldest segment that q knows")
		removeTree(t, conn, w.path)
		for len(w.srv.Children(w.path+"/s")) < 6 { // until the segment that q knows exists again
			putOn(t, other, "new")
		}
		n := len(w.items())
		require.Len(t, drain(t, q), n, "from the first segment on")
		require.Empty(t, w.items())
		putOn(t, q, "after")
		require.Equal(t, []string{"after"}, drain(t, other))
	})
}

// Somebody deletes the open segment, or all segments.
func TestB23SegmentsThatAreDeletedAreCreatedAgain(t *testing.T) {
	for _, all := range []bool{false, true} {
		for _, waits := range []bool{false, true} {
			t.Run(fmt.Sprintf("all=%v waits=%v", all, waits), func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					q, other := w.queue(w.stranger(nil)), w.queue(w.stranger(nil))
					q.itemQueue.SegmentSize, other.itemQueue.SegmentSize = 3, 3
					conn := w.bare()
					putOn(t, q, "0", "1", "2") // the last one seals the segment
					var held []*Item
					for range 3 {
						held = append(held, takeOn(t, q))
					}
					var a *harness.Call[*Item]
					if waits {
						a = w.takeLater(other)
					}
					require.NoError(t, conn.Delete(w.path+"/s/0000000001", -1))
					if all {
						removeTree(t, conn, w.path+"/s/0000000000")
					}
					synctest.Wait()
					ids := putOn(t, q, "3", "4", "5", "6")
					if !waits {
						a = w.takeLater(other)
					}
					it := a.Get()
					require.Equal(t, ids[0], it.ID)
					ackOn(t, it)
					for _, it := range held {
						if all {
							require.ErrorIs(t, it.Ack(t.Context()), ErrLost)
						} else {
							ackOn(t, it)
						}
					}
					require.Equal(t, []string{"4", "5", "6"}, drain(t, other))
				})
			})
		}
	}
}

// Znodes of other programs are ignored everywhere in the queue, and none is deleted.
func TestB25ForeignZnodesInAQueueAreIgnored(t *testing.T) {
	r := newQueueRig(t, nil)
	r.q.itemQueue.SegmentSize = 3
	r.warm()
	foreign := []string{
		"/x", "/s/x", "/s/00000000000", "/s/-000000001", "/s/0000000000/x", "/s/0000000000/ünï",
		"/s/0000000000/" + strings.Repeat("a", 32), "/s/0000000000/" + strings.Repeat("a", 22) + "+000000001",
		"/s/0000000000/" + queuelog.NewID() + "0000000099.flag", "/s/0000000000/" + queuelog.NewID() + "99999999999",
		"/line/x", "/line/lock-", "/puts/x",
	}
	for _, name := range foreign {
		_, err := r.raw.Create(r.path+name, []byte("mine"), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
	}
	putOn(t, r.q, names(10)...)
	require.Equal(t, names(10), drain(t, r.other()))
	for _, name := range foreign {
		data, _, err := r.raw.Get(r.path + name)
		require.NoError(t, err, name)
		require.Equal(t, "mine", string(data))
	}
	_, err := r.raw.Create(r.path+"/line/x__READ__", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	_, err = r.q.Take(r.ctx)
	require.ErrorContains(t, err, "another recipe uses this path")
}

// Close gives items back and ends waits. The contexts of the items end before the
// items are given back.
func TestB35CloseGivesAQueuesItemsBackAndEndsWaits(t *testing.T) {
	r := newQueueRig(t, &QueueOptions{MaxLen: 2})
	putOn(t, r.q, "0", "1")
	it := takeOn(t, r.q)
	second := takeOn(t, r.q)
	work := it.Context(r.ctx)
	taker := takeLater(t, r.q)
	producer := putLater(t, r.q, "2")
	server := serveLater(t, r.q, func(context.Context, *Item) error { return nil })
	lineUp(t, r.raw, r.path+"/line", 1, r.c)
	lineUp(t, r.raw, r.path+"/room", 1, r.c)
	require.NoError(t, r.c.Close())
	require.ErrorIs(t, context.Cause(work), ErrClosed)
	require.ErrorIs(t, it.Err(), ErrClosed)
	require.NoError(t, r.c.Close())
	for what, err := range map[string]error{
		"take": func() error { _, err := taker.Wait(); return err }(),
		"put":  func() error { _, err := producer.Wait(); return err }(), "serve": func() error { _, err := server.Wait(); return err }(),
		"ack": it.Ack(r.ctx), "nack": second.Nack(r.ctx),
		"take again": func() error { _, err := r.q.Take(r.ctx); return err }(),
		"put again":  func() error { _, err := r.q.Put(r.ctx, nil); return err }(),
		"len":        func() error { _, err := r.q.Len(r.ctx); return err }(),
	} {
		require.ErrorIs(t, err, ErrClosed, what)
	}
	require.Equal(t, []string{"0", "1"}, drain(t, r.other()))
	atRest(t, r.raw, r.path)
}

func TestB35CloseWhileDisconnectedEndsTakesAndClaimsOfAQueue(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		q := w.queue(c)
		putOn(t, q, "x")
		it := takeOn(t, q)
		a := w.takeLater(q)
		w.plan.Add(zktest.Fault{Do: zktest.Refuse, Times: 2})
		require.True(t, w.srv.Disconnect(sessionID(c)))
		synctest.Wait()
		began := time.Now()
		require.ErrorContains(t, c.Close(), "left to time out")
		require.Less(t, time.Since(began), time.Second)
		_, err := a.Wait()
		require.ErrorIs(t, err, ErrClosed)
		require.ErrorIs(t, it.Err(), ErrClosed)
		again := takeOn(t, w.queue(w.stranger(nil)))
		require.Equal(t, 2, again.Attempt)
		ackOn(t, again)
	})
}

// An ack that is in flight when the client is closed is carried out, or the item is
// delivered again.
func TestB35AckInFlightAtCloseIsCarriedOut(t *testing.T) {
	r := newQueueRig(t, nil)
	putOn(t, r.q, "x", "y")
	it := takeOn(t, r.q)
	rule := r.p.On(opAck, 1, harness.Hold)
	a := ackLater(t, it)
	r.p.Await(rule)
	closed := harness.Go(t, func(context.Context) (error, error) { return nil, r.c.Close() })
	harness.Eventually(t, "closing", func() bool { return it.Err() != nil })
	require.ErrorIs(t, it.Err(), ErrClosed)
	rule.Release()
	_, err := a.Wait()
	require.NoError(t, err, "it was carried out")
	_, err = closed.Wait()
	require.NoError(t, err)
	require.Equal(t, []string{"y"}, drain(t, r.other()))
	atRest(t, r.raw, r.path)
}

// A consumer that knows the segments of a deleted queue takes all items of the queue
// that was created in its place, in order.
func TestB23ConsumerOfADeletedQueueTakesFromTheNewOneInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		queue := func() *Queue {
			q := w.queue(w.stranger(nil))
			q.itemQueue.SegmentSize = 2
			return q
		}
		consumer, producer := queue(), queue()
		for range 7 {
			putOn(t, consumer, "old")
			ackOn(t, takeOn(t, consumer))
		}
		removeTree(t, w.bare(), w.path)
		want := names(14)
		putOn(t, producer, want[0])
		it := takeOn(t, consumer)
		require.Equal(t, want[0], string(it.Data))
		ackOn(t, it)
		putOn(t, producer, want[1:]...)
		require.Equal(t, want[1:], drain(t, queue()))
	})
}

// The cause of a caller's context says nothing about the outcome of the request,
// whichever error it is.
func TestB44CauseOfAContextIsNotTheOutcome(t *testing.T) {
	r := newQueueRig(t, nil)
	putOn(t, r.q, "0", "1")
	it := takeOn(t, r.q)
	r.p.Refuse(true)
	s, _ := r.c.client.Session()
	awaitDown(t, s)
	for _, cause := range []error{line.Lost(line.ErrDeleted), ErrUncertain, ErrEvicted, zkconn.ErrSessionOver, zk.ErrNoNode} {
		ack, put := ackLater(t, it), putLater(t, r.q, "never sent")
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
	r.p.Refuse(false)
	ackOn(t, it)
	require.Equal(t, []string{"1"}, drain(t, r.q))
}

// If an item is deleted before it is claimed, the claim fails. Take does not return
// the item, and no znode is left behind.
func TestB22ItemThatIsDeletedBeforeItsClaimIsNotHandedOut(t *testing.T) {
	r := newQueueRig(t, nil)
	r.warm()
	putOn(t, r.q, "0")
	segment := r.path + "/s/0000000000"
	rule := r.p.On(opClaimAlone, 1, harness.Hold)
	a := takeLater(t, r.q)
	r.p.Await(rule)
	require.NoError(t, r.raw.Delete(segment+"/"+harness.Children(t, r.raw, segment)[0], -1))
	rule.Release()
	putOn(t, r.other(), "1")
	it := a.Get()
	require.Equal(t, "1", string(it.Data))
	ackOn(t, it)
	require.Empty(t, harness.Children(t, r.raw, segment))
}

// A segment that was listed, and is read for the first time later, may have been
// deleted and created again in between, with others before it.
func TestB23SegmentCreatedAfterItsListingIsNotTakenForTheOneThatWasListed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q, other := w.queue(w.stranger(nil)), w.queue(w.stranger(nil))
		q.itemQueue.SegmentSize, other.itemQueue.SegmentSize = 1, 1
		conn := w.bare()
		putOn(t, other, names(6)...) // in the segments 0 to 5; 6 is open
		for _, n := range []int{1, 2, 3, 4} {
			removeTree(t, conn, fmt.Sprintf("%s/s/%010d", w.path, n))
		}
		held := takeOn(t, q) // lists the segments 0, 5 and 6
		for _, n := range []int{5, 6} {
			removeTree(t, conn, fmt.Sprintf("%s/s/%010d", w.path, n))
		}
		putOn(t, other, "a", "b", "c", "d", "e") // in the segments 1 to 5
		var taken []string
		for range 5 {
			it := takeOn(t, q)
			taken = append(taken, string(it.Data))
			ackOn(t, it)
		}
		require.Equal(t, []string{"a", "b", "c", "d", "e"}, taken)
		ackOn(t, held)
	})
}
