package queue_test

import (
	"fmt"
	"slices"
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

// An operator deletes and makes a queue again, seals its segments by setting data, or
// deletes free items.

// atAnyRequest runs f in a world of its own for each request that call sends: act is
// carried out before that request is. The last run carries it out once call sleeps.
func atAnyRequest(t *testing.T, f func(t *testing.T, w *recipetest.World, between func(call, act func()))) {
	for step, asleep := 0, false; !asleep; step++ {
		t.Run(fmt.Sprintf("request %d", step), func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				f(t, w, func(call, act func()) {
					w.Plan.Add(zktest.Fault{Do: zktest.Delay, Skip: step, For: time.Second})
					call()
					time.Sleep(time.Second / 2)
					asleep = w.Plan.Fired()["delay before"] == 0
					w.Plan.Stop()
					act()
					synctest.Wait()
				})
			})
		})
	}
}

// acts are what an operator may do. Each of them then puts two items with q.
var acts = map[string]func(t *testing.T, w *recipetest.World, conn *zk.Conn, q *zkrecipes.Queue){
	"makes the queue again": func(t *testing.T, w *recipetest.World, conn *zk.Conn, q *zkrecipes.Queue) {
		recipetest.RemoveTree(t, conn, w.Path+"/s")
		recipetest.PutOn(t, q, "a", "b") // fills the first segment
	},
	"sets data on the open segment": func(t *testing.T, w *recipetest.World, conn *zk.Conn, q *zkrecipes.Queue) {
		_, err := conn.Set(w.Path+"/s/"+slices.Max(w.Srv.Children(w.Path+"/s")), nil, -1)
		require.NoError(t, err)
		recipetest.PutOn(t, q, "a", "b")
	},
	"sets data on every segment, twice": func(t *testing.T, w *recipetest.World, conn *zk.Conn, q *zkrecipes.Queue) {
		for range 2 {
			for _, segment := range w.Srv.Children(w.Path + "/s") {
				_, _ = conn.Set(w.Path+"/s/"+segment, nil, -1)
			}
		}
		recipetest.PutOn(t, q, "a", "b")
	},
}

// A consumer deletes a segment, goes on to the next one, which it has not seen yet, and
// sleeps there.
func TestConsumerGoesOnWhateverAnOperatorDoesAtAnyRequest(t *testing.T) {
	for what, act := range acts {
		t.Run(what, func(t *testing.T) {
			atAnyRequest(t, func(t *testing.T, w *recipetest.World, between func(call, act func())) {
				q, other, conn := w.Small(2, nil), w.Small(2, nil), w.Bare()
				recipetest.PutOn(t, q, "0")
				it := recipetest.TakeOn(t, q)
				recipetest.PutOn(t, q, "1")
				require.Len(t, w.Srv.Children(w.Path+"/s"), 2, "the first segment is sealed, and listed before")
				recipetest.AckOn(t, it)
				recipetest.AckOn(t, recipetest.TakeOn(t, q))
				var a *harness.Call[*zkrecipes.Item]
				between(func() { a = recipetest.TakeLater(t, q) }, func() { act(t, w, conn, other) })
				it = a.Get()
				require.Equal(t, "a", string(it.Data))
				recipetest.AckOn(t, it)
				require.Equal(t, []string{"b"}, recipetest.Drain(t, q))
				w.OneSegment(q)
			})
		})
	}
}

// A consumer lists the segments to make a missing one. The last one is open then. Before
// the consumer reads it, others fill it and the next one, and empty and delete that one,
// which is not made again: what follows it would never be delivered.
func TestSegmentThatWasFilledAndEmptiedMeanwhileIsNotMadeAgain(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, other, large, conn := w.Queue(w.Stranger(nil)), w.Small(1, nil), w.Queue(w.Stranger(nil)), w.Bare()
		recipetest.PutOn(t, other, "kept") // fills the first segment
		recipetest.TakeOn(t, q)
		a := w.TakeLater(q)

		// An operator deletes the open segment, and the consumer is about to make it again.
		delayed := func(op, path string) {
			w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: op, Path: path, For: 2 * time.Second})
		}
		delayed("sync", "")
		require.NoError(t, conn.Delete(w.Segment(1), -1))
		synctest.Wait()
		recipetest.PutOn(t, large, "0") // in the segment, which that has made
		recipetest.TakeOn(t, other)
		delayed("getData", w.Segment(1))
		time.Sleep(2 * time.Second)
		require.Equal(t, map[string]int{"delay before": 2}, w.Plan.Fired())
		recipetest.PutOn(t, other, "1", "2")
		recipetest.AckedOn(t, other)
		recipetest.AckedOn(t, other)
		recipetest.Cancels(t, w.TakeLater(other)) // deletes the second segment
		require.NotContains(t, w.Srv.Children(w.Path+"/s"), "0000000002")
		time.Sleep(2 * time.Second)
		recipetest.PutOn(t, other, "3")
		require.Equal(t, "3", string(a.Get().Data))
		require.NotContains(t, w.Srv.Children(w.Path+"/s"), "0000000002")
	})
}
