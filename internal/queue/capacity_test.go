package queue_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/queue"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Puts into queues with a bound (QueueOptions.MaxLen).

func TestBoundedPutWaitsForCapacityAndHonoursItsContext(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, other := w.Bounded(3), w.Queue(w.Stranger(nil))
		recipetest.PutOn(t, q, "0", "1", "2")
		a := w.PutLater(q, "3")
		recipetest.NackOn(t, recipetest.TakeOn(t, other))
		it := recipetest.TakeOn(t, other)
		synctest.Wait()
		require.True(t, a.Waiting(), "a taken item still counts")
		recipetest.AckOn(t, it)
		require.NotEmpty(t, a.Get())
		require.Len(t, w.Items(), 3)

		_, err := q.Put(harness.Within(t, time.Second), []byte("late"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, zkrecipes.ErrUncertain)
		synctest.Wait()
		require.Empty(t, w.Srv.Children(w.Path+"/room"))
		require.Equal(t, []string{"1", "2", "3"}, recipetest.Drain(t, other))

		_, err = q.PutAll(t.Context(), make([][]byte, 4)...)
		require.EqualError(t, err, "zkrecipes: put into "+w.Path+": 4 items: QueueOptions.MaxLen is 3")
		recipetest.PutOn(t, q, "x")
		all := harness.Go(t, func(ctx context.Context) ([]zkrecipes.ItemID, error) { return q.PutAll(ctx, make([][]byte, 3)...) })
		synctest.Wait()
		require.True(t, all.Waiting(), "there must be capacity for the whole batch")
		recipetest.AckedOn(t, other)
		require.Len(t, all.Get(), 3)
	})
}

// An ack wakes only the first waiting producer. Producers put in the order in which
// they joined the line.
func TestBoundedPutsCompleteInOrderAndWakeOneAtATime(t *testing.T) {
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

// A producer whose turn comes by a watch counts the items on a server that may not
// have the previous put yet.
func TestBoundHoldsOnAServerThatLags(t *testing.T) {
	for waits, read := range map[time.Duration]zktest.Fault{
		0:           {Do: zktest.Drop, Op: "getData", Path: "/line/s"},
		time.Second: {Do: zktest.Drop, Op: "getChildren2", Path: "/line/s/*", Skip: 1}, // it might overtake by then, and has counted
	} {
		t.Run(fmt.Sprint(waits), func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				consumer, one, two := w.Queue(w.Stranger(nil)), w.Bounded(2), w.Bounded(2)
				recipetest.PutOn(t, consumer, "0", "1")
				it := recipetest.TakeOn(t, consumer)
				first, second := w.PutLater(one, "first"), w.PutLater(two, "second")
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

// A producer watches every segment that it has counted. One event wakes it, and none of the
// watches keeps anything of it.
func TestBoundedPutWaitsOnAnyNumberOfSegments(t *testing.T) {
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
		p := &line.Place{Znode: hold.Znode{Session: s, Path: "/own"}}
		await := func() *harness.Call[struct{}] {
			a := harness.GoErr(t, func(ctx context.Context) error { return p.AwaitAny(ctx, watches) })
			synctest.Wait()
			return a
		}
		a := await()
		require.True(t, a.Waiting())
		recipetest.Cancels(t, a)

		a = await()
		require.True(t, a.Waiting())
		_, err := conn.Create("/last/x", nil, 0, zk.WorldACL(zk.PermAll))
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

// Items and segments come and go in any order, by the same client, by another one and by
// an operator, who also deletes the queue. One client counts now and then.
func TestCountIsWhatAListingShows(t *testing.T) {
	for seed := range uint64(8) {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			r := rand.New(rand.NewPCG(seed, 1))
			queues := []*zkrecipes.Queue{w.Queue(w.Stranger(nil)), w.Queue(w.Stranger(nil))}
			for _, q := range queues {
				recipetest.QueueOf(q).SegmentSize = 1 + r.Int64N(5)
			}
			recipetest.PutOn(t, queues[0], "of the first queue")
			raw := w.Bare()
			for range 400 {
				q := queues[r.IntN(2)]
				switch r.IntN(12) {
				case 0, 1, 2:
					_, err := q.PutAll(t.Context(), make([][]byte, 1+r.IntN(8))...)
					require.NoError(t, err)
				case 3, 4, 5, 6:
					if len(w.Items()) > 0 {
						recipetest.AckOn(t, recipetest.TakeOn(t, q))
					}
				case 7:
					if items := w.Items(); len(items) > 0 {
						require.NoError(t, raw.Delete(items[r.IntN(len(items))], -1))
					}
				case 8:
					require.True(t, w.Srv.Disconnect(recipetest.SessionID(w.ClientOf(q))))
					time.Sleep(5 * time.Second) // it is back, and has what it has missed
				case 9:
					if r.IntN(20) == 0 {
						recipetest.RemoveTree(t, raw, w.Path)
						recipetest.PutOn(t, q, "of the next queue")
					}
				default:
					require.Equal(t, len(w.Items()), w.Counted(queues[0]), "seed %d", seed)
				}
			}
			require.Equal(t, len(w.Items()), w.Counted(queues[0]), "seed %d", seed)
		})
	}
}

// Two producers of one client count at the same time. An event wakes both.
func TestCountsOfOneClientAtTheSameTimeAgree(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(nil))
		recipetest.QueueOf(q).SegmentSize = 3
		recipetest.PutOn(t, q, recipetest.Names(10)...)
		log := queue.QueueIn(recipetest.Live(t, w.ClientOf(q)), recipetest.QueueOf(q).Abs())
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "getChildren2", For: time.Second})
		var counts []*harness.Call[int]
		for range 3 {
			counts = append(counts, harness.Go(t, func(ctx context.Context) (int, error) {
				n, _, err := log.Count(ctx)
				return n, err
			}))
			synctest.Wait()
		}
		require.True(t, counts[0].Waiting())
		recipetest.Cancels(t, counts[1])
		require.Equal(t, 10, counts[0].Get())
		require.Equal(t, 10, counts[2].Get())
		_, one, err := log.Count(t.Context())
		require.NoError(t, err)
		_, other, err := log.Count(t.Context())
		require.NoError(t, err)
		recipetest.AckOn(t, recipetest.TakeOn(t, w.Queue(w.Stranger(nil))))
		synctest.Wait()
		<-one
		<-other
		require.Equal(t, 9, w.Counted(q))
	})
}
