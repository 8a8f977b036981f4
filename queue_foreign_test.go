package zkrecipes

import (
	"context"
	"fmt"
	"path"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/queue"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Somebody creates znodes below items, which the servers then cannot delete.

// foreign creates a persistent znode below an item.
func (w *world) foreign(conn *zk.Conn, item, name string) string {
	w.t.Helper()
	_, err := conn.Create(item+"/"+name, []byte("mine"), 0, zk.WorldACL(zk.PermAll))
	require.NoError(w.t, err)
	return item + "/" + name
}

// Serve acks the item, or moves it to the dead letters, and goes on to the next.
func TestB85ItemWithAForeignZnodeBelowDoesNotStopTheQueue(t *testing.T) {
	for _, fails := range []bool{false, true} {
		t.Run(fmt.Sprintf("fails=%v", fails), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				opts, log := logged()
				q := NewQueue(w.stranger(opts), w.path, &QueueOptions{MaxAttempts: 3})
				q.itemQueue.SegmentSize = 2
				ids := putOn(t, q, "x", "y", "z")
				stays := w.items()[0]
				znode := w.foreign(w.bare(), stays, "note")
				var got []string
				a := serveLater(t, q, func(_ context.Context, it *Item) error {
					got = append(got, string(it.Data))
					if fails && it.ID == ids[0] {
						return errHandler
					}
					return nil
				})
				time.Sleep(time.Minute)
				synctest.Wait()
				require.True(t, a.Waiting())
				want := []string{"x", "y", "z"}
				if fails {
					want = []string{"x", "y", "z", "x", "x"} // MaxAttempts
				}
				require.Equal(t, want, got)
				require.NoError(t, stop(a))
				dead, err := q.DeadLetters().Len(t.Context())
				require.NoError(t, err)
				require.Equal(t, map[bool]int{false: 0, true: 1}[fails], dead)
				require.Contains(t, log.String(), string(ids[0]))
				require.Contains(t, log.String(), `"znode":"`+stays+`"`)
				require.Contains(t, log.String(), `"children":["note"]`)
				w.aside(q, stays, znode)
			})
		})
	}
}

// aside requires that an item, its znode, the mark that it is done and a claim's exclusion
// are all that is left of a queue, that nobody takes it for an item, and that they can be
// deleted. Without the exclusion, a consumer whose server lags could claim the item.
func (w *world) aside(q *Queue, item, znode string) {
	t := w.t
	t.Helper()
	require.Empty(t, w.items())
	n, err := q.Len(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
	conn := w.bare()
	data, _, err := conn.Get(znode)
	require.NoError(t, err)
	require.Equal(t, "mine", string(data))
	data, _, err = conn.Get(item)
	require.NoError(t, err)
	require.Equal(t, "x", string(data))
	for _, path := range []string{znode, item + "/c", item, item + ".done"} {
		require.NoError(t, conn.Delete(path, -1))
	}
	w.oneSegment(q)
}

// While the end of the last consumer's session is under way, servers say that the item is
// not empty, although nothing is below it. It is deleted all the same, and not marked.
func TestB85ItemThatTheServersMiscountIsDeleted(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *Queue){
		"ack": func(t *testing.T, q *Queue) { ackOn(t, takeOn(t, q)) },
		"ack with an operation": func(t *testing.T, q *Queue) {
			require.NoError(t, takeOn(t, q).Ack(t.Context(), OpCreate("/effect", nil, 0, nil)))
		},
		"ack and put": func(t *testing.T, q *Queue) {
			_, err := takeOn(t, q).AckPut(t.Context(), q.DeadLetters(), [][]byte{[]byte("y")})
			require.NoError(t, err)
		},
		"remove": func(t *testing.T, q *Queue) {
			first, err := q.Peek(t.Context())
			require.NoError(t, err)
			require.NoError(t, q.Remove(t.Context(), first.ID))
		},
		"purge": func(t *testing.T, q *Queue) {
			n, err := q.Purge(t.Context())
			require.NoError(t, err)
			require.Equal(t, 1, n)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				opts, log := logged()
				q := w.queue(w.stranger(opts))
				putOn(t, q, "x")
				item := w.items()[0]
				takeOn(t, w.queue(w.stranger(nil)))
				w.srv.Expire(w.srv.Sessions()[1].ID)
				w.plan.Add(zktest.Fault{Do: zktest.Miscount, Path: item, Times: 4})
				end(t, q)
				synctest.Wait()
				require.Empty(t, w.srv.Children(path.Dir(item)), "neither the item nor a mark")
				require.NotContains(t, log.String(), "znodes below it")
			})
		})
	}
}

// Servers that go on counting a znode that nobody sees do not stop the queue.
func TestB85ItemThatTheServersMiscountForEverIsMarked(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue(w.stranger(nil))
		putOn(t, q, "x")
		item := w.items()[0]
		takeOn(t, w.queue(w.stranger(nil)))
		w.srv.Expire(w.srv.Sessions()[1].ID)
		w.plan.Add(zktest.Fault{Do: zktest.Miscount, Path: item, Times: -1})
		ackOn(t, takeOn(t, q))
		require.Contains(t, w.srv.Children(path.Dir(item)), path.Base(item)+queuelog.DoneName)
		_, err := q.TryTake(t.Context())
		require.ErrorIs(t, err, ErrEmpty)
	})
}

// An Ack's operations are carried out once, with the mark, and if replies are lost.
func TestB85AckOfAnItemWithAForeignZnodeBelowIsDoneOnce(t *testing.T) {
	const opMark = "multi(setData,delete,delete,create,create,create)"
	for _, fault := range []zktest.Fault{{}, {Do: zktest.Drop, Op: opMark}, {Do: zktest.Drop, After: true, Op: opMark}} {
		t.Run(fault.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				q, conn := NewQueue(w.stranger(nil), w.path, &QueueOptions{MaxLen: 1}), w.bare()
				putOn(t, q, "x")
				it := takeOn(t, q)
				stays := w.items()[0]
				znode := w.foreign(conn, stays, "note")
				if fault.Do != "" {
					w.plan.Add(fault)
				}
				next := putLater(t, q, "next")
				synctest.Wait()
				require.NoError(t, it.Ack(t.Context(), OpCreate("/effect-", nil, zk.FlagSequence, nil)))
				require.ErrorIs(t, it.Err(), ErrReleased)
				next.Get() // it counts no more
				require.Equal(t, []string{"next"}, drain(t, q))
				effects := 0
				for _, name := range w.srv.Children("/") {
					if name[:2] == "ef" {
						effects++
					}
				}
				require.Equal(t, 1, effects)
				w.aside(q, stays, znode)
			})
		})
	}
}

// A znode with the name of a claim keeps its item from being claimed. Consumers take the
// other items, and this one once the znode is gone.
func TestB85ForeignZnodeInAClaimsPlaceHoldsUpItsItemOnly(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		opts, log := logged()
		q, conn := w.queue(w.stranger(opts)), w.bare()
		putOn(t, q, "x")
		znode := w.foreign(conn, w.items()[0], "c")
		var got []string
		a := serveLater(t, q, func(_ context.Context, it *Item) error {
			got = append(got, string(it.Data))
			return nil
		})
		synctest.Wait()
		putOn(t, w.queue(w.stranger(nil)), "y")
		requests := w.requests(func() { putOn(t, q, "z") })
		require.Zero(t, requests["sync"], "%v: its item is not tried again", requests)
		require.Equal(t, []string{"y", "z"}, got)
		require.Contains(t, log.String(), `"znode":"`+znode+`"`)
		require.NoError(t, conn.Delete(znode, -1))
		synctest.Wait()
		require.Equal(t, []string{"y", "z", "x"}, got)
		require.NoError(t, stop(a))
		require.Empty(t, w.items())
	})
}

// It need not be readable.
func TestB85UnreadableZnodeInAClaimsPlaceHoldsUpItsItemOnly(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		opts, log := logged()
		q, conn := w.queue(w.stranger(opts)), w.bare()
		putOn(t, q, "x")
		znode := w.items()[0] + "/c"
		require.NoError(t, conn.AddAuth("digest", []byte("op:secret")))
		_, err := conn.Create(znode, nil, 0, zk.DigestACL(zk.PermAll, "op", "secret"))
		require.NoError(t, err)
		var got []string
		a := serveLater(t, q, func(_ context.Context, it *Item) error {
			got = append(got, string(it.Data))
			return nil
		})
		putOn(t, w.queue(w.stranger(nil)), "y")
		synctest.Wait()
		requests := w.requests(func() { putOn(t, q, "z") })
		require.Zero(t, requests["sync"], "%v: its item is not tried again", requests)
		require.True(t, a.Waiting())
		require.Equal(t, []string{"y", "z"}, got)
		require.Contains(t, log.String(), `"znode":"`+znode+`"`)
		require.NoError(t, conn.Delete(znode, -1))
		synctest.Wait()
		require.Equal(t, []string{"y", "z", "x"}, got)
		require.NoError(t, stop(a))
		require.Empty(t, w.items())
	})
}

// A session forgets such an item once it is gone.
func TestB85DeletedItemThatCouldNotBeClaimedIsForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q, conn := w.queue(w.stranger(nil)), w.bare()
		putOn(t, q, "x")
		item := w.items()[0]
		znode := w.foreign(conn, item, "c")
		a := w.takeLater(q)
		blocked := func() (n int) {
			queue.QueueIn(live(t, clientOf(q.itemQueue.Client)), q.itemQueue.Abs()).Blocked.Range(func(any, any) bool { n++; return true })
			return n
		}
		require.Equal(t, 1, blocked())
		_, err := conn.Multi(&zk.DeleteRequest{Path: znode, Version: -1}, &zk.DeleteRequest{Path: item, Version: -1})
		require.NoError(t, err)
		synctest.Wait()
		require.True(t, a.Waiting())
		require.Zero(t, blocked())
		putOn(t, q, "y")
		require.Equal(t, "y", string(a.Get().Data))
	})
}

// What stands below an item is no attempt. What was deleted again cannot be told from one.
func TestB85ForeignZnodesBelowAnItemAreNoAttempts(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q, conn := NewQueue(w.stranger(nil), w.path, &QueueOptions{MaxAttempts: 2}), w.bare()
		shows := func(attempts int, taken bool) {
			t.Helper()
			for e, err := range q.Items(t.Context()) {
				require.NoError(t, err)
				require.Equal(t, attempts, e.Attempts)
				require.Equal(t, taken, e.Taken)
			}
		}
		putOn(t, q, "x")
		item := w.items()[0]
		for _, name := range []string{"a", "b", "z"} {
			w.foreign(conn, item, name)
		}
		shows(0, false)
		e, err := q.Peek(t.Context())
		require.NoError(t, err)
		require.False(t, e.Taken)
		it := takeOn(t, q)
		require.Equal(t, 1, it.Attempt)
		shows(1, true)
		nackOn(t, it)
		shows(1, false)
		require.NoError(t, conn.Delete(item+"/a", -1))
		shows(2, false)
		a := w.takeLater(q) // moves it to the dead letters
		dead, err := NewQueue(clientOf(q.itemQueue.Client), w.path+"-dead", nil).Peek(t.Context())
		require.NoError(t, err)
		require.Equal(t, it.ID, dead.ID)
		a.Cancel(nil)
		_, err = a.Wait()
		require.ErrorIs(t, err, context.Canceled)
	})
}
