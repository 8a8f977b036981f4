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
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The receipts that a session keeps for its next transactions.

// Ctx ends before or after a put is sent. A put that was not sent has failed. One that
// was sent is uncertain, and its receipt is deleted. If the session ends before a put is sent, it is
// sent in the next one.
func TestPutIsUncertainOnlyOnceItIsSent(t *testing.T) {
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
		a := w.PutLater(q, "not sent yet")
		require.True(t, w.Srv.Expire(recipetest.SessionID(c)))
		w.Back()
		a.Get()
		require.Equal(t, []string{"not sent yet"}, recipetest.Drain(t, q))

		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpPut, For: time.Second})
		id, err = canceled("sent")
		require.ErrorIs(t, err, zkrecipes.ErrUncertain)
		it := recipetest.TakeOn(t, q)
		require.Equal(t, id, it.ID)
		recipetest.AckOn(t, it)
		require.Empty(t, receipts(), "discarded")
		recipetest.PutOn(t, q, "next")
		require.Len(t, receipts(), 1)

		w.Plan.Add(zktest.Fault{Do: zktest.Withhold, Op: recipetest.OpPut, After: true})
		_, err = canceled("its reply is lost")
		require.ErrorIs(t, err, zkrecipes.ErrUncertain)
		require.True(t, w.Srv.Disconnect(recipetest.SessionID(c)))
		require.Equal(t, []string{"next", "its reply is lost"}, recipetest.Drain(t, q))
		require.Empty(t, receipts(), "discarded")
	})
}

// An operator deletes the receipts, or the queue with them. No call fails for that,
// however many there were.
func TestCallsGoOnWhenAllReceiptsWereDeleted(t *testing.T) {
	put := func(t *testing.T, w *recipetest.World, q *zkrecipes.Queue) { recipetest.PutOn(t, q, "x") }
	purge := func(t *testing.T, w *recipetest.World, q *zkrecipes.Queue) { purge(t, q) }
	type use struct {
		call    func(t *testing.T, w *recipetest.World, q *zkrecipes.Queue)
		deleted string
	}
	recipetest.EachInBubble(t, map[string]use{
		"Put": {put, "/puts"}, "Put without a queue": {put, ""}, "Purge": {purge, "/puts"}, "Purge without a queue": {purge, ""},
		"AckPut": {func(t *testing.T, w *recipetest.World, q *zkrecipes.Queue) {
			ackPutOn(t, recipetest.TakeOn(t, q), zkrecipes.NewQueue(w.ClientOf(q), "/next", nil), "moved")
		}, "/puts"},
	}, func(t *testing.T, w *recipetest.World, c use) {
		q := w.Queue(w.Stranger(nil))
		w.PutAtOnce(q, 3*zkconn.MaxTries)
		require.Greater(t, len(w.Srv.Children(w.Path+"/puts")), zkconn.MaxTries)
		recipetest.RemoveTree(t, w.Bare(), w.Path+c.deleted)
		c.call(t, w, q)
		c.call(t, w, q)
	})
}

// Receipts that were needed for a moment only do not stay until the session ends.
func TestReceiptsOfManyPutsAtOnceAreDeletedSaveForSome(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(nil))
		w.PutAtOnce(q, 100)
		time.Sleep(time.Second)
		require.Len(t, w.Srv.Children(w.Path+"/puts"), 32)
		recipetest.PutOn(t, q, "x")
		require.Len(t, w.Srv.Children(w.Path+"/puts"), 32)
	})
}

// A Client that has put items into many queues holds nothing. Its receipts leave half of the session's
// room to what it takes later.
func TestReceiptsOfManyQueuesLeaveRoomInTheSession(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(&zkrecipes.Options{MaxBuffer: 8 << 10})
		for i := range 300 {
			recipetest.PutOn(t, zkrecipes.NewQueue(c, fmt.Sprintf("/customer%03d", i), nil), "x")
		}
		w.Accounted(c)
		now := c.Status()
		require.Less(t, now.ZnodeBytes, now.MaxZnodeBytes*6/10)
		require.Greater(t, now.ZnodeBytes, now.MaxZnodeBytes*4/10)
		w.LockMany(c, 40)
	})
}

// It has its receipt, however many locks the Client holds.
func TestAQueueThatIsUsedTakesNoMoreRoomInAFullSession(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(&zkrecipes.Options{MaxBuffer: 8 << 10})
		q := zkrecipes.NewQueue(c, w.Path, nil)
		recipetest.PutOn(t, q, "x")
		for i := 0; ; i++ {
			if _, err := zkrecipes.NewMutex(c, fmt.Sprint("/locks/", i)).Lock(t.Context()); err != nil {
				require.ErrorIs(t, err, zkrecipes.ErrSessionFull)
				break
			}
		}
		for range 3 {
			recipetest.PutOn(t, q, "x")
		}
	})
}

// The receipts are deleted together with the queue. The outcome of a put or an ack under way
// is then unknown, and it must not be applied a second time: others may have seen the item, or
// the effects of the ack. It makes no difference whether the receipts' parent was made again.
func TestPutsAndAcksAreUncertainIfTheirReceiptsAreDeletedWithTheQueue(t *testing.T) {
	calls := map[string]func(t *testing.T, q *zkrecipes.Queue, it *zkrecipes.Item) error{
		"put": func(t *testing.T, q *zkrecipes.Queue, _ *zkrecipes.Item) error {
			id, err := q.Put(t.Context(), []byte("lost"))
			require.NotEmpty(t, id)
			return err
		},
		"ack": func(t *testing.T, _ *zkrecipes.Queue, it *zkrecipes.Item) error {
			err := it.Ack(t.Context(), zkrecipes.OpCreate("/done", nil, 0, nil))
			require.NotErrorIs(t, err, zkrecipes.ErrLost)
			return err
		},
	}
	for _, parent := range []bool{false, true} {
		recipetest.EachInBubble(t, calls, func(t *testing.T, w *recipetest.World, call func(*testing.T, *zkrecipes.Queue, *zkrecipes.Item) error) {
			q, conn := w.Queue(w.Stranger(nil)), w.Bare()
			recipetest.PutOn(t, q, "x")
			it := recipetest.TakeOn(t, q)
			w.Plan.Add(zktest.Fault{Do: zktest.Withhold, After: true, Op: "multi", Path: w.ReceiptsOf(w.ClientOf(q))})
			time.AfterFunc(time.Second, func() {
				recipetest.RemoveTree(t, conn, w.Path)
				for _, path := range []string{w.Path, w.Path + "/puts"} {
					if parent {
						_, err := conn.CreateContainer(path, nil, zk.FlagContainer, zk.WorldACL(zk.PermAll))
						require.NoError(t, err)
					}
				}
				w.Srv.Disconnect(recipetest.SessionID(w.ClientOf(q)))
			})
			require.ErrorIs(t, call(t, q, it), zkrecipes.ErrUncertain)
			require.Len(t, w.Plan.Fired(), 1)
			recipetest.PutOn(t, q, "1")
			require.Equal(t, []string{"1"}, recipetest.Drain(t, q))
		})
	}
}
