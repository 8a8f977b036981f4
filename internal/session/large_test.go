package session_test

import (
	"context"
	"fmt"
	"strings"
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

// Requests above the servers' jute.maxbuffer, which is smaller than the default here.

const smallBuffer = 64 << 10

// largeCalls each send a request of little more than that many bytes.
var largeCalls = map[string]func(ctx context.Context, c *zkrecipes.Client, bytes int) error{
	"put": func(ctx context.Context, c *zkrecipes.Client, bytes int) error {
		_, err := zkrecipes.NewQueue(c, "/queue", nil).Put(ctx, make([]byte, bytes))
		return err
	},
	"put into a bounded queue": func(ctx context.Context, c *zkrecipes.Client, bytes int) error {
		_, err := zkrecipes.NewQueue(c, "/bounded", &zkrecipes.QueueOptions{MaxLen: 5}).Put(ctx, make([]byte, bytes))
		return err
	},
	"ack": func(ctx context.Context, c *zkrecipes.Client, bytes int) error {
		q := zkrecipes.NewQueue(c, "/acked", nil)
		if _, err := q.Put(ctx, nil); err != nil {
			return err
		}
		it, err := q.Take(ctx)
		if err != nil {
			return err
		}
		return it.Ack(ctx, zkrecipes.OpCreate("/n", make([]byte, bytes), 0, nil))
	},
	"campaign": func(ctx context.Context, c *zkrecipes.Client, bytes int) error {
		_, err := zkrecipes.NewElection(c, "/election").Campaign(ctx, make([]byte, bytes))
		return err
	},
	"join": func(ctx context.Context, c *zkrecipes.Client, bytes int) error {
		_, err := zkrecipes.NewGroup(c, "/group").Join(ctx, make([]byte, bytes))
		return err
	},
	"barrier": func(ctx context.Context, c *zkrecipes.Client, bytes int) error {
		_, err := zkrecipes.NewBarrier(c, "/barrier", bytes/60).Wait(ctx)
		return err
	},
	"acquire": func(ctx context.Context, c *zkrecipes.Client, bytes int) error {
		_, err := zkrecipes.NewSemaphore(c, "/semaphore", 9999).AcquireN(ctx, bytes/60)
		return err
	},
	"a long path": func(ctx context.Context, c *zkrecipes.Client, bytes int) error {
		_, err := zkrecipes.NewMutex(c, "/"+strings.Repeat("x", bytes)).Lock(ctx)
		return err
	},
}

func TestNoRequestAboveMaxBufferIsSent(t *testing.T) {
	recipetest.EachInBubble(t, largeCalls, func(t *testing.T, w *recipetest.World, call func(context.Context, *zkrecipes.Client, int) error) {
		c := w.Client(&zkrecipes.Options{MaxBuffer: smallBuffer})
		before := w.Srv.Counts()
		err := call(harness.Within(t, time.Minute), c, smallBuffer)
		require.ErrorIs(t, err, zkrecipes.ErrTooLarge)
		require.NotErrorIs(t, err, zkrecipes.ErrUncertain)
		require.ErrorContains(t, err, "servers accept 65536 (jute.maxbuffer)")
		require.Zero(t, w.Srv.Counts().Sub(before).Requests["connect"], "no connection is lost")
	}, zktest.MaxFrame(smallBuffer))
}

func TestARequestOfMaxBufferPassesAndOneByteMoreIsNotSent(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(&zkrecipes.Options{MaxBuffer: smallBuffer})
		l := recipetest.Held(t, zkrecipes.NewMutex(c, w.Path).Lock)
		_, err := l.Commit(t.Context(), zkrecipes.OpCreate("/n", nil, 0, nil))
		require.NoError(t, err)
		commit := func(n int) error {
			_, err := l.Commit(t.Context(), zkrecipes.OpSet("/n", make([]byte, n), -1))
			return err
		}
		before := w.Srv.Counts()
		least, most := 0, smallBuffer
		for most-least > 1 {
			if n := (least + most) / 2; commit(n) == nil {
				least = n
			} else {
				most = n
			}
		}
		require.ErrorIs(t, commit(most), zkrecipes.ErrTooLarge)
		require.ErrorContains(t, commit(most), "request of 65537 bytes")
		require.Zero(t, w.Srv.Counts().Sub(before).Requests["connect"], "no connection is lost")
		require.NoError(t, l.Release())
	}, zktest.MaxFrame(smallBuffer))
}

// The session has more watches than one request of that size has room for.
func TestWatchesAreSetAgainByRequestsOfMaxBuffer(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c, look := w.Client(&zkrecipes.Options{MaxBuffer: smallBuffer}), w.Bare()
		id := recipetest.SessionID(c)
		var nodes []string
		var watches []*recipetest.Readout
		for i := range 200 {
			nodes = append(nodes, fmt.Sprintf("/%0500d", i))
			_, err := look.Create(nodes[i], nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			watches = append(watches, recipetest.WatchesAt(t, c, nodes[i]))
		}
		require.True(t, w.Srv.Disconnect(id))
		for _, node := range nodes {
			require.NoError(t, look.Delete(node, -1))
		}
		time.Sleep(time.Minute)
		for _, watch := range watches {
			require.Equal(t, "none", watch.Last())
		}
		require.Equal(t, id, recipetest.SessionID(c), "the session goes on")
	}, zktest.MaxFrame(smallBuffer))
}

func TestARequestThatServersCloseThreeConnectionsOnIsGivenUp(t *testing.T) {
	for name, call := range largeCalls {
		if name == "barrier" { // whose members are other processes
			continue
		}
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				log := &recipetest.Warnings{}
				c := w.Client(&zkrecipes.Options{Logger: log.Logger()})
				holder := w.Stranger(nil)
				l := recipetest.Held(t, zkrecipes.NewMutex(holder, "/innocent").Lock)
				waiter := recipetest.LockLater(t, zkrecipes.NewMutex(c, "/innocent"))
				before, began := w.Srv.Counts(), time.Now()

				err := call(harness.Within(t, time.Minute), c, smallBuffer)
				require.ErrorIs(t, err, zkrecipes.ErrTooLarge)
				require.ErrorContains(t, err, "the servers have closed 3 connections in a row")
				require.Less(t, time.Since(began), 5*time.Second)
				time.Sleep(10 * time.Second)
				lost := w.Srv.Counts().Sub(before).Requests["connect"]
				if name == "acquire" { // the slots that it may have got are deleted in the same way
					require.LessOrEqual(t, lost, 6)
				} else {
					require.Equal(t, 3, lost)
					require.Len(t, log.With("so it is given up"), 1)
					require.Len(t, log.With("level=ERROR"), 1)
				}

				err = call(harness.Within(t, time.Minute), c, smallBuffer+1000)
				require.ErrorIs(t, err, zkrecipes.ErrTooLarge)
				require.NotErrorIs(t, err, zkrecipes.ErrUncertain, "nothing was sent")
				require.Equal(t, lost, w.Srv.Counts().Sub(before).Requests["connect"])
				require.NoError(t, call(harness.Within(t, time.Minute), c, smallBuffer/4))
				require.True(t, waiter.Waiting())
				require.NoError(t, l.Release())
				require.NoError(t, waiter.Get().Release())
			}, zktest.MaxFrame(smallBuffer))
		})
	}
}

func TestAPutWhoseOutcomeNoServerTellsIsUncertain(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		for _, name := range []string{"put", "put into a bounded queue", "ack"} {
			err := largeCalls[name](harness.Within(t, time.Minute), c, smallBuffer)
			require.ErrorIs(t, err, zkrecipes.ErrUncertain, name)
			require.ErrorContains(t, err, "the servers have closed 3 connections in a row", name)
			time.Sleep(time.Minute) // larger ones are sent again
		}
	}, zktest.MaxFrame(smallBuffer))
}

func TestRequestsBesideOneThatIsGivenUpAreAnswered(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		put := harness.Go(t, func(ctx context.Context) (zkrecipes.ItemID, error) {
			return zkrecipes.NewQueue(c, "/q", nil).Put(ctx, make([]byte, smallBuffer))
		})
		var calls []*harness.Call[struct{}]
		for _, n := range []int{0, smallBuffer / 8, smallBuffer / 2} {
			q := zkrecipes.NewQueue(c, fmt.Sprint("/small", n), nil)
			calls = append(calls, harness.Go(t, func(ctx context.Context) (struct{}, error) {
				for range 20 {
					if _, err := q.Put(ctx, make([]byte, n)); err != nil {
						return struct{}{}, err
					}
					time.Sleep(20 * time.Millisecond)
				}
				return struct{}{}, nil
			}))
		}
		recipetest.Fails(t, put, zkrecipes.ErrUncertain, zkrecipes.ErrTooLarge)
		for _, a := range calls {
			a.Get()
		}
	}, zktest.MaxFrame(smallBuffer))
}

// Two in a row may be servers that restart.
func TestALargeRequestOnTwoLostConnectionsIsSentAgain(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		q := zkrecipes.NewQueue(c, "/q", nil)
		recipetest.PutOn(t, q, "")
		w.Plan.Add(zktest.Fault{Do: zktest.Drop, Op: "multi", Times: 2})
		_, err := q.Put(harness.Within(t, time.Minute), make([]byte, smallBuffer))
		require.NoError(t, err)
		w.Plan.Add(zktest.Fault{Do: zktest.Drop, Op: "multi", Times: 5})
		_, err = q.Put(harness.Within(t, time.Minute), make([]byte, smallBuffer))
		require.NoError(t, err, "servers have accepted one of this size")
	})
}

// The path is so long that the release is larger than all that was answered before.
func TestAReleaseIsNeverGivenUp(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		log := &recipetest.Warnings{}
		c := w.Stranger(&zkrecipes.Options{Identity: "x", Logger: log.Logger()})
		m := zkrecipes.NewMutex(c, "/"+strings.Repeat("x", 10_000))
		w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: true, Op: recipetest.OpJoin})
		l := recipetest.Held(t, m.Lock)
		w.Plan.Add(zktest.Fault{Do: zktest.Drop, Op: recipetest.OpRelease, Times: 5})
		require.NoError(t, l.Release())
		synctest.Wait()
		time.Sleep(10 * time.Second)
		require.Empty(t, log.With("cannot delete a place"))
		require.NoError(t, recipetest.Held(t, zkrecipes.NewMutex(w.Stranger(nil), m.Path()).Lock).Release())
	})
}
