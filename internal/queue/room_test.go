package queue_test

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/queue"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Producers of a bounded queue that die, or are slow, at the head of their line.

var itemPath = regexp.MustCompile(`^/line/s/\d+/[\w-]{22}\d{10}$`)

// inBounded runs f in a bubble, and requires that there were never more than bound items, and as many
// at some time.
func inBounded(t *testing.T, bound int, f func(t *testing.T, w *recipetest.World)) {
	var now, most atomic.Int64
	recipetest.InBubble(t, f, zktest.OnChange(func(ch zktest.Change) {
		switch {
		case !itemPath.MatchString(ch.Path):
		case ch.Created:
			most.Store(max(most.Load(), now.Add(1)))
		case ch.Deleted:
			now.Add(-1)
		}
	}))
	require.EqualValues(t, bound, most.Load())
}

// A process that is killed keeps its place at the head of the line until its session
// expires. The others do not wait for that.
func TestPutsGoOnAlthoughTheFirstProducerInLineIsDead(t *testing.T) {
	for _, bound := range []int{1, 5} {
		t.Run(fmt.Sprint(bound), func(t *testing.T) {
			inBounded(t, bound, func(t *testing.T, w *recipetest.World) {
				ack := w.Fills(bound)
				dead, link := w.BoundedWithLink(bound)
				lost := w.PutLater(dead, "dead")
				live := w.Bounded(bound)
				put := w.PutLater(live, "live")
				time.Sleep(time.Second)
				link.Stop()
				began := time.Now()
				ack()
				put.Get()
				t.Logf("the first put took %v", time.Since(began))
				require.LessOrEqual(t, time.Since(began), 3*time.Second/2)
				for range 20 {
					put := w.PutLater(live, "live")
					began := time.Now()
					ack()
					put.Get()
					require.Zero(t, time.Since(began), "nobody waits for the dead one again")
				}
				require.True(t, lost.Waiting())
				link.Resume() // it was not dead
				for range bound {
					ack()
				}
				lost.Get()
				require.Equal(t, []string{"dead"}, recipetest.Drain(t, live))
				require.Empty(t, w.Srv.Children(w.Path+"/room"))
			})
		})
	}
}

// The places of one process die together, however many they are and whoever stands between.
func TestPutsGoOnAlthoughAProcessWithSeveralPutsIsDead(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		ack := w.Fills(3)
		dead, link := w.BoundedWithLink(3)
		live := w.Bounded(3)
		var puts []*harness.Call[zkrecipes.ItemID]
		for _, who := range "ddldddddlldl" {
			if who == 'd' {
				w.PutLater(dead, "dead")
			} else {
				puts = append(puts, w.PutLater(live, "live"))
			}
		}
		time.Sleep(time.Second)
		link.Stop()
		for _, put := range puts {
			began := time.Now()
			ack()
			put.Get()
			require.LessOrEqual(t, time.Since(began), 3*time.Second/2)
		}
		link.Lose()
	})
}

// Two that are dead are overtaken, and more once one of their sessions has expired.
func TestPutsGoOnAlthoughTwoProcessesAreDead(t *testing.T) {
	for dead, limit := range map[int]time.Duration{2: 2 * time.Second, 3: recipetest.DefaultSessionTimeout * 5 / 4} {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			ack := w.Fills(1)
			for range dead {
				q, link := w.BoundedWithLink(1)
				w.PutLater(q, "dead")
				time.AfterFunc(time.Second, link.Stop)
			}
			live := w.PutLater(w.Bounded(1), "live")
			time.Sleep(2 * time.Second)
			began := time.Now()
			ack()
			live.Get()
			t.Logf("%d dead: the put took %v", dead, time.Since(began))
			require.Less(t, time.Since(began), limit)
		})
	}
}

// The put of the first in line is under way for long, and its reply may be lost. It is
// overtaken. Its item is put once, and there are never more than MaxLen.
func TestAPutThatIsOvertakenOnItsWayKeepsTheBound(t *testing.T) {
	const put = "multi(setData,check,create,setData,delete)"
	for _, drops := range []bool{false, true} {
		t.Run(fmt.Sprintf("drops=%v", drops), func(t *testing.T) {
			inBounded(t, 1, func(t *testing.T, w *recipetest.World) {
				ack := w.Fills(1)
				slow, other := w.Bounded(1), w.Bounded(1)
				first := w.PutLater(slow, "first")
				receipts := w.ReceiptsOf(w.ClientOf(slow))
				w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: put, Path: receipts, For: 3 * time.Second})
				if drops {
					w.Plan.Add(zktest.Fault{Do: zktest.Drop, Op: put, Path: receipts})
				}
				second := w.PutLater(other, "second")
				time.Sleep(time.Second)
				ack()
				second.Get()
				require.True(t, first.Waiting())
				time.Sleep(4 * time.Second)
				require.True(t, first.Waiting())
				require.Len(t, w.Items(), 1)
				ack()
				first.Get()
				require.Equal(t, []string{"first"}, recipetest.Drain(t, other))
			})
		})
	}
}

// The servers refuse to delete the places ahead. The producer waits for its turn.
func TestAProducerThatMayNotOvertakeWaits(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		ack := w.Fills(1)
		dead, link := w.BoundedWithLink(1)
		w.PutLater(dead, "dead")
		live := w.PutLater(w.Bounded(1), "live")
		time.Sleep(time.Second)
		link.Stop()
		w.Plan.Add(zktest.Fault{Do: zktest.Answer, Code: -102, Op: "multi(setData,delete)", Path: w.Path + "/room/*"})
		ack()
		time.Sleep(time.Second)
		require.True(t, live.Waiting())
		live.Get()
	})
}

// A first in line that is alive puts before it is overtaken.
func TestAProducerLeavesRoomToTheFirstForAGrace(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		ack := w.Fills(0)
		first, link := w.BoundedWithLink(1)
		recipetest.PutOn(t, first, "full") // the first put of a session takes longer
		a := w.PutLater(first, "first")
		b := w.PutLater(w.Bounded(1), "second")
		time.Sleep(time.Second)
		link.SetLatency(queue.ItemPatience / 5)
		ack()
		a.Get()
		require.True(t, b.Waiting())
		ack()
		b.Get()
		require.Equal(t, []string{"second"}, recipetest.Drain(t, first))
	})
}

// A place leaves with its put that is not the nearest. The next one has the turn, and the one
// behind it waits for it.
func TestAProducerWaitsForTheNearestAheadAlthoughOthersHavePut(t *testing.T) {
	inBounded(t, 2, func(t *testing.T, w *recipetest.World) {
		ack := w.Fills(2)
		var puts []*harness.Call[zkrecipes.ItemID]
		var queues []*zkrecipes.Queue
		for i := range 3 {
			queues = append(queues, w.Bounded(2))
			puts = append(puts, w.PutLater(queues[i], fmt.Sprint("put ", i)))
		}
		time.Sleep(time.Second)
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "multi(setData,check,create,setData,delete)", Path: w.ReceiptsOf(w.ClientOf(queues[1])), For: queue.ItemPatience / 2})
		ack()
		puts[0].Get()
		ack()
		time.Sleep(queue.ItemPatience)
		require.False(t, puts[1].Waiting())
		require.True(t, puts[2].Waiting())
		ack()
		puts[2].Get()
		require.Equal(t, []string{"put 1", "put 2"}, recipetest.Drain(t, queues[0]))
	})
}

// The queue is full, and others put whatever is taken. A producer far away has enough time.
func TestADistantProducerIsNotOvertakenForEver(t *testing.T) {
	const bound = 2
	inBounded(t, bound, func(t *testing.T, w *recipetest.World) {
		for range 3 {
			puts(t, w.Bounded(bound), 0)
		}
		a := recipetest.ServeLater(t, w.Queue(w.Stranger(nil)), func(context.Context, *zkrecipes.Item) error {
			time.Sleep(20 * time.Millisecond)
			return nil
		})
		time.Sleep(time.Second)
		distant := w.Distant(roundTrip, &zkrecipes.QueueOptions{MaxLen: bound})
		for i := range 10 {
			began := time.Now()
			recipetest.PutOn(t, distant, "x")
			t.Logf("put %d took %d round trips", i, time.Since(began)/roundTrip)
			require.Less(t, time.Since(began), 60*roundTrip)
		}
		require.NoError(t, stop(a)) // once its handler has returned
	})
}

// A batch needs more room than there is. Those behind it leave it its turn, though there is
// room for them. One of a dead process is overtaken once it could have been put.
func TestABatchThatWaitsForRoomIsNotOvertaken(t *testing.T) {
	recipetest.EachInBubble(t, map[string]bool{"alive": false, "dead": true}, func(t *testing.T, w *recipetest.World, dead bool) {
		ack := w.Fills(4)
		batch, link := w.BoundedWithLink(4)
		all := harness.Go(t, func(ctx context.Context) ([]zkrecipes.ItemID, error) { return batch.PutAll(ctx, make([][]byte, 3)...) })
		synctest.Wait()
		one := w.PutLater(w.Bounded(4), "one")
		time.Sleep(time.Second)
		if dead {
			link.Stop()
		}
		ack()
		ack()
		time.Sleep(2 * time.Second)
		require.True(t, all.Waiting())
		require.True(t, one.Waiting())
		began := time.Now()
		ack()
		if dead {
			one.Get()
			require.LessOrEqual(t, time.Since(began), 3*time.Second/2)
			return
		}
		all.Get()
		require.True(t, one.Waiting())
		ack()
		one.Get()
	})
}

func TestAPlaceSaysWhoseItIsAndWhatItNeeds(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		s, other := w.NewCore().S, w.NewCore().S
		name := func(s *session.Session, items int) layout.PlaceName {
			m, ok := layout.ParsePlace("_c_"+queue.Marked(s, layout.NewUUID(), items)+"-lock-0000000001", layout.LockKinds)
			require.True(t, ok)
			require.True(t, m.Ours())
			require.True(t, layout.IsUUID(m.UUID))
			return m
		}
		m := name(s, 3)
		require.Equal(t, 3, queue.ItemsOf(m))
		require.Equal(t, queue.SessionOf(m), queue.SessionOf(name(s, 1)))
		require.NotEqual(t, m.UUID, name(s, 3).UUID)
		require.NotEqual(t, queue.SessionOf(m), queue.SessionOf(name(other, 3)))
		require.Equal(t, math.MaxUint16, queue.ItemsOf(name(s, 1_000_000)))
		foreign, _ := layout.ParsePlace("lock-0000000001", layout.LockKinds)
		require.Equal(t, []any{"lock-0000000001", 0}, []any{queue.SessionOf(foreign), queue.ItemsOf(foreign)})
	})
}

// puts has a producer put again and again, with a pause, until the test ends.
func puts(t *testing.T, q *zkrecipes.Queue, pause time.Duration) {
	harness.GoErr(t, func(ctx context.Context) error {
		for ctx.Err() == nil {
			_, _ = q.Put(ctx, nil)
			time.Sleep(pause)
		}
		return nil
	})
}
