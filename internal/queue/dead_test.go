package queue_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/queue"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// What dead letters tell, and how they are moved back.

func TestDeadLetterTellsItsLastFailureAndItsAttempts(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := zkrecipes.NewQueue(w.Stranger(&zkrecipes.Options{Prefix: "/app"}), "/jobs", &zkrecipes.QueueOptions{MaxAttempts: 3})
		ids, letters := bury(t, q, "x\ny"), q.DeadLetters()
		want := zkrecipes.Failure{Queue: "/app/jobs", Attempts: 3, Text: "cannot work on x\ny"}
		require.Equal(t, []zkrecipes.Failure{want}, failures(t, q))
		for i := range 20 { // any number of attempts
			it := recipetest.TakeOn(t, letters)
			require.Equal(t, ids[0], it.ID)
			require.Equal(t, want, it.Failure)
			require.Equal(t, i+1, it.Attempt)
			require.Equal(t, "x\ny", string(it.Data))
			recipetest.NackOn(t, it)
		}
		e, err := zkrecipes.NewQueue(w.Stranger(nil), "/app/jobs-dead", nil).Peek(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, e.Failure)
		require.Equal(t, []string{"x\ny"}, recipetest.Drain(t, letters))
	})
}

// The worker whose handler fails for the last time moves the item at once. If it cannot,
// because its session ends for example, the next consumer does so.
func TestDeadLetterOfAConsumerThatDiedSaysSo(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := strict(w, 1)
		recipetest.PutOn(t, q, "died", "given back", "panicked")
		recipetest.TakeOn(t, q)
		require.True(t, w.Srv.Expire(recipetest.SessionID(w.ClientOf(q))))
		recipetest.NackOn(t, recipetest.TakeOn(t, q))
		require.NoError(t, stop(serve(t, q, func(*zkrecipes.Item) error { panic("ouch") }).Call))
		require.Equal(t, []string{"died", "given back", "panicked"}, listed(t, q.DeadLetters()))
		got := failures(t, q)
		never := zkrecipes.Failure{Queue: w.Path, Attempts: 1, Text: queue.NeverAcked}
		require.Equal(t, []zkrecipes.Failure{never, never}, got[:2])
		require.True(t, strings.HasPrefix(got[2].Text, "handler panicked: ouch\n"), got[2].Text)
		require.Contains(t, got[2].Text, "dead_test.go", "the stack")
		require.LessOrEqual(t, len(got[2].Text), queue.MaxFailureText)
	})
}

// Others undo what a move needs, again and again. The item is given back, its next consumer
// moves it, and Serve goes on.
func TestServeOutlivesAMoveThatOthersUndo(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		opts, log := recipetest.Logged()
		q := w.QueueWith(w.Stranger(opts), &zkrecipes.QueueOptions{MaxAttempts: 1})
		w.Plan.Add(zktest.Fault{Do: zktest.Answer, Code: jute.ErrNoNode, Op: "multi(create,setData,create)", Path: w.Path + "-dead/s", Times: 3 * zkconn.MaxTries})
		bury(t, q, "x", "y")
		require.Contains(t, log.String(), "item is not moved to the dead letters yet")
		require.Empty(t, w.Items())
		require.ElementsMatch(t, []string{"x", "y"}, recipetest.Drain(t, q.DeadLetters()))
	})
}

// The servers refuse to move an item to the dead letters. Serve goes on with the others, in
// the meantime and for good, until the item can be moved.
func TestServeGoesOnPastAnItemThatCannotBeMovedToTheDeadLetters(t *testing.T) {
	recipetest.EachInBubble(t, map[string]bool{"its handler failed": false, "its consumer died": true}, func(t *testing.T, w *recipetest.World, died bool) {
		opts, log := recipetest.Logged()
		q := w.QueueWith(w.Stranger(opts), &zkrecipes.QueueOptions{MaxAttempts: 1})
		w.SpoilDeadLetters()
		recipetest.PutOn(t, q, "bad")
		want := []string{"bad"}
		if died {
			recipetest.TakeOn(t, q)
			require.True(t, w.Srv.Expire(recipetest.SessionID(w.ClientOf(q))))
			want = nil
		}
		a := serve(t, q, func(it *zkrecipes.Item) error {
			if string(it.Data) == "bad" {
				return recipetest.ErrHandler
			}
			return nil
		})
		time.Sleep(time.Millisecond)
		for _, name := range recipetest.Names(3) {
			recipetest.PutOn(t, q, name)
			time.Sleep(time.Millisecond)
			synctest.Wait()
			want = append(want, name)
			require.Equal(t, want, a.got)
			time.Sleep(time.Hour)
		}
		require.True(t, a.Waiting(), "Serve goes on")
		synctest.Wait()
		require.Equal(t, want, a.got)
		require.Contains(t, log.String(), "item stays in the queue")
		require.LessOrEqual(t, strings.Count(log.String(), "item stays in the queue"), 3*121+20, "once in 30 s")
		recipetest.RemoveTree(t, w.Bare(), w.Path+"-dead")
		time.Sleep(time.Minute)
		require.Equal(t, []string{"bad"}, listed(t, q.DeadLetters()))
		require.Empty(t, w.Items())
		require.NoError(t, stop(a.Call))
	})
}

// A process that ends does not wait until an item that cannot be moved may be tried again.
func TestShutdownDoesNotWaitForAnItemThatCannotBeMoved(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.QueueWith(w.Stranger(nil), nil)
		w.SpoilDeadLetters()
		recipetest.PutOn(t, q, "bad")
		for range 16 { // the default
			recipetest.NackOn(t, recipetest.TakeOn(t, q))
		}
		a := recipetest.ServeLater(t, q, func(context.Context, *zkrecipes.Item) error { return nil })
		time.Sleep(time.Second)
		require.True(t, a.Waiting())
		require.Len(t, w.Flags(), 1, "it is kept")
		began := time.Now()
		require.NoError(t, w.ClientOf(q).Shutdown(t.Context()))
		require.Less(t, time.Since(began), time.Second)
		_, err := a.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		require.Empty(t, w.Flags())
	})
}

// A text is cut, and is valid UTF-8.
func TestFailureThatIsLongIsCut(t *testing.T) {
	for _, text := range []string{strings.Repeat("é", 10_000), strings.Repeat("x", queue.MaxFailureText-1) + "é", "\xff\x00\n"} {
		item := queue.WithNote("id", []byte("data"), queue.Failure{Text: text})
		data, f := queue.CutNote(strings.Repeat("i", queuelog.IDLength)+"~0000000000", item.Data)
		require.Equal(t, "data", string(data))
		require.LessOrEqual(t, len(f.Text), queue.MaxFailureText)
		require.Greater(t, len(f.Text), min(len(text), queue.MaxFailureText-3))
	}
}

// An item that is so large that there is no room for the text, or for any note, becomes a
// dead letter without.
func TestLargestItemsBecomeDeadLettersWithoutAFailure(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := strict(w, 1)
		core := w.NewCore()
		like := engine(core, w.Path, queue.Options{})
		log := queue.NewQueueLog(core.S, like.DeadLettersPath())
		claim := like.NewClaim(core.S, queue.NewQueueLog(core.S, like.Abs()).Segment(0)+"/"+queuelog.NewID()+"0000000000")
		largest := jute.MaxFrame - zkconn.MultiSize(claim.AckOps(true).All(), log.LargestAppend([]queuelog.Item{{ID: queuelog.NewID()}}, like.SegmentSize).Ops)
		line, err := json.Marshal(queue.Failure{Queue: w.Path, Attempts: 1, Text: recipetest.ErrHandler.Error()})
		require.NoError(t, err)
		for room, want := range map[int]zkrecipes.Failure{ // the bytes of a request that an item leaves for a note
			len(line) + 10: {Queue: w.Path, Attempts: 1, Text: recipetest.ErrHandler.Error()},
			len(line) - 10: {Queue: w.Path, Attempts: 1},
			3:              {},
		} {
			data := make([]byte, largest-room)
			id, err := q.Put(t.Context(), data)
			require.NoError(t, err)
			require.NoError(t, stop(serve(t, q, func(*zkrecipes.Item) error { return recipetest.ErrHandler }).Call))
			it := recipetest.TakeOn(t, q.DeadLetters())
			require.Equal(t, id, it.ID)
			require.Equal(t, want, it.Failure)
			require.Equal(t, data, it.Data)
			recipetest.AckOn(t, it)
		}
	})
}

// Data are never taken for a note, however they begin. A letter that was moved by an
// earlier version has none, and comes back, too.
func TestDeadLettersWithoutANoteCanBeRead(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(nil))
		data := []string{`{"queue":"/line","attempts":3,"text":"no note"}` + "\nx", "no JSON\nx"}
		recipetest.PutOn(t, q.DeadLetters(), data[0])
		_, err := w.Bare().Create(w.Path+"-dead/s/0000000000/"+queuelog.NewID()+"~0000000001", []byte(data[1]), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		require.Equal(t, data, listed(t, q.DeadLetters()))
		require.Equal(t, make([]zkrecipes.Failure, 2), failures(t, q))
		require.Equal(t, 2, redrive(t, q, 9))
		require.Equal(t, data, recipetest.Drain(t, q))
	})
}

// The dead letters' segments go with the letters, so that a Len of no letters costs the
// same for ever.
func TestRedriveMovesLettersBackWithAttemptsThatBeginAnewAndDeletesTheirSegments(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Small(2, &zkrecipes.QueueOptions{MaxAttempts: 2})
		ids := bury(t, q, recipetest.Names(7)...)
		require.Len(t, w.Srv.Children(w.Path+"-dead/s"), 4)
		for _, move := range []struct{ n, left int }{{2, 3}, {1, 3}, {1, 2}, {2, 1}} {
			require.Equal(t, move.n, redrive(t, q, move.n))
			require.Len(t, w.Srv.Children(w.Path+"-dead/s"), move.left)
		}
		require.Equal(t, []string{"6"}, listed(t, q.DeadLetters()))
		require.Equal(t, 1, redrive(t, q, math.MaxInt))
		require.Len(t, w.Srv.Children(w.Path+"-dead/s"), 1)
		for i, id := range ids {
			it := recipetest.TakeOn(t, q)
			require.Equal(t, id, it.ID)
			require.Equal(t, fmt.Sprint(i), string(it.Data))
			require.Equal(t, 1, it.Attempt)
			require.Zero(t, it.Failure)
			recipetest.NackOn(t, it)
			it = recipetest.TakeOn(t, q)
			require.Equal(t, 2, it.Attempt)
			recipetest.AckOn(t, it)
		}
		require.Zero(t, redrive(t, q, 1))
		_, err := q.Redrive(t.Context(), -1)
		require.EqualError(t, err, "zkrecipes: redrive "+w.Path+": n is -1 dead letters: must not be negative")
	})
}

// A letter that is too large stays, and those behind it are moved.
func TestRedriveGoesOnAfterALetterThatIsTooLarge(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.QueueWith(w.Stranger(nil), &zkrecipes.QueueOptions{MaxAttempts: 1})
		bury(t, q, "x", "large", "y")
		small := zkrecipes.NewQueue(w.ClientOf(q), w.Path, &zkrecipes.QueueOptions{MaxItemBytes: 3})
		moved, err := small.Redrive(t.Context(), 9)
		require.ErrorIs(t, err, zkrecipes.ErrTooLarge)
		require.ErrorContains(t, err, "zkrecipes: redrive "+w.Path+": letter "+w.Path+"-dead/s/0000000000/")
		require.Equal(t, 2, moved)
		require.Equal(t, []string{"large"}, listed(t, q.DeadLetters()))
		require.Equal(t, []string{"x", "y"}, recipetest.Drain(t, q))
	})
}

// Two clients have different prefixes, and their queues' dead letters one path. The path of
// one queue as its users give it may be that of the other. A letter that a consumer has stays, too.
func TestRedriveTellsQueuesApartByTheirAbsolutePaths(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		below := zkrecipes.NewQueue(w.Stranger(&zkrecipes.Options{Prefix: "/p"}), "/jobs", &zkrecipes.QueueOptions{MaxAttempts: 1, DeadLetter: "/dead"})
		root := zkrecipes.NewQueue(w.Stranger(nil), "/jobs", &zkrecipes.QueueOptions{MaxAttempts: 1, DeadLetter: "/p/dead"})
		twice := zkrecipes.NewQueue(w.Stranger(nil), "/p/p/jobs", &zkrecipes.QueueOptions{MaxAttempts: 1, DeadLetter: "/p/dead"})
		bury(t, root, "taken", "of the root")
		bury(t, twice, "of the longest")
		for _, e := range entries(t, below.DeadLetters()) {
			require.Equal(t, map[string]string{"taken": "/jobs", "of the root": "/jobs", "of the longest": "/p/p/jobs"}[string(e.Data)], e.Failure.Queue)
		}
		require.Zero(t, redrive(t, below, 9))
		bury(t, below, "of the one below")
		it := recipetest.TakeOn(t, below.DeadLetters())
		require.Equal(t, "taken", string(it.Data))
		for want, q := range map[string]*zkrecipes.Queue{"of the root": root, "of the one below": below, "of the longest": twice} {
			require.Equal(t, 1, redrive(t, q, 9))
			require.Equal(t, []string{want}, recipetest.Drain(t, q))
		}
		recipetest.AckOn(t, it)
		require.Empty(t, listed(t, below.DeadLetters()))
	})
}
