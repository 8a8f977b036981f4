package queue_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Operators delete parts of a queue, and clients are closed.

// A claim is lost if its flag, the znode that excludes others, or both are deleted. If
// the flag is deleted, the holder notices at once, else at its Ack or Nack. The item is
// delivered again.
func TestItemWhoseClaimIsDeletedIsLostAndDeliveredAgain(t *testing.T) {
	recipetest.EachInBubble(t, parts, func(t *testing.T, w *recipetest.World, deleted part) {
		q, other, conn := w.Queue(w.Stranger(nil)), w.Queue(w.Stranger(nil)), w.Bare()
		recipetest.PutOn(t, q, "x")
		it := recipetest.TakeOn(t, q)
		time.Sleep(2 * time.Second) // the flag is watched by now
		next := w.TakeLater(other)
		require.True(t, next.Waiting())
		work := it.Context(t.Context())
		deleted.remove(t, w, conn)
		synctest.Wait()
		if !deleted.flag {
			require.True(t, next.Waiting(), "the flag exists")
			require.NoError(t, it.Err())
			require.ErrorIs(t, it.Ack(t.Context()), zkrecipes.ErrLost)
		}
		require.ErrorIs(t, it.Err(), zkrecipes.ErrLost)
		require.ErrorIs(t, context.Cause(work), zkrecipes.ErrLost)
		again := next.Get()
		require.Equal(t, it.ID, again.ID)
		require.Equal(t, 2, again.Attempt)
		_, stat, err := conn.Get(w.Segment(0) + "/" + w.Flags()[0])
		require.NoError(t, err)
		require.Equal(t, recipetest.NewToken(stat.Czxid, 0), again.Token())
		require.ErrorIs(t, it.Ack(t.Context()), zkrecipes.ErrLost)
		require.ErrorIs(t, it.Nack(t.Context()), zkrecipes.ErrLost)
		require.NoError(t, again.Err())
		if !deleted.flag {
			deleted.remove(t, w, conn)
			require.ErrorIs(t, again.Nack(t.Context()), zkrecipes.ErrLost)
			again = recipetest.TakeOn(t, other)
		}
		recipetest.AckOn(t, again)
		require.Empty(t, w.Items())
	})
}

// A consumer whose flag was deleted sweeps the rest of its claim. At any of its requests an
// operator deletes that, too, and another consumer takes the item: its claim stays.
func TestSweepOfAClaimLeavesTheNextConsumersAlone(t *testing.T) {
	for _, op := range []string{"getData", "setData", "delete"} {
		for _, sameClient := range []bool{false, true} {
			beforeAndAfter(t, func(t *testing.T, w *recipetest.World, after bool) {
				q, conn := w.Queue(w.Stranger(nil)), w.Bare()
				recipetest.PutOn(t, q, "x")
				recipetest.TakeOn(t, q)
				flag, exclusion := w.Segment(0)+"/"+w.Flags()[0], w.Items()[0]+queuelog.ClaimName
				time.Sleep(2 * time.Second) // the flag is watched by now
				other := q
				if !sameClient {
					other = w.Queue(w.Stranger(nil))
				}
				next := w.TakeLater(other)
				w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: op, Path: exclusion, For: 2 * time.Second, After: after})
				require.NoError(t, conn.Delete(flag, -1))
				time.Sleep(time.Second)
				if op != "delete" || !after { // else it is the next one's
					err := conn.Delete(exclusion, -1)
					// It may be the next consumer's read that was delayed, and not the holder's.
					require.True(t, err == nil || op == "getData" && errors.Is(err, zk.ErrNoNode), "%v", err)
				}
				again := next.Get()
				time.Sleep(time.Minute)
				require.NoError(t, again.Err())
				require.Equal(t, []string{queuelog.ClaimName[1:]}, w.Srv.Children(w.Items()[0]), "it excludes")
				recipetest.AckOn(t, again)
				require.Empty(t, w.Items())
			})
		}
	}
}

// The same, but the exclusion has gone when the sweep writes it, and the next consumer's comes before
// the sweep would delete.
func TestSweepDeletesNoClaimMadeSinceItFoundNone(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, conn := w.Queue(w.Stranger(nil)), w.Bare()
		recipetest.PutOn(t, q, "x")
		recipetest.TakeOn(t, q)
		flag, exclusion := w.Segment(0)+"/"+w.Flags()[0], w.Items()[0]+queuelog.ClaimName
		time.Sleep(2 * time.Second) // the flag is watched by now
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "setData", Path: exclusion, For: time.Second})
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "delete", Path: exclusion, For: time.Second})
		_, err := conn.Multi(&zk.DeleteRequest{Path: flag, Version: -1})
		require.NoError(t, err)
		synctest.Wait()
		_, err = conn.Multi(&zk.DeleteRequest{Path: exclusion, Version: -1}) // which the plan does not delay
		require.NoError(t, err)
		time.Sleep(3 * time.Second / 2)
		it := recipetest.TakeOn(t, w.Queue(w.Stranger(nil)))
		time.Sleep(time.Minute)
		require.Equal(t, []string{queuelog.ClaimName[1:]}, w.Srv.Children(w.Items()[0]), "it excludes")
		recipetest.AckOn(t, it)
	})
}

// The whole queue is deleted, with the places of its waiters. They go on in the queue
// that is created next. Tools delete a tree in one transaction, or one znode after the
// other: then a waiter may be evicted first.
func TestTakersRecoverWhenTheQueueIsDeleted(t *testing.T) {
	recipetest.EachInBubble(t, map[string]func(t *testing.T, w *recipetest.World, conn *zk.Conn){
		"in one transaction": func(t *testing.T, w *recipetest.World, conn *zk.Conn) { recipetest.RemoveTree(t, conn, w.Path) },
		"leaves first": func(t *testing.T, w *recipetest.World, conn *zk.Conn) {
			all := recipetest.Tree(t, conn, w.Path)
			slices.Reverse(all)
			for _, name := range append(all, "") {
				_ = conn.Delete(w.Path+name, -1) // the waiters may have created it again by now
			}
		},
		"line last": func(t *testing.T, w *recipetest.World, conn *zk.Conn) {
			all := recipetest.Tree(t, conn, w.Path)
			slices.SortFunc(all, func(a, b string) int {
				return strings.Compare(strings.Replace(b, "/line", "/!", 1), strings.Replace(a, "/line", "/!", 1))
			})
			for _, name := range all {
				_ = conn.Delete(w.Path+name, -1)
			}
		},
	}, func(t *testing.T, w *recipetest.World, remove func(*testing.T, *recipetest.World, *zk.Conn)) {
		q, conn := w.Queue(w.Stranger(nil)), w.Bare()
		recipetest.Warm(t, q)
		take := func(q *zkrecipes.Queue) *harness.Call[*zkrecipes.Item] {
			return harness.Go(t, func(ctx context.Context) (*zkrecipes.Item, error) {
				for {
					it, err := q.Take(ctx)
					if !errors.Is(err, zkrecipes.ErrEvicted) { // it saw its place deleted before the line was
						return it, err
					}
				}
			})
		}
		first, second := take(q), take(w.Queue(w.Stranger(nil)))
		synctest.Wait()
		remove(t, w, conn)
		synctest.Wait()
		require.True(t, first.Waiting())
		require.True(t, second.Waiting())
		ids := recipetest.PutOn(t, q, "0", "1") // the receipts' parent is gone, too
		require.ElementsMatch(t, ids, []zkrecipes.ItemID{first.Get().ID, second.Get().ID})
	})
}

// Znodes of other programs are ignored everywhere in the queue, and none is deleted.
func TestForeignZnodesInAQueueAreIgnored(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, conn := w.Small(3, nil), w.Bare()
		recipetest.Warm(t, q)
		recipetest.Cancels(t, w.TakeLater(q)) // makes the line
		time.Sleep(time.Second)
		foreign := []string{
			"/x", "/s/x", "/s/00000000000", "/s/-000000001", "/s/0000000000/x", "/s/0000000000/ünï",
			"/s/0000000000/" + strings.Repeat("a", 32), "/s/0000000000/" + strings.Repeat("a", 22) + "+000000001",
			"/s/0000000000/" + queuelog.NewID() + "0000000099.flag", "/s/0000000000/" + queuelog.NewID() + "99999999999",
			"/line/x", "/line/lock-", "/puts/x",
		}
		for _, name := range foreign {
			_, err := conn.Create(w.Path+name, []byte("mine"), 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
		}
		recipetest.PutOn(t, q, recipetest.Names(10)...)
		require.Equal(t, recipetest.Names(10), recipetest.Drain(t, w.Queue(w.Stranger(nil))))
		for _, name := range foreign {
			data, _, err := conn.Get(w.Path + name)
			require.NoError(t, err, name)
			require.Equal(t, "mine", string(data))
		}
		_, err := conn.Create(w.Path+"/line/x__READ__", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		_, err = q.Take(t.Context())
		require.ErrorContains(t, err, "another recipe uses this path")
	})
}
