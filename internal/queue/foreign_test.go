package queue_test

import (
	"path"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Somebody creates znodes below items, which the servers then cannot delete.

// The item is set aside, whatever ends it, and the log says so. What goes on with the
// others does.
func TestItemWithAForeignZnodeBelowIsSetAside(t *testing.T) {
	recipetest.EachInBubble(t, map[string]func(t *testing.T, w *recipetest.World, q *zkrecipes.Queue){
		"served": func(t *testing.T, w *recipetest.World, q *zkrecipes.Queue) {
			require.Equal(t, []string{"x", "y", "z"}, served(t, q, nil))
		},
		"served, fails": func(t *testing.T, w *recipetest.World, q *zkrecipes.Queue) {
			require.Equal(t, []string{"x", "y", "z", "x", "x"}, served(t, q, recipetest.ErrHandler), "MaxAttempts")
			require.Equal(t, []string{"x"}, listed(t, q.DeadLetters()))
		},
		"moved": func(t *testing.T, w *recipetest.World, q *zkrecipes.Queue) {
			to := zkrecipes.NewQueue(w.ClientOf(q), "/next", nil)
			ackPutOn(t, recipetest.TakeOn(t, q), to, "moved")
			require.Equal(t, []string{"moved"}, listed(t, to))
			require.Equal(t, []string{"y", "z"}, recipetest.Drain(t, q))
		},
		"removed": func(t *testing.T, w *recipetest.World, q *zkrecipes.Queue) {
			e, err := q.Peek(t.Context())
			require.NoError(t, err)
			require.NoError(t, q.Remove(t.Context(), e.ID))
			require.ErrorIs(t, q.Remove(t.Context(), e.ID), zkrecipes.ErrItemGone)
			require.Equal(t, []string{"y", "z"}, recipetest.Drain(t, q))
		},
		"purged": func(t *testing.T, w *recipetest.World, q *zkrecipes.Queue) { require.Equal(t, 3, purge(t, q)) },
	}, func(t *testing.T, w *recipetest.World, end func(*testing.T, *recipetest.World, *zkrecipes.Queue)) {
		opts, log := recipetest.Logged()
		q := w.QueueWith(w.Sealing(2, opts), &zkrecipes.QueueOptions{MaxAttempts: 3})
		recipetest.PutOn(t, q, "x", "y", "z")
		stays := w.Items()[0]
		znode := w.Foreign(w.Bare(), stays, "note")
		end(t, w, q)
		synctest.Wait() // the log is written in the background
		require.Contains(t, log.String(), `"znode":"`+stays+`"`)
		require.Contains(t, log.String(), `"children":["note"]`)
		w.Aside(q, stays, znode)
	})
}

// served returns what is handed out in a minute, while x fails with err.
func served(t *testing.T, q *zkrecipes.Queue, err error) []string {
	a := serve(t, q, func(it *zkrecipes.Item) error {
		if string(it.Data) == "x" {
			return err
		}
		return nil
	})
	time.Sleep(time.Minute)
	require.NoError(t, stop(a.Call))
	return a.got
}

// While the end of the last consumer's session is under way, servers say that the item is
// not empty, although nothing is below it. It is deleted all the same, and not marked, unless
// they go on counting a znode that nobody sees: that does not stop the queue.
func TestItemThatTheServersMiscountIsDeleted(t *testing.T) {
	ack := func(t *testing.T, q *zkrecipes.Queue) { recipetest.AckedOn(t, q) }
	type end struct {
		end   func(*testing.T, *zkrecipes.Queue)
		times int
	}
	recipetest.EachInBubble(t, map[string]end{
		"ack": {ack, 4},
		"ack with an operation": {func(t *testing.T, q *zkrecipes.Queue) {
			require.NoError(t, recipetest.TakeOn(t, q).Ack(t.Context(), zkrecipes.OpCreate("/effect", nil, 0, nil)))
		}, 4},
		"ack and put": {func(t *testing.T, q *zkrecipes.Queue) { ackPutOn(t, recipetest.TakeOn(t, q), q.DeadLetters(), "y") }, 4},
		"remove": {func(t *testing.T, q *zkrecipes.Queue) {
			first, err := q.Peek(t.Context())
			require.NoError(t, err)
			require.NoError(t, q.Remove(t.Context(), first.ID))
		}, 4},
		"purge":    {func(t *testing.T, q *zkrecipes.Queue) { require.Equal(t, 1, purge(t, q)) }, 4},
		"for ever": {ack, -1},
	}, func(t *testing.T, w *recipetest.World, c end) {
		opts, log := recipetest.Logged()
		q := w.Queue(w.Stranger(opts))
		recipetest.PutOn(t, q, "x")
		item := w.Items()[0]
		recipetest.TakeOn(t, w.Queue(w.Stranger(nil)))
		w.Srv.Expire(w.Srv.Sessions()[1].ID)
		w.Plan.Add(zktest.Fault{Do: zktest.Miscount, Path: item, Times: c.times})
		c.end(t, q)
		synctest.Wait()
		if c.times < 0 {
			require.Contains(t, w.Srv.Children(w.Segment(0)), path.Base(item)+queuelog.DoneName)
		} else {
			require.Empty(t, w.Srv.Children(w.Segment(0)), "neither the item nor a mark")
			require.NotContains(t, log.String(), "znodes below it")
		}
		_, err := q.TryTake(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrEmpty)
	})
}

// A znode with the name of a claim keeps its item from being claimed. It need not be
// readable. Consumers take the other items, and this one once the znode is gone.
func TestUnreadableZnodeInAClaimsPlaceHoldsUpItsItemOnly(t *testing.T) {
	recipetest.EachInBubble(t, map[string][]zk.ACL{
		"readable": zk.WorldACL(zk.PermAll), "not readable": zk.DigestACL(zk.PermAll, "op", "secret"),
	}, func(t *testing.T, w *recipetest.World, acl []zk.ACL) {
		opts, log := recipetest.Logged()
		q, conn := w.Queue(w.Stranger(opts)), w.Bare()
		recipetest.PutOn(t, q, "x")
		znode := w.Items()[0] + "/c"
		require.NoError(t, conn.AddAuth("digest", []byte("op:secret")))
		_, err := conn.Create(znode, nil, 0, acl)
		require.NoError(t, err)
		a := serve(t, q, nil)
		recipetest.PutOn(t, w.Queue(w.Stranger(nil)), "y")
		synctest.Wait()
		requests := w.Requests(func() { recipetest.PutOn(t, q, "z") })
		require.Equal(t, 1, requests[recipetest.OpClaim]+requests[recipetest.OpClaimAlone], "%v: the other item is not tried again", requests)
		require.Equal(t, []string{"y", "z"}, a.got)
		require.Contains(t, log.String(), `"znode":"`+znode+`"`)
		require.NoError(t, conn.Delete(znode, -1))
		synctest.Wait()
		require.Equal(t, []string{"y", "z", "x"}, a.got)
		require.NoError(t, stop(a.Call))
		require.Empty(t, w.Items())
	})
}

// An item with a foreign znode in a claim's place is as good as taken. The error says
// which znode it is.
func TestRemovalOfAnItemThatCannotBeClaimedNamesTheForeignZnode(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, conn := w.Queue(w.Stranger(nil)), w.Bare()
		ids := recipetest.PutOn(t, q, "x", "y")
		znode := w.Foreign(conn, w.Items()[0], "c")
		for _, err := range []error{q.Remove(t.Context(), ids[0]), q.Bury(t.Context(), ids[0])} {
			require.ErrorIs(t, err, zkrecipes.ErrItemTaken)
			require.ErrorContains(t, err, znode)
		}
		require.Equal(t, 1, purge(t, q))
		require.NoError(t, conn.Delete(znode, -1))
		require.Equal(t, []string{"x"}, recipetest.Drain(t, q))
	})
}

// Any number of the items of a segment may have znodes of others below them.
func TestPurgeMarksAnyNumberOfItemsWithForeignZnodes(t *testing.T) {
	for _, n := range []int{zkconn.MaxTries - 1, zkconn.MaxTries, 3 * zkconn.MaxTries} {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			q, conn := w.Queue(w.Stranger(nil)), w.Bare()
			recipetest.PutOn(t, q, recipetest.Names(n)...)
			for _, item := range w.Items() {
				w.Foreign(conn, item, "note")
			}
			recipetest.PutOn(t, q, "without")
			require.Equal(t, n+1, purge(t, q))
			require.Empty(t, listed(t, q))
		})
	}
}

func TestEachItemThatIsInTheWayIsTriedOnce(t *testing.T) {
	const n = 200
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, conn := w.Queue(w.Stranger(nil)), w.Bare()
		recipetest.PutAllOn(t, q, 0, n)
		for _, it := range w.Items() {
			w.Foreign(conn, it, "c")
		}
		var taken *harness.Call[*zkrecipes.Item]
		requests := w.Requests(func() {
			taken = w.TakeLater(w.Queue(w.Stranger(nil)))
			time.Sleep(time.Minute)
		})
		require.Equal(t, n, requests[recipetest.OpClaim]+requests[recipetest.OpClaimAlone])
		recipetest.PutOn(t, q, "free")
		require.Equal(t, "free", string(taken.Get().Data))
	})
}

// Whoever reads that record deletes the znode that it names.
func TestAClaimOfAnotherConsumerAndADoneItemAreNotCalledInTheWay(t *testing.T) {
	recipetest.EachInBubble(t, map[string]func(t *testing.T, w *recipetest.World){
		"a claim that this consumer may not read": func(t *testing.T, w *recipetest.World) {
			other := w.Queue(w.Stranger(&zkrecipes.Options{Auth: []zkrecipes.Auth{{Scheme: "digest", Data: []byte("a:b")}}}))
			_, err := other.TryTake(t.Context())
			require.NoError(t, err)
		},
		"an item that is done": func(t *testing.T, w *recipetest.World) {
			w.Foreign(w.Bare(), w.Items()[0], "note")
			other := w.Queue(w.Stranger(nil))
			e, err := other.Peek(t.Context())
			require.NoError(t, err)
			require.NoError(t, other.Remove(t.Context(), e.ID))
		},
	}, func(t *testing.T, w *recipetest.World, quicker func(*testing.T, *recipetest.World)) {
		opts, log := recipetest.Logged()
		q := w.Queue(w.Stranger(opts))
		recipetest.Warm(t, q)
		recipetest.PutOn(t, q, "x", "y")
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpClaimAlone, For: time.Second})
		a := harness.Go(t, q.TryTake)
		synctest.Wait()
		quicker(t, w)
		require.Equal(t, "y", string(a.Get().Data))
		synctest.Wait()
		require.NotContains(t, log.String(), "cannot be claimed")
	})
}
