package zkrecipes

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Operators remove free items.

func TestA21RemoveRemovesAFreeItem(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.small(2, nil)
		ids := putOn(t, q, names(5)...)
		require.NoError(t, q.Remove(t.Context(), ids[2]))
		require.Equal(t, []string{"0", "1", "3", "4"}, listed(t, q))
		err := q.Remove(t.Context(), ids[2])
		require.ErrorIs(t, err, ErrItemGone)
		require.EqualError(t, err, "zkrecipes: remove an item of "+w.path+": no such item")
		require.ErrorIs(t, q.Remove(t.Context(), "x"), ErrItemGone)
		require.ErrorIs(t, w.queue(w.stranger(nil)).Remove(t.Context(), ""), ErrItemGone)
		require.ErrorIs(t, next(clientOf(q.itemQueue.Client), 2, nil).Remove(t.Context(), ids[0]), ErrItemGone, "no queue")
		require.NotContains(t, w.srv.Children("/"), "next", "nothing was created")
		require.Equal(t, []string{"0", "1", "3", "4"}, drain(t, q))
		w.oneSegment(q)
	})
}

// An item that a consumer has cannot be removed, even if the operator's listing does not
// show the claim yet.
func TestRemoveLeavesAnItemThatIsTaken(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q, other := w.queue(w.stranger(nil)), w.queue(w.stranger(nil))
		ids := putOn(t, q, "x", "y")
		it := takeOn(t, q)
		err := other.Remove(t.Context(), ids[0])
		require.ErrorIs(t, err, ErrItemTaken)
		require.EqualError(t, err, "zkrecipes: remove an item of "+w.path+": item is taken")
		nackOn(t, it)

		putOn(t, other, "warm")
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: "multi(setData,delete)", For: time.Second})
		a := harness.GoErr(t, func(ctx context.Context) error { return other.Remove(ctx, ids[0]) })
		time.Sleep(time.Second / 2)
		it = takeOn(t, q)
		_, err = a.Wait()
		require.ErrorIs(t, err, ErrItemTaken)
		require.Len(t, w.plan.Fired(), 1)
		require.NoError(t, it.Err())
		ackOn(t, it)
		require.Equal(t, []string{"y", "warm"}, drain(t, q))
	})
}

func TestA21PurgeRemovesFreeItemsOnly(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q, other := w.small(7, nil), w.queue(w.stranger(nil))
		putOn(t, q, names(30)...)
		var taken []*Item
		for range 3 {
			taken = append(taken, takeOn(t, q))
		}
		removed, err := other.Purge(t.Context())
		require.NoError(t, err)
		require.Equal(t, 27, removed)
		require.Equal(t, []string{"0", "1", "2"}, listed(t, q))
		nackOn(t, taken[1])
		removed, err = other.Purge(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, removed)
		ackOn(t, taken[0])
		ackOn(t, taken[2])
		removed, err = other.Purge(t.Context())
		require.NoError(t, err)
		require.Zero(t, removed)
		putOn(t, other, "last")
		require.Equal(t, []string{"last"}, drain(t, q))
		w.oneSegment(q)
	})
}

// removedAll are the ways to remove the items of a queue one after the other, or all at once.
var removedAll = map[string]func(*testing.T, *Queue, []ItemID){
	"Remove": func(t *testing.T, q *Queue, ids []ItemID) {
		for _, id := range ids {
			require.NoError(t, q.Remove(t.Context(), id))
		}
	},
	"Remove, the last first": func(t *testing.T, q *Queue, ids []ItemID) {
		for i := range ids {
			require.NoError(t, q.Remove(t.Context(), ids[len(ids)-1-i]))
		}
	},
	"Purge": func(t *testing.T, q *Queue, ids []ItemID) {
		n, err := q.Purge(t.Context())
		require.NoError(t, err)
		require.Equal(t, len(ids), n)
	},
}

// The open segment alone is left, so neither a Take nor a Len pays for what was removed.
func TestRemovalsDeleteTheSegmentsThatTheyEmpty(t *testing.T) {
	for name, remove := range removedAll {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				q, other := w.small(2, nil), w.queue(w.stranger(nil))
				ids := putOn(t, q, names(21)...)
				require.Len(t, w.srv.Children(w.path+"/s"), 11)
				remove(t, other, ids)
				require.Equal(t, []string{"0000000010"}, w.srv.Children(w.path+"/s"), "the open one stays")
				putOn(t, q, names(5)...)
				require.Equal(t, names(5), drain(t, other))
			})
		})
	}
}

// A segment in which an item was put, claimed or left by others is not deleted, and those
// that were empty before are.
func TestPurgeDeletesNoSegmentThatOthersUse(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q, other := w.small(2, nil), w.queue(w.stranger(nil))
		putOn(t, q, names(8)...) // segment 4 is open, and empty
		items, err := q.TakeN(t.Context(), 6)
		require.NoError(t, err)
		for _, it := range items[2:] {
			ackOn(t, it)
		}
		require.Len(t, w.srv.Children(w.path+"/s"), 5)
		removed, err := other.Purge(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2, removed)
		require.Equal(t, []string{"0", "1"}, listed(t, q))
		require.Equal(t, []string{"0000000000", "0000000004"}, w.srv.Children(w.path+"/s"))
		a := w.takeLater(other)
		nackOn(t, items[1])
		require.Equal(t, "1", string(a.Get().Data))
		ackOn(t, items[0])
	})
}

// Consumers sleep, producers put, and items are removed under them: all that was put is
// taken or removed, once.
func TestNoItemIsLostWhileSegmentsAreDeletedUnderConsumersAndProducers(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var mu sync.Mutex
		got := map[ItemID]int{}
		var serving []*harness.Call[struct{}]
		for range 2 {
			serving = append(serving, serveLater(t, w.small(2, nil), func(_ context.Context, it *Item) error {
				mu.Lock()
				defer mu.Unlock()
				got[it.ID]++
				return nil
			}))
		}
		var producers, operators sync.WaitGroup
		for range 3 {
			q := w.small(2, nil)
			producers.Go(func() {
				for i := range 60 {
					id, err := q.Put(t.Context(), []byte(fmt.Sprint(i)))
					require.NoError(t, err)
					mu.Lock()
					got[id] += 0
					mu.Unlock()
					time.Sleep(time.Duration(i%3) * time.Millisecond)
				}
			})
		}
		removed, end := 0, make(chan struct{})
		q := w.small(2, nil)
		operators.Go(func() {
			for {
				n, err := q.Purge(t.Context())
				require.NoError(t, err)
				removed += n
				select {
				case <-end:
					return
				case <-time.After(time.Millisecond):
				}
			}
		})
		producers.Wait()
		time.Sleep(time.Second)
		close(end)
		operators.Wait()
		for _, a := range serving {
			require.NoError(t, stop(a))
		}
		taken := 0
		for _, n := range got {
			require.LessOrEqual(t, n, 1)
			taken += n
		}
		require.Len(t, got, 180)
		require.Equal(t, 180, taken+removed)
		require.Empty(t, w.items())
	})
}

// Items that are taken or acked between the listing and the transaction are left out, and
// the others are removed.
func TestPurgeLeavesOutWhatIsTakenMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q, other := w.queue(w.stranger(nil)), w.queue(w.stranger(nil))
		putOn(t, q, names(6)...)
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: "multi(setData,delete,delete,delete,delete,delete,delete)", For: time.Second})
		a := harness.Go(t, other.Purge)
		time.Sleep(time.Second / 2)
		ackOn(t, takeOn(t, q))
		it := takeOn(t, q)
		require.Equal(t, 4, a.Get())
		require.Len(t, w.plan.Fired(), 1)
		require.NoError(t, it.Err())
		require.Equal(t, []string{"1"}, listed(t, q))
		ackOn(t, it)
	})
}

// A Remove and a Purge that lose their request or reply are done once, and know what they
// have removed.
func TestB42RemovalWhoseReplyIsLostIsCounted(t *testing.T) {
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after=%v", after), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				q := w.queue(w.stranger(nil))
				ids := putOn(t, q, names(4)...)
				w.plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: "multi(setData,delete)"})
				require.NoError(t, q.Remove(t.Context(), ids[1]))
				w.plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: "multi(setData,delete,delete,delete)"})
				removed, err := q.Purge(t.Context())
				require.NoError(t, err)
				require.Equal(t, 3, removed)
				require.Equal(t, 2, w.plan.Fired()[map[bool]string{false: "drop before", true: "drop after"}[after]])
				require.Empty(t, w.items())
			})
		})
	}
}

// Once the session has ended, the outcome of a removal that was sent is unknown. One that
// was not sent goes on in the next session.
func TestB42RemovalWhoseSessionExpires(t *testing.T) {
	for _, op := range []string{"sync", "getChildren2", "multi(setData,delete)"} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, after=%v", op, after), func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					q := w.queue(w.stranger(nil))
					ids := putOn(t, q, "x")
					w.plan.Add(zktest.Fault{Do: zktest.Expire, After: after, Op: op})
					err := q.Remove(t.Context(), ids[0])
					if op != "multi(setData,delete)" {
						require.NoError(t, err)
						require.Empty(t, listed(t, q))
						return
					}
					require.ErrorIs(t, err, ErrUncertain)
					require.Len(t, listed(t, q), map[bool]int{false: 1, true: 0}[after])
				})
			})
		}
	}
}

// The session ends before a Remove is sent. It goes on in the next one, where the item has
// been acked in the meantime: that is no success.
func TestRemoveOfAnItemThatIsAckedBeforeTheNextSession(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q, other := w.queue(w.stranger(nil)), w.queue(w.stranger(nil))
		ids := putOn(t, q, "x")
		w.plan.Add(zktest.Fault{Do: zktest.Expire, Op: opReceipt})
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: "sync", Skip: 1, For: time.Second})
		a := harness.GoErr(t, func(ctx context.Context) error { return other.Remove(ctx, ids[0]) })
		synctest.Wait()
		ackOn(t, takeOn(t, q))
		_, err := a.Wait()
		require.ErrorIs(t, err, ErrItemGone)
		require.Len(t, w.plan.Fired(), 2)
	})
}

// A queue with many items below a long path is purged in requests that the servers accept.
func TestPurgeOfManyItemsBelowALongPath(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		path := "/"
		for len(path) < 20_000 {
			path += "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
		}
		q := NewQueue(w.stranger(nil), path, nil)
		putOn(t, q, names(90)...)
		removed, err := q.Purge(t.Context())
		require.NoError(t, err)
		require.Equal(t, 90, removed)
		require.Empty(t, listed(t, q))
	})
}

// If the servers refuse to delete, the error says what.
func TestB36RemovalThatIsRefusedIsAnError(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q, conn := w.queue(w.stranger(nil)), w.bare()
		ids := putOn(t, q, "x")
		_, err := conn.SetACL(w.segment(0), zk.WorldACL(zk.PermRead|zk.PermCreate|zk.PermWrite), -1)
		require.NoError(t, err)
		want := fmt.Sprintf("item %s: zk: not authenticated", w.items()[0])
		require.EqualError(t, q.Remove(t.Context(), ids[0]), "zkrecipes: remove an item of "+w.path+": "+want)
		removed, err := q.Purge(t.Context())
		require.EqualError(t, err, "zkrecipes: purge "+w.path+": "+want)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		require.Zero(t, removed)
	})
}

// An item with a foreign znode below it is set aside.
func TestB85RemovalOfAnItemWithAForeignZnodeBelow(t *testing.T) {
	for _, purges := range []bool{false, true} {
		t.Run(fmt.Sprintf("purges=%v", purges), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				opts, log := logged()
				q := NewQueue(w.stranger(opts), w.path, nil)
				q.itemQueue.SegmentSize = 2
				ids := putOn(t, q, "x", "y", "z")
				stays := w.items()[0]
				znode := w.foreign(w.bare(), stays, "note")
				if purges {
					removed, err := q.Purge(t.Context())
					require.NoError(t, err)
					require.Equal(t, 3, removed)
				} else {
					require.NoError(t, q.Remove(t.Context(), ids[0]))
					require.ErrorIs(t, q.Remove(t.Context(), ids[0]), ErrItemGone)
					require.Equal(t, []string{"y", "z"}, drain(t, q))
				}
				synctest.Wait() // the log is written in the background
				require.Contains(t, log.String(), `"znode":"`+stays+`"`)
				require.Contains(t, log.String(), `"children":["note"]`)
				w.aside(q, stays, znode)
			})
		})
	}
}

// An item with a foreign znode in a claim's place is as good as taken. The error says
// which znode it is.
func TestB85RemovalOfAnItemThatCannotBeClaimed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q, conn := w.queue(w.stranger(nil)), w.bare()
		ids := putOn(t, q, "x", "y")
		znode := w.foreign(conn, w.items()[0], "c")
		err := q.Remove(t.Context(), ids[0])
		require.ErrorIs(t, err, ErrItemTaken)
		require.ErrorContains(t, err, znode)
		removed, err := q.Purge(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, removed)
		require.NoError(t, conn.Delete(znode, -1))
		require.Equal(t, []string{"x"}, drain(t, q))
	})
}

// Any number of the items of a segment may have znodes of others below them.
func TestB86PurgeMarksAnyNumberOfItemsWithForeignZnodes(t *testing.T) {
	for _, n := range []int{zkconn.MaxTries - 1, zkconn.MaxTries, 3 * zkconn.MaxTries} {
		inBubble(t, func(t *testing.T, w *world) {
			q, conn := w.queue(w.stranger(nil)), w.bare()
			putOn(t, q, names(n)...)
			for _, item := range w.items() {
				w.foreign(conn, item, "note")
			}
			putOn(t, q, "without")
			removed, err := q.Purge(t.Context())
			require.NoError(t, err)
			require.Equal(t, n+1, removed)
			require.Empty(t, listed(t, q))
		})
	}
}

// Free items are removed at any request of a consumer. Nothing that is put later is slept
// beside.
func TestB86PurgeAtAnyRequestOfAConsumer(t *testing.T) {
	atAnyRequest(t, func(t *testing.T, w *world, between func(call, act func())) {
		q, other := w.small(2, nil), w.small(2, nil)
		putOn(t, q, "0")
		it := takeOn(t, q)
		putOn(t, q, "1", "2", "3")
		ackOn(t, it)
		var a *harness.Call[*Item]
		removed := 0
		between(func() { a = takeLater(t, q) }, func() {
			var err error
			removed, err = other.Purge(t.Context())
			require.NoError(t, err)
			putOn(t, other, "a", "b")
		})
		it = a.Get()
		want := []string{"a", "b"}
		if string(it.Data) == "1" { // it was taken first
			require.Equal(t, 2, removed)
		} else {
			require.Equal(t, 3, removed)
			require.Equal(t, "a", string(it.Data))
			want = want[1:]
		}
		ackOn(t, it)
		require.Equal(t, want, drain(t, q))
		w.oneSegment(q)
	})
}

// So they are at any request of a producer that waits for room.
func TestB86PurgeAtAnyRequestOfABoundedProducer(t *testing.T) {
	atAnyRequest(t, func(t *testing.T, w *world, between func(call, act func())) {
		q, other := w.small(2, &QueueOptions{MaxLen: 4}), w.small(2, nil)
		putOn(t, other, names(4)...)
		it := takeOn(t, other)
		var a *harness.Call[ItemID]
		removed, sleeps := 0, false
		between(func() { a = putLater(t, q, "last") }, func() {
			sleeps = w.plan.Fired()["delay before"] == 0
			var err error
			removed, err = other.Purge(t.Context())
			require.NoError(t, err)
		})
		a.Get()
		ackOn(t, it)
		if left := drain(t, other); sleeps && removed == 4 { // Purge woke the producer, and removed its item, too
			require.Empty(t, left)
		} else {
			require.Equal(t, []string{"last"}, left)
			require.Equal(t, 3, removed)
		}
		w.oneSegment(q)
	})
}

// Bad input is refused before anything is sent.
func TestRemovalsRefuseBadInput(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var none *Queue
		var noContext context.Context
		c := w.stranger(nil)
		for want, call := range map[string]func() error{
			`zkrecipes: remove an item of "": not made by NewQueue`: func() error { return none.Remove(t.Context(), "x") },
			`zkrecipes: purge "": not made by NewQueue`:             func() error { _, err := none.Purge(t.Context()); return err },
			`zkrecipes: find an item of "": not made by NewQueue`:   func() error { _, err := none.Find(t.Context(), "x"); return err },
			`zkrecipes: redrive "": not made by NewQueue`:           func() error { _, err := none.Redrive(t.Context(), 1); return err },
			`zkrecipes: put into "": not made by NewQueue`:          func() error { _, err := none.DeadLetters().Put(t.Context(), nil); return err },
			`zkrecipes: purge /q: nil context`:                      func() error { _, err := NewQueue(c, "/q", nil).Purge(noContext); return err },
			`zkrecipes: purge q: path does not begin with "/"`:      func() error { _, err := NewQueue(c, "q", nil).Purge(t.Context()); return err },
		} {
			require.EqualError(t, call(), want)
		}
		q := w.queue(c)
		require.NoError(t, c.Close())
		_, err := q.Purge(t.Context())
		require.ErrorIs(t, err, ErrClosed)
		_, err = q.Redrive(t.Context(), 1)
		require.ErrorIs(t, err, ErrClosed)
		require.ErrorIs(t, q.Remove(t.Context(), "x"), ErrClosed)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, w.queue(w.stranger(nil)).Remove(ctx, "x"), context.Canceled)
		synctest.Wait()
	})
}
