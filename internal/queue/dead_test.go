package queue_test

import (
	"context"
	"encoding/json"
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

func TestA21DeadLetterTellsItsLastFailureAndItsAttempts(t *testing.T) {
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
		require.True(t, w.Srv.Expire(sessionOf(q)))
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
func TestB86ServeOutlivesAMoveThatOthersUndo(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		opts, log := recipetest.Logged()
		q := zkrecipes.NewQueue(w.Stranger(opts), w.Path, &zkrecipes.QueueOptions{MaxAttempts: 1})
		w.Plan.Add(zktest.Fault{Do: zktest.Answer, Code: jute.ErrNoNode, Op: "multi(create,setData,create)", Path: w.Path + "-dead/s", Times: 3 * zkconn.MaxTries})
		bury(t, q, "x", "y")
		require.Contains(t, log.String(), "item is not moved to the dead letters yet")
		require.Empty(t, w.Items())
		require.ElementsMatch(t, []string{"x", "y"}, recipetest.Drain(t, q.DeadLetters()))
	})
}

// The servers refuse to move an item to the dead letters. Serve goes on with the others, in
// the meantime and for good, until the item can be moved.
func TestB98ServeGoesOnPastAnItemThatCannotBeMovedToTheDeadLetters(t *testing.T) {
	eachInBubble(t, map[string]bool{"its handler failed": false, "its consumer died": true}, func(t *testing.T, w *recipetest.World, died bool) {
		opts, log := recipetest.Logged()
		q := zkrecipes.NewQueue(w.Stranger(opts), w.Path, &zkrecipes.QueueOptions{MaxAttempts: 1})
		w.SpoilDeadLetters()
		recipetest.PutOn(t, q, "bad")
		want := []string{"bad"}
		if died {
			recipetest.TakeOn(t, q)
			require.True(t, w.Srv.Expire(sessionOf(q)))
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
		q := zkrecipes.NewQueue(w.Stranger(nil), w.Path, nil)
		w.SpoilDeadLetters()
		recipetest.PutOn(t, q, "bad")
		for range queue.DefaultMaxAttempts {
			recipetest.NackOn(t, recipetest.TakeOn(t, q))
		}
		a := recipetest.ServeLater(t, q, func(context.Context, *zkrecipes.Item) error { return nil })
		time.Sleep(time.Second)
		require.True(t, a.Waiting())
		require.Len(t, w.Flags(), 1, "it is kept")
		began := time.Now()
		require.NoError(t, clientOf(q).Shutdown(t.Context()))
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
		engine, s := recipetest.QueueOf(q), recipetest.Live(t, clientOf(q))
		log := queue.NewQueueLog(s, engine.DeadLettersPath())
		claim := engine.NewClaim(s, queue.NewQueueLog(s, engine.Abs()).Segment(0)+"/"+queuelog.NewID()+"0000000000")
		largest := jute.MaxFrame - zkconn.MultiSize(claim.AckOps(true).All(), log.LargestAppend([]queuelog.Item{{ID: queuelog.NewID()}}, engine.SegmentSize).Ops)
		line, err := json.Marshal(queue.Note{Queue: w.Path, Attempts: 1, Text: recipetest.ErrHandler.Error()})
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
