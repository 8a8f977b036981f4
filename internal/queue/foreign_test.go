package queue_test

import (
	"context"
	"fmt"
	"path"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/queue"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Somebody creates znodes below items, which the servers then cannot delete.

// Serve acks the item, or moves it to the dead letters, and goes on to the next.
func TestB85ItemWithAForeignZnodeBelowDoesNotStopTheQueue(t *testing.T) {
	for _, fails := range []bool{false, true} {
		t.Run(fmt.Sprintf("fails=%v", fails), func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				opts, log := recipetest.Logged()
				q := zkrecipes.NewQueue(w.Stranger(opts), w.Path, &zkrecipes.QueueOptions{MaxAttempts: 3})
				recipetest.QueueOf(q).SegmentSize = 2
				ids := recipetest.PutOn(t, q, "x", "y", "z")
				stays := w.Items()[0]
				znode := w.Foreign(w.Bare(), stays, "note")
				var got []string
				a := recipetest.ServeLater(t, q, func(_ context.Context, it *zkrecipes.Item) error {
					got = append(got, string(it.Data))
					if fails && it.ID == ids[0] {
						return recipetest.ErrHandler
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
				w.Aside(q, stays, znode)
			})
		})
	}
}

// While the end of the last consumer's session is under way, servers say that the item is
// not empty, although nothing is below it. It is deleted all the same, and not marked.
func TestB85ItemThatTheServersMiscountIsDeleted(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *zkrecipes.Queue){
		"ack": func(t *testing.T, q *zkrecipes.Queue) { recipetest.AckOn(t, recipetest.TakeOn(t, q)) },
		"ack with an operation": func(t *testing.T, q *zkrecipes.Queue) {
			require.NoError(t, recipetest.TakeOn(t, q).Ack(t.Context(), zkrecipes.OpCreate("/effect", nil, 0, nil)))
		},
		"ack and put": func(t *testing.T, q *zkrecipes.Queue) {
			_, err := recipetest.TakeOn(t, q).AckPut(t.Context(), q.DeadLetters(), [][]byte{[]byte("y")})
			require.NoError(t, err)
		},
		"remove": func(t *testing.T, q *zkrecipes.Queue) {
			first, err := q.Peek(t.Context())
			require.NoError(t, err)
			require.NoError(t, q.Remove(t.Context(), first.ID))
		},
		"purge": func(t *testing.T, q *zkrecipes.Queue) {
			n, err := q.Purge(t.Context())
			require.NoError(t, err)
			require.Equal(t, 1, n)
		},
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				opts, log := recipetest.Logged()
				q := w.Queue(w.Stranger(opts))
				recipetest.PutOn(t, q, "x")
				item := w.Items()[0]
				recipetest.TakeOn(t, w.Queue(w.Stranger(nil)))
				w.Srv.Expire(w.Srv.Sessions()[1].ID)
				w.Plan.Add(zktest.Fault{Do: zktest.Miscount, Path: item, Times: 4})
				end(t, q)
				synctest.Wait()
				require.Empty(t, w.Srv.Children(path.Dir(item)), "neither the item nor a mark")
				require.NotContains(t, log.String(), "znodes below it")
			})
		})
	}
}

// Servers that go on counting a znode that nobody sees do not stop the queue.
func TestB85ItemThatTheServersMiscountForEverIsMarked(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(nil))
		recipetest.PutOn(t, q, "x")
		item := w.Items()[0]
		recipetest.TakeOn(t, w.Queue(w.Stranger(nil)))
		w.Srv.Expire(w.Srv.Sessions()[1].ID)
		w.Plan.Add(zktest.Fault{Do: zktest.Miscount, Path: item, Times: -1})
		recipetest.AckOn(t, recipetest.TakeOn(t, q))
		require.Contains(t, w.Srv.Children(path.Dir(item)), path.Base(item)+queuelog.DoneName)
		_, err := q.TryTake(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrEmpty)
	})
}

// An Ack's operations are carried out once, with the mark, and if replies are lost.
func TestB85AckOfAnItemWithAForeignZnodeBelowIsDoneOnce(t *testing.T) {
	const opMark = "multi(setData,delete,delete,create,create,create)"
	for _, fault := range []zktest.Fault{{}, {Do: zktest.Drop, Op: opMark}, {Do: zktest.Drop, After: true, Op: opMark}} {
		t.Run(fault.String(), func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				q, conn := zkrecipes.NewQueue(w.Stranger(nil), w.Path, &zkrecipes.QueueOptions{MaxLen: 1}), w.Bare()
				recipetest.PutOn(t, q, "x")
				it := recipetest.TakeOn(t, q)
				stays := w.Items()[0]
				znode := w.Foreign(conn, stays, "note")
				if fault.Do != "" {
					w.Plan.Add(fault)
				}
				next := recipetest.PutLater(t, q, "next")
				synctest.Wait()
				require.NoError(t, it.Ack(t.Context(), zkrecipes.OpCreate("/effect-", nil, zk.FlagSequence, nil)))
				require.ErrorIs(t, it.Err(), zkrecipes.ErrReleased)
				next.Get() // it counts no more
				require.Equal(t, []string{"next"}, recipetest.Drain(t, q))
				effects := 0
				for _, name := range w.Srv.Children("/") {
					if name[:2] == "ef" {
						effects++
					}
				}
				require.Equal(t, 1, effects)
				w.Aside(q, stays, znode)
			})
		})
	}
}

// A znode with the name of a claim keeps its item from being claimed. Consumers take the
// other items, and this one once the znode is gone.
func TestB85ForeignZnodeInAClaimsPlaceHoldsUpItsItemOnly(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		opts, log := recipetest.Logged()
		q, conn := w.Queue(w.Stranger(opts)), w.Bare()
		recipetest.PutOn(t, q, "x")
		znode := w.Foreign(conn, w.Items()[0], "c")
		var got []string
		a := recipetest.ServeLater(t, q, func(_ context.Context, it *zkrecipes.Item) error {
			got = append(got, string(it.Data))
			return nil
		})
		synctest.Wait()
		recipetest.PutOn(t, w.Queue(w.Stranger(nil)), "y")
		requests := w.Requests(func() { recipetest.PutOn(t, q, "z") })
		require.Zero(t, requests["sync"], "%v: its item is not tried again", requests)
		require.Equal(t, []string{"y", "z"}, got)
		require.Contains(t, log.String(), `"znode":"`+znode+`"`)
		require.NoError(t, conn.Delete(znode, -1))
		synctest.Wait()
		require.Equal(t, []string{"y", "z", "x"}, got)
		require.NoError(t, stop(a))
		require.Empty(t, w.Items())
	})
}

// It need not be readable.
func TestB85UnreadableZnodeInAClaimsPlaceHoldsUpItsItemOnly(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		opts, log := recipetest.Logged()
		q, conn := w.Queue(w.Stranger(opts)), w.Bare()
		recipetest.PutOn(t, q, "x")
		znode := w.Items()[0] + "/c"
		require.NoError(t, conn.AddAuth("digest", []byte("op:secret")))
		_, err := conn.Create(znode, nil, 0, zk.DigestACL(zk.PermAll, "op", "secret"))
		require.NoError(t, err)
		var got []string
		a := recipetest.ServeLater(t, q, func(_ context.Context, it *zkrecipes.Item) error {
			got = append(got, string(it.Data))
			return nil
		})
		recipetest.PutOn(t, w.Queue(w.Stranger(nil)), "y")
		synctest.Wait()
		requests := w.Requests(func() { recipetest.PutOn(t, q, "z") })
		require.Zero(t, requests["sync"], "%v: its item is not tried again", requests)
		require.True(t, a.Waiting())
		require.Equal(t, []string{"y", "z"}, got)
		require.Contains(t, log.String(), `"znode":"`+znode+`"`)
		require.NoError(t, conn.Delete(znode, -1))
		synctest.Wait()
		require.Equal(t, []string{"y", "z", "x"}, got)
		require.NoError(t, stop(a))
		require.Empty(t, w.Items())
	})
}

// A session forgets such an item once it is gone.
func TestB85DeletedItemThatCouldNotBeClaimedIsForgotten(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, conn := w.Queue(w.Stranger(nil)), w.Bare()
		recipetest.PutOn(t, q, "x")
		item := w.Items()[0]
		znode := w.Foreign(conn, item, "c")
		a := w.TakeLater(q)
		blocked := func() (n int) {
			queue.QueueIn(recipetest.Live(t, recipetest.ClientOf(recipetest.QueueOf(q).Client)), recipetest.QueueOf(q).Abs()).Blocked.Range(func(any, any) bool { n++; return true })
			return n
		}
		require.Equal(t, 1, blocked())
		_, err := conn.Multi(&zk.DeleteRequest{Path: znode, Version: -1}, &zk.DeleteRequest{Path: item, Version: -1})
		require.NoError(t, err)
		synctest.Wait()
		require.True(t, a.Waiting())
		require.Zero(t, blocked())
		recipetest.PutOn(t, q, "y")
		require.Equal(t, "y", string(a.Get().Data))
	})
}

// What stands below an item is no attempt. What was deleted again cannot be told from one.
func TestB85ForeignZnodesBelowAnItemAreNoAttempts(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, conn := zkrecipes.NewQueue(w.Stranger(nil), w.Path, &zkrecipes.QueueOptions{MaxAttempts: 2}), w.Bare()
		shows := func(attempts int, taken bool) {
			t.Helper()
			for e, err := range q.Items(t.Context()) {
				require.NoError(t, err)
				require.Equal(t, attempts, e.Attempts)
				require.Equal(t, taken, e.Taken)
			}
		}
		recipetest.PutOn(t, q, "x")
		item := w.Items()[0]
		for _, name := range []string{"a", "b", "z"} {
			w.Foreign(conn, item, name)
		}
		shows(0, false)
		e, err := q.Peek(t.Context())
		require.NoError(t, err)
		require.False(t, e.Taken)
		it := recipetest.TakeOn(t, q)
		require.Equal(t, 1, it.Attempt)
		shows(1, true)
		recipetest.NackOn(t, it)
		shows(1, false)
		require.NoError(t, conn.Delete(item+"/a", -1))
		shows(2, false)
		a := w.TakeLater(q) // moves it to the dead letters
		dead, err := zkrecipes.NewQueue(recipetest.ClientOf(recipetest.QueueOf(q).Client), w.Path+"-dead", nil).Peek(t.Context())
		require.NoError(t, err)
		require.Equal(t, it.ID, dead.ID)
		a.Cancel(nil)
		_, err = a.Wait()
		require.ErrorIs(t, err, context.Canceled)
	})
}
