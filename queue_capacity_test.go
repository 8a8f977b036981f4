package zkrecipes

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

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Puts into queues with a bound (QueueOptions.MaxLen).

func TestA21BoundedPutWaitsForCapacityAndHonoursItsContext(t *testing.T) {
	t.Parallel()
	r := newQueueRig(t, &QueueOptions{MaxLen: 3})
	other := r.other()
	putOn(t, r.q, "0", "1", "2")
	a := putLater(t, r.q, "3")
	lineUp(t, r.raw, r.path+"/room", 1, r.c)
	require.True(t, a.Waiting())

	it := takeOn(t, other)
	nackOn(t, it)
	it = takeOn(t, other)
	asleep(t, r.c)
	require.True(t, a.Waiting(), "a taken item still counts")
	ackOn(t, it)
	require.NotEmpty(t, a.Get())
	n, err := other.Len(r.ctx)
	require.NoError(t, err)
	require.Equal(t, 3, n)

	ctx, cancel := context.WithTimeout(r.ctx, 50*time.Millisecond)
	defer cancel()
	_, err = r.q.Put(ctx, []byte("late"))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, ErrUncertain)
	harness.Eventually(t, "an empty producers' line", func() bool { return len(harness.Children(t, r.raw, r.path+"/room")) == 0 })
	require.Equal(t, []string{"1", "2", "3"}, drain(t, other))

	_, err = r.q.PutAll(r.ctx, make([][]byte, 4)...)
	require.EqualError(t, err, "zkrecipes: put into "+r.path+": 4 items: QueueOptions.MaxLen is 3")
	putOn(t, r.q, "x")
	all := harness.Go(t, func(ctx context.Context) ([]ItemID, error) { return r.q.PutAll(ctx, make([][]byte, 3)...) })
	lineUp(t, r.raw, r.path+"/room", 1, r.c)
	require.True(t, all.Waiting(), "there must be capacity for the whole batch")
	ackOn(t, takeOn(t, other))
	require.Len(t, all.Get(), 3)
	drain(t, other)
	atRest(t, r.raw, r.path)
}

// An ack wakes only the first waiting producer. Producers put in the order in which
// they joined the line.
func TestA21BoundedPutsCompleteInOrderAndWakeOneAtATime(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const n = 20
		cr := &crowd{w: w}
		taker := w.queue(cr.client())
		putOn(t, taker, "full")
		var puts []*harness.Call[ItemID]
		for i := range n {
			q := NewQueue(cr.client(), w.path, &QueueOptions{MaxLen: 1})
			puts = append(puts, putLater(t, q, fmt.Sprint(i)))
			synctest.Wait()
		}
		require.Len(t, w.srv.Children(w.path+"/room"), n)
		it := takeOn(t, taker)
		require.Equal(t, "full", string(it.Data))
		for i := range n {
			woken := cr.woken(func() { ackOn(t, it) })
			puts[i].Get()
			for _, a := range puts[i+1:] {
				require.True(t, a.Waiting())
			}
			// The producer that puts, the next one, which counts, and the client that acks.
			require.LessOrEqual(t, woken, 3, "clients that were woken")
			it = takeOn(t, taker)
			require.Equal(t, fmt.Sprint(i), string(it.Data))
		}
		ackOn(t, it)
		require.Empty(t, w.items())
		require.Empty(t, w.srv.Children(w.path+"/room"))
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
		q := NewQueue(dial(t, nil), path, &QueueOptions{MaxLen: bound})
		q.itemQueue.SegmentSize = 4
		wg.Go(func() {
			for i := range n {
				if _, err := q.Put(ctx, fmt.Append(nil, i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	q := NewQueue(dial(t, nil), path, nil)
	for range producers * n {
		it := takeOn(t, q)
		length, err := q.Len(ctx)
		require.NoError(t, err)
		require.LessOrEqual(t, length, bound)
		ackOn(t, it)
	}
	wg.Wait()
	atRest(t, harness.Raw(t), path)
}

// The session of a waiting producer ends. The next producer in line puts first, and
// the other one continues at the end of the line.
func TestB10BoundedPutWhoseSessionExpiresWaitsAtTheEndOfTheLine(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		taker := w.queue(w.stranger(nil))
		putOn(t, taker, "full")
		bounded := func() (*Client, *Queue) {
			c := w.stranger(nil)
			return c, NewQueue(c, w.path, &QueueOptions{MaxLen: 1})
		}
		c, q := bounded()
		first := putLater(t, q, "first")
		synctest.Wait()
		_, q = bounded()
		second := putLater(t, q, "second")
		synctest.Wait()
		require.True(t, w.srv.Expire(sessionID(c)))
		time.Sleep(3 * time.Second)
		require.Len(t, w.srv.Children(w.path+"/room"), 2)
		require.Equal(t, []string{"full", "second", "first"}, []string{
			ackedOn(t, taker), ackedOn(t, taker), ackedOn(t, taker),
		})
		first.Get()
		second.Get()
	})
}

// ackedOn takes and acks an item and returns its data.
func ackedOn(t testing.TB, q *Queue) string {
	it := takeOn(t, q)
	ackOn(t, it)
	return string(it.Data)
}

// The transaction of a bounded put is sent again, too.
func TestB42BoundedPutWhoseReplyIsLostMakesOneItem(t *testing.T) {
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after=%v", after), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				q := NewQueue(w.stranger(nil), w.path, &QueueOptions{MaxLen: 2})
				putOn(t, q, "0")
				w.plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: "multi(setData,check,create,setData,delete)"})
				putOn(t, q, "1")
				require.Len(t, w.plan.Fired(), 1)
				require.Len(t, w.items(), 2)
				synctest.Wait()
				require.Empty(t, w.srv.Children(w.path+"/room"))
				require.Equal(t, []string{"0", "1"}, drain(t, q))
			})
		})
	}
}

// If the session ends before the reply, the put returns ErrUncertain. It is not
// repeated in the next session.
func TestB42BoundedPutIsUncertainIfTheSessionEndsBeforeItsReply(t *testing.T) {
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after=%v", after), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				q := NewQueue(w.stranger(nil), w.path, &QueueOptions{MaxLen: 5})
				putOn(t, q, "0")
				w.plan.Add(zktest.Fault{Do: zktest.Expire, After: after, Op: "multi(setData,check,create,setData,delete)"})
				id, err := q.Put(t.Context(), []byte("x"))
				require.ErrorIs(t, err, ErrUncertain)
				require.ErrorIs(t, err, zk.ErrSessionExpired)
				require.Len(t, string(id), 22)
				want := []string{"0"}
				if after {
					want = append(want, "x")
				}
				require.Equal(t, want, drain(t, q))
			})
		})
	}
}

// The acked item lies behind one that was given back.
func TestA21BoundedPutIsWokenByAnAckBehindAFreeItem(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		consumer := w.queue(w.stranger(nil))
		q := NewQueue(w.stranger(nil), w.path, &QueueOptions{MaxLen: 2})
		consumer.itemQueue.SegmentSize, q.itemQueue.SegmentSize = 1, 1
		putOn(t, q, "0", "1")
		first, second := takeOn(t, consumer), takeOn(t, consumer)
		nackOn(t, first)
		put := putLater(t, q, "2")
		synctest.Wait()
		require.True(t, put.Waiting())
		ackOn(t, second)
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
			inBubble(t, func(t *testing.T, w *world) {
				consumer := w.queue(w.stranger(nil))
				bounded := func() *Queue { return NewQueue(w.stranger(nil), w.path, &QueueOptions{MaxLen: 2}) }
				one, two := bounded(), bounded()
				putOn(t, consumer, "0", "1")
				it := takeOn(t, consumer)
				first := putLater(t, one, "first")
				synctest.Wait()
				second := putLater(t, two, "second")
				synctest.Wait()
				time.Sleep(waits)
				require.True(t, first.Waiting())
				require.True(t, second.Waiting())
				w.plan.Add(read)
				ackOn(t, it)
				first.Get()
				time.Sleep(time.Second)
				synctest.Wait()
				require.Equal(t, 1, w.plan.Fired()["drop before"], "the connection was lost")
				require.Len(t, w.items(), 2)
				require.True(t, second.Waiting())
			}, behind(3, 1))
		})
	}
}

// Each batch fills a segment. Of the batches that are put at the same time, all but
// one have to move on to the next segment, again and again.
func TestA21BatchesOfManyProducersAreAllPut(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var wg sync.WaitGroup
		for range 8 {
			q := w.queue(w.stranger(nil))
			q.itemQueue.SegmentSize = 5
			wg.Go(func() {
				for range 60 {
					_, err := q.PutAll(t.Context(), make([][]byte, 5)...)
					assert.NoError(t, err)
				}
			})
		}
		wg.Wait()
		n, err := w.queue(w.stranger(nil)).Len(t.Context())
		require.NoError(t, err)
		require.Equal(t, 8*60*5, n)
	})
}

// A producer watches every segment that it has counted. One event wakes it, and none of the
// watches keeps anything of it.
func TestA21BoundedPutWaitsOnAnyNumberOfSegments(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		s, conn := live(t, w.stranger(nil)), w.bare()
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
