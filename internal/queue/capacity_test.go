package queue_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Puts into queues with a bound (QueueOptions.MaxLen).

func TestA21BoundedPutWaitsForCapacityAndHonoursItsContext(t *testing.T) {
	t.Parallel()
	r := recipetest.NewQueueRig(t, &zkrecipes.QueueOptions{MaxLen: 3})
	other := r.Other()
	recipetest.PutOn(t, r.Q, "0", "1", "2")
	a := recipetest.PutLater(t, r.Q, "3")
	recipetest.LineUp(t, r.Raw, r.Path+"/room", 1, r.C)
	require.True(t, a.Waiting())

	it := recipetest.TakeOn(t, other)
	recipetest.NackOn(t, it)
	it = recipetest.TakeOn(t, other)
	recipetest.Asleep(t, r.C)
	require.True(t, a.Waiting(), "a taken item still counts")
	recipetest.AckOn(t, it)
	require.NotEmpty(t, a.Get())
	n, err := other.Len(r.Ctx)
	require.NoError(t, err)
	require.Equal(t, 3, n)

	ctx, cancel := context.WithTimeout(r.Ctx, 50*time.Millisecond)
	defer cancel()
	_, err = r.Q.Put(ctx, []byte("late"))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, zkrecipes.ErrUncertain)
	harness.Eventually(t, "an empty producers' line", func() bool { return len(harness.Children(t, r.Raw, r.Path+"/room")) == 0 })
	require.Equal(t, []string{"1", "2", "3"}, recipetest.Drain(t, other))

	_, err = r.Q.PutAll(r.Ctx, make([][]byte, 4)...)
	require.EqualError(t, err, "zkrecipes: put into "+r.Path+": 4 items: QueueOptions.MaxLen is 3")
	recipetest.PutOn(t, r.Q, "x")
	all := harness.Go(t, func(ctx context.Context) ([]zkrecipes.ItemID, error) { return r.Q.PutAll(ctx, make([][]byte, 3)...) })
	recipetest.LineUp(t, r.Raw, r.Path+"/room", 1, r.C)
	require.True(t, all.Waiting(), "there must be capacity for the whole batch")
	recipetest.AckOn(t, recipetest.TakeOn(t, other))
	require.Len(t, all.Get(), 3)
	recipetest.Drain(t, other)
	recipetest.AtRest(t, r.Raw, r.Path)
}

// An ack wakes only the first waiting producer. Producers put in the order in which
// they joined the line.
func TestA21BoundedPutsCompleteInOrderAndWakeOneAtATime(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		const n = 20
		cr := &recipetest.Crowd{W: w}
		taker := w.Queue(cr.Client())
		recipetest.PutOn(t, taker, "full")
		var puts []*harness.Call[zkrecipes.ItemID]
		for i := range n {
			q := zkrecipes.NewQueue(cr.Client(), w.Path, &zkrecipes.QueueOptions{MaxLen: 1})
			puts = append(puts, recipetest.PutLater(t, q, fmt.Sprint(i)))
			synctest.Wait()
		}
		require.Len(t, w.Srv.Children(w.Path+"/room"), n)
		it := recipetest.TakeOn(t, taker)
		require.Equal(t, "full", string(it.Data))
		for i := range n {
			woken := cr.Woken(func() { recipetest.AckOn(t, it) })
			puts[i].Get()
			for _, a := range puts[i+1:] {
				require.True(t, a.Waiting())
			}
			// The producer that puts, the next one, which counts, and the client that acks.
			require.LessOrEqual(t, woken, 3, "clients that were woken")
			it = recipetest.TakeOn(t, taker)
			require.Equal(t, fmt.Sprint(i), string(it.Data))
		}
		recipetest.AckOn(t, it)
		require.Empty(t, w.Items())
		require.Empty(t, w.Srv.Children(w.Path+"/room"))
	})
}

// A bound holds for all producers together.
func TestA21ProducersTogetherKeepToTheBound(t *testing.T) {
	t.Parallel()
	path := harness.NewPath(t)
	const producers, n, bound = 4, 30, 5
	ctx := harness.Within(t, 60*time.Second)
	var wg sync.WaitGroup
	for range producers {
		q := zkrecipes.NewQueue(recipetest.Dial(t, nil), path, &zkrecipes.QueueOptions{MaxLen: bound})
		recipetest.QueueOf(q).SegmentSize = 4
		wg.Go(func() {
			for i := range n {
				if _, err := q.Put(ctx, fmt.Append(nil, i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	q := zkrecipes.NewQueue(recipetest.Dial(t, nil), path, nil)
	for range producers * n {
		it := recipetest.TakeOn(t, q)
		length, err := q.Len(ctx)
		require.NoError(t, err)
		require.LessOrEqual(t, length, bound)
		recipetest.AckOn(t, it)
	}
	wg.Wait()
	recipetest.AtRest(t, harness.Raw(t), path)
}

// The session of a waiting producer ends. The next producer in line puts first, and
// the other one continues at the end of the line.
func TestB10BoundedPutWhoseSessionExpiresWaitsAtTheEndOfTheLine(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		taker := w.Queue(w.Stranger(nil))
		recipetest.PutOn(t, taker, "full")
		bounded := func() (*zkrecipes.Client, *zkrecipes.Queue) {
			c := w.Stranger(nil)
			return c, zkrecipes.NewQueue(c, w.Path, &zkrecipes.QueueOptions{MaxLen: 1})
		}
		c, q := bounded()
		first := recipetest.PutLater(t, q, "first")
		synctest.Wait()
		_, q = bounded()
		second := recipetest.PutLater(t, q, "second")
		synctest.Wait()
		require.True(t, w.Srv.Expire(recipetest.SessionID(c)))
		time.Sleep(3 * time.Second)
		require.Len(t, w.Srv.Children(w.Path+"/room"), 2)
		require.Equal(t, []string{"full", "second", "first"}, []string{
			recipetest.AckedOn(t, taker), recipetest.AckedOn(t, taker), recipetest.AckedOn(t, taker),
		})
		first.Get()
		second.Get()
	})
}

// The transaction of a bounded put is sent again, too.
func TestB42BoundedPutWhoseReplyIsLostMakesOneItem(t *testing.T) {
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after=%v", after), func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				q := zkrecipes.NewQueue(w.Stranger(nil), w.Path, &zkrecipes.QueueOptions{MaxLen: 2})
				recipetest.PutOn(t, q, "0")
				w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: "multi(setData,check,create,setData,delete)"})
				recipetest.PutOn(t, q, "1")
				require.Len(t, w.Plan.Fired(), 1)
				require.Len(t, w.Items(), 2)
				synctest.Wait()
				require.Empty(t, w.Srv.Children(w.Path+"/room"))
				require.Equal(t, []string{"0", "1"}, recipetest.Drain(t, q))
			})
		})
	}
}

// If the session ends before the reply, the put returns ErrUncertain. It is not
// repeated in the next session.
func TestB42BoundedPutIsUncertainIfTheSessionEndsBeforeItsReply(t *testing.T) {
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after=%v", after), func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				q := zkrecipes.NewQueue(w.Stranger(nil), w.Path, &zkrecipes.QueueOptions{MaxLen: 5})
				recipetest.PutOn(t, q, "0")
				w.Plan.Add(zktest.Fault{Do: zktest.Expire, After: after, Op: "multi(setData,check,create,setData,delete)"})
				id, err := q.Put(t.Context(), []byte("x"))
				require.ErrorIs(t, err, zkrecipes.ErrUncertain)
				require.ErrorIs(t, err, zk.ErrSessionExpired)
				require.Len(t, string(id), 22)
				want := []string{"0"}
				if after {
					want = append(want, "x")
				}
				require.Equal(t, want, recipetest.Drain(t, q))
			})
		})
	}
}

// The acked item lies behind one that was given back.
func TestA21BoundedPutIsWokenByAnAckBehindAFreeItem(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		consumer := w.Queue(w.Stranger(nil))
		q := zkrecipes.NewQueue(w.Stranger(nil), w.Path, &zkrecipes.QueueOptions{MaxLen: 2})
		recipetest.QueueOf(consumer).SegmentSize, recipetest.QueueOf(q).SegmentSize = 1, 1
		recipetest.PutOn(t, q, "0", "1")
		first, second := recipetest.TakeOn(t, consumer), recipetest.TakeOn(t, consumer)
		recipetest.NackOn(t, first)
		put := recipetest.PutLater(t, q, "2")
		synctest.Wait()
		require.True(t, put.Waiting())
		recipetest.AckOn(t, second)
		synctest.Wait()
		require.False(t, put.Waiting())
		put.Get()
	})
}

// A producer whose turn comes by a watch counts the items on a server that may not
// have the previous put yet.
func TestA21BoundHoldsOnAServerThatLags(t *testing.T) {
	for waits, read := range map[time.Duration]zktest.Fault{
		0:           {Do: zktest.Drop, Op: "getData", Path: "/line/s"},
		time.Second: {Do: zktest.Drop, Op: "getChildren2", Path: "/line/s/*", Skip: 1}, // it might overtake by then, and has counted
	} {
		t.Run(fmt.Sprint(waits), func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				consumer := w.Queue(w.Stranger(nil))
				bounded := func() *zkrecipes.Queue {
					return zkrecipes.NewQueue(w.Stranger(nil), w.Path, &zkrecipes.QueueOptions{MaxLen: 2})
				}
				one, two := bounded(), bounded()
				recipetest.PutOn(t, consumer, "0", "1")
				it := recipetest.TakeOn(t, consumer)
				first := recipetest.PutLater(t, one, "first")
				synctest.Wait()
				second := recipetest.PutLater(t, two, "second")
				synctest.Wait()
				time.Sleep(waits)
				require.True(t, first.Waiting())
				require.True(t, second.Waiting())
				w.Plan.Add(read)
				recipetest.AckOn(t, it)
				first.Get()
				time.Sleep(time.Second)
				synctest.Wait()
				require.Equal(t, 1, w.Plan.Fired()["drop before"], "the connection was lost")
				require.Len(t, w.Items(), 2)
				require.True(t, second.Waiting())
			}, recipetest.Behind(3, 1))
		})
	}
}

// Each batch fills a segment. Of the batches that are put at the same time, all but
// one have to move on to the next segment, again and again.
func TestA21BatchesOfManyProducersAreAllPut(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var wg sync.WaitGroup
		for range 8 {
			q := w.Queue(w.Stranger(nil))
			recipetest.QueueOf(q).SegmentSize = 5
			wg.Go(func() {
				for range 60 {
					_, err := q.PutAll(t.Context(), make([][]byte, 5)...)
					assert.NoError(t, err)
				}
			})
		}
		wg.Wait()
		n, err := w.Queue(w.Stranger(nil)).Len(t.Context())
		require.NoError(t, err)
		require.Equal(t, 8*60*5, n)
	})
}

// A producer watches every segment that it has counted. One event wakes it, and none of the
// watches keeps anything of it.
func TestA21BoundedPutWaitsOnAnyNumberOfSegments(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		s, conn := recipetest.Live(t, w.Stranger(nil)), w.Bare()
		var watches []*zkconn.Watch
		for range 1 << 17 { // twice as many as reflect.Select takes
			watches = append(watches, &zkconn.Watch{})
		}
		for _, path := range []string{"/own", "/first", "/last"} {
			_, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
		}
		watch := func(path string) *zkconn.Watch {
			segment, err := s.WatchChildren(t.Context(), path)
			require.NoError(t, err)
			return segment
		}
		first, last := watch("/first"), watch("/last")
		watches[0], watches[len(watches)-1] = first, last
		p := &line.Place{Session: s, Path: "/own"}
		await := func() *harness.Call[struct{}] {
			a := harness.GoErr(t, func(ctx context.Context) error { return p.AwaitAny(ctx, watches) })
			synctest.Wait()
			return a
		}
		a := await()
		require.True(t, a.Waiting())
		a.Cancel(nil)
		_, err := a.Wait()
		require.ErrorIs(t, err, context.Canceled)

		a = await()
		require.True(t, a.Waiting())
		_, err = conn.Create("/last/x", nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		a.Get()
		require.True(t, last.HasFired())
		a = await() // it has fired before
		require.False(t, a.Waiting())
		a.Get()
		for _, left := range s.Inspect().Watches {
			require.Zero(t, left.Notifies, left.Path)
		}
	})
}
