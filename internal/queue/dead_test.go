package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// bury makes dead letters of items whose handler fails with their data.
func bury(t *testing.T, q *zkrecipes.Queue, items ...string) (ids []zkrecipes.ItemID) {
	t.Helper()
	recipetest.QueueOf(q).Opts.Backoff = func(int) time.Duration { return 0 } // else they overtake each other
	ids = recipetest.PutOn(t, q, items...)
	a := recipetest.ServeLater(t, q, func(_ context.Context, it *zkrecipes.Item) error {
		return errors.New("cannot work on " + string(it.Data))
	})
	time.Sleep(time.Hour)
	synctest.Wait()
	require.NoError(t, stop(a))
	return ids
}

func TestA21DeadLetterTellsItsLastFailureAndItsAttempts(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := zkrecipes.NewQueue(w.Stranger(&zkrecipes.Options{Prefix: "/app"}), "/jobs", &zkrecipes.QueueOptions{MaxAttempts: 3})
		ids := bury(t, q, "x\ny")
		letters := q.DeadLetters()
		want := zkrecipes.Failure{Queue: "/app/jobs", Attempts: 3, Text: "cannot work on x\ny"}
		e, err := letters.Peek(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, e.Failure)
		require.Equal(t, "x\ny", string(e.Data))
		for i := range 20 { // any number of attempts
			it := recipetest.TakeOn(t, letters)
			require.Equal(t, ids[0], it.ID)
			require.Equal(t, want, it.Failure)
			require.Equal(t, i+1, it.Attempt)
			require.Equal(t, "x\ny", string(it.Data))
			recipetest.NackOn(t, it)
		}
		e, err = zkrecipes.NewQueue(w.Stranger(nil), "/app/jobs-dead", nil).Peek(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, e.Failure)
		require.Equal(t, []string{"x\ny"}, recipetest.Drain(t, letters))
	})
}

// The worker whose handler fails for the last time moves the item at once. If it cannot,
// because its session ends for example, the next consumer does so.
func TestDeadLetterOfAConsumerThatDiedSaysSo(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := zkrecipes.NewQueue(w.Stranger(nil), w.Path, &zkrecipes.QueueOptions{MaxAttempts: 1})
		ids := recipetest.PutOn(t, q, "died", "given back", "panicked")
		require.Equal(t, ids[0], recipetest.TakeOn(t, q).ID)
		require.True(t, w.Srv.Expire(recipetest.SessionID(recipetest.ClientOf(recipetest.QueueOf(q).Client))))
		it := recipetest.TakeOn(t, q)
		require.Equal(t, ids[1], it.ID)
		recipetest.NackOn(t, it)
		a := recipetest.ServeLater(t, q, func(context.Context, *zkrecipes.Item) error { panic("ouch") })
		synctest.Wait()
		require.NoError(t, stop(a))
		var got []zkrecipes.Failure
		for e, err := range q.DeadLetters().Items(t.Context()) {
			require.NoError(t, err)
			require.Equal(t, ids[len(got)], e.ID)
			got = append(got, e.Failure)
		}
		require.Len(t, got, 3)
		for i, f := range got {
			require.Equal(t, w.Path, f.Queue)
			require.Equal(t, 1, f.Attempts)
			if i < 2 {
				require.Equal(t, queue.NeverAcked, f.Text)
			}
		}
		require.True(t, strings.HasPrefix(got[2].Text, "handler panicked: ouch\n"), got[2].Text)
		require.Contains(t, got[2].Text, "dead_test.go", "the stack")
		require.LessOrEqual(t, len(got[2].Text), queue.MaxFailureText)
	})
}

// The move at the last failure loses its request or reply: the letter is there once.
func TestB44MoveOfAFailedItemWhoseReplyIsLostIsDoneOnce(t *testing.T) {
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after=%v", after), func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				q := zkrecipes.NewQueue(w.Stranger(nil), w.Path, &zkrecipes.QueueOptions{MaxAttempts: 1})
				bury(t, q, "before")
				w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: "multi(delete,delete,delete,check,create)"})
				bury(t, q, "x", "y")
				require.Len(t, w.Plan.Fired(), 1)
				var got []string
				for e, err := range q.DeadLetters().Items(t.Context()) {
					require.NoError(t, err)
					got = append(got, e.Failure.Text)
				}
				require.Equal(t, []string{"cannot work on before", "cannot work on x", "cannot work on y"}, got)
				require.Empty(t, w.Items())
			})
		})
	}
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
	for _, died := range []bool{false, true} {
		t.Run(fmt.Sprintf("its consumer died: %v", died), func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				opts, log := recipetest.Logged()
				q := zkrecipes.NewQueue(w.Stranger(opts), w.Path, &zkrecipes.QueueOptions{MaxAttempts: 1})
				w.SpoilDeadLetters()
				recipetest.PutOn(t, q, "bad")
				if died {
					recipetest.TakeOn(t, q)
					require.True(t, w.Srv.Expire(recipetest.SessionID(recipetest.ClientOf(recipetest.QueueOf(q).Client))))
				}
				var got []string
				a := recipetest.ServeLater(t, q, func(_ context.Context, it *zkrecipes.Item) error {
					got = append(got, string(it.Data))
					if string(it.Data) == "bad" {
						return recipetest.ErrHandler
					}
					return nil
				})
				want := []string{"bad", "0", "1", "2"}
				if died {
					want = want[1:]
				}
				time.Sleep(time.Millisecond)
				for i, name := range recipetest.Names(3) {
					recipetest.PutOn(t, q, name)
					time.Sleep(time.Millisecond)
					synctest.Wait()
					require.Equal(t, want[:len(want)-2+i], got)
					time.Sleep(time.Hour)
				}
				require.True(t, a.Waiting(), "Serve goes on")
				synctest.Wait()
				require.Equal(t, want, got)
				require.Contains(t, log.String(), "item stays in the queue")
				require.LessOrEqual(t, strings.Count(log.String(), "item stays in the queue"), 3*121+20, "once in 30 s")
				recipetest.RemoveTree(t, w.Bare(), w.Path+"-dead")
				time.Sleep(time.Minute)
				require.Equal(t, []string{"bad"}, listed(t, q.DeadLetters()))
				require.Empty(t, w.Items())
				require.NoError(t, stop(a))
			})
		})
	}
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
		require.NoError(t, recipetest.ClientOf(recipetest.QueueOf(q).Client).Shutdown(t.Context()))
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
		q := zkrecipes.NewQueue(w.Stranger(nil), w.Path, &zkrecipes.QueueOptions{MaxAttempts: 1})
		s := recipetest.Live(t, recipetest.ClientOf(recipetest.QueueOf(q).Client))
		sized := func(room int) []byte { // leaves so many bytes of a request for a note
			log, claim := queue.NewQueueLog(s, recipetest.QueueOf(q).DeadLettersPath()), recipetest.QueueOf(q).NewClaim(s, queue.NewQueueLog(s, recipetest.QueueOf(q).Abs()).Segment(0)+"/"+queuelog.NewID()+"0000000000")
			n := zkconn.MultiSize(claim.AckOps(true).All(), log.LargestAppend([]queuelog.Item{{ID: queuelog.NewID()}}, recipetest.QueueOf(q).SegmentSize).Ops)
			return make([]byte, jute.MaxFrame-n-room)
		}
		line, err := json.Marshal(queue.Note{Queue: w.Path, Attempts: 1, Text: recipetest.ErrHandler.Error()})
		require.NoError(t, err)
		full, short := zkrecipes.Failure{Queue: w.Path, Attempts: 1, Text: recipetest.ErrHandler.Error()}, zkrecipes.Failure{Queue: w.Path, Attempts: 1, Text: ""}
		none := zkrecipes.Failure{}
		for room, want := range map[int]zkrecipes.Failure{len(line) + 10: full, len(line) - 10: short, 3: none} {
			data := sized(room)
			id, err := q.Put(t.Context(), data)
			require.NoError(t, err)
			a := recipetest.ServeLater(t, q, func(context.Context, *zkrecipes.Item) error { return recipetest.ErrHandler })
			synctest.Wait()
			require.NoError(t, stop(a))
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
		q, conn := w.Queue(w.Stranger(nil)), w.Bare()
		letters := q.DeadLetters()
		note := `{"queue":"/line","attempts":3,"text":"no note"}` + "\nx"
		recipetest.PutOn(t, letters, note)
		_, err := conn.Create(recipetest.QueueOf(letters).Path+"/s/0000000000/"+queuelog.NewID()+"~0000000001", []byte("no JSON\nx"), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		var got []string
		for e, err := range letters.Items(t.Context()) {
			require.NoError(t, err)
			require.Zero(t, e.Failure)
			got = append(got, string(e.Data))
		}
		require.Equal(t, []string{note, "no JSON\nx"}, got)
		moved, err := q.Redrive(t.Context(), 9)
		require.NoError(t, err)
		require.Equal(t, 2, moved)
		require.Equal(t, got, recipetest.Drain(t, q))
	})
}
