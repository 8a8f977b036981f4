package zkrecipes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// What dead letters tell, and how they are moved back.

// bury makes dead letters of items whose handler fails with their data.
func bury(t *testing.T, q *Queue, items ...string) (ids []ItemID) {
	t.Helper()
	q.opts.Backoff = func(int) time.Duration { return 0 } // else they overtake each other
	ids = putOn(t, q, items...)
	a := serveLater(t, q, func(_ context.Context, it *Item) error { return errors.New("cannot work on " + string(it.Data)) })
	time.Sleep(time.Hour)
	synctest.Wait()
	require.NoError(t, stop(a))
	return ids
}

func TestA21DeadLetterTellsItsLastFailureAndItsAttempts(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := NewQueue(w.stranger(&Options{Prefix: "/app"}), "/jobs", &QueueOptions{MaxAttempts: 3})
		ids := bury(t, q, "x\ny")
		letters := q.DeadLetters()
		want := Failure{Queue: "/jobs", Attempts: 3, Text: "cannot work on x\ny"}
		e, err := letters.Peek(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, e.Failure)
		require.Equal(t, "x\ny", string(e.Data))
		for i := range 20 { // any number of attempts
			it := takeOn(t, letters)
			require.Equal(t, ids[0], it.ID)
			require.Equal(t, want, it.Failure)
			require.Equal(t, i+1, it.Attempt)
			require.Equal(t, "x\ny", string(it.Data))
			nackOn(t, it)
		}
		require.Equal(t, []string{"x\ny"}, drain(t, letters))
	})
}

// The worker whose handler fails for the last time moves the item at once. If it cannot,
// because its session ends for example, the next consumer does so.
func TestDeadLetterOfAConsumerThatDiedSaysSo(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := NewQueue(w.stranger(nil), w.path, &QueueOptions{MaxAttempts: 1})
		ids := putOn(t, q, "died", "given back", "panicked")
		require.Equal(t, ids[0], takeOn(t, q).ID)
		require.True(t, w.srv.Expire(sessionID(q.c)))
		it := takeOn(t, q)
		require.Equal(t, ids[1], it.ID)
		nackOn(t, it)
		a := serveLater(t, q, func(context.Context, *Item) error { panic("ouch") })
		synctest.Wait()
		require.NoError(t, stop(a))
		var got []Failure
		for e, err := range q.DeadLetters().Items(t.Context()) {
			require.NoError(t, err)
			require.Equal(t, ids[len(got)], e.ID)
			got = append(got, e.Failure)
		}
		require.Len(t, got, 3)
		for i, f := range got {
			require.Equal(t, w.path, f.Queue)
			require.Equal(t, 1, f.Attempts)
			if i < 2 {
				require.Equal(t, neverAcked, f.Text)
			}
		}
		require.True(t, strings.HasPrefix(got[2].Text, "handler panicked: ouch\n"), got[2].Text)
		require.Contains(t, got[2].Text, "queue_dead_test.go", "the stack")
		require.LessOrEqual(t, len(got[2].Text), maxFailureText)
	})
}

// The move at the last failure loses its request or reply: the letter is there once.
func TestB44MoveOfAFailedItemWhoseReplyIsLostIsDoneOnce(t *testing.T) {
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after=%v", after), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				q := NewQueue(w.stranger(nil), w.path, &QueueOptions{MaxAttempts: 1})
				bury(t, q, "before")
				w.plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: "multi(delete,delete,delete,check,create)"})
				bury(t, q, "x", "y")
				require.Len(t, w.plan.Fired(), 1)
				var got []string
				for e, err := range q.DeadLetters().Items(t.Context()) {
					require.NoError(t, err)
					got = append(got, e.Failure.Text)
				}
				require.Equal(t, []string{"cannot work on before", "cannot work on x", "cannot work on y"}, got)
				require.Empty(t, w.items())
			})
		})
	}
}

// A text is cut, and is valid UTF-8.
func TestFailureThatIsLongIsCut(t *testing.T) {
	c := &Client{}
	for _, text := range []string{strings.Repeat("é", 10_000), strings.Repeat("x", maxFailureText-1) + "é", "\xff\x00\n"} {
		item := c.withNote("id", []byte("data"), Failure{Text: text})
		data, f := c.cutNote(strings.Repeat("i", queuelog.IDLength)+"~0000000000", item.Data)
		require.Equal(t, "data", string(data))
		require.LessOrEqual(t, len(f.Text), maxFailureText)
		require.Greater(t, len(f.Text), min(len(text), maxFailureText-3))
	}
}

// An item that is so large that there is no room for the text, or for any note, becomes a
// dead letter without.
func TestLargestItemsBecomeDeadLettersWithoutAFailure(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := NewQueue(w.stranger(nil), w.path, &QueueOptions{MaxAttempts: 1})
		s := live(t, q.c)
		sized := func(room int) []byte { // leaves so many bytes of a request for a note
			log, claim := s.newQueueLog(q.deadLetters()), q.newClaim(s, s.newQueueLog(q.abs()).Segment(0)+"/"+queuelog.NewID()+"0000000000")
			n := zkconn.MultiSize(claim.ackOps(true).all(), log.LargestAppend([]queuelog.Item{{ID: queuelog.NewID()}}).Ops)
			return make([]byte, jute.MaxFrame-n-room)
		}
		note, err := json.Marshal(Failure{Queue: w.path, Attempts: 1, Text: errHandler.Error()})
		require.NoError(t, err)
		full, short := Failure{w.path, 1, errHandler.Error()}, Failure{w.path, 1, ""}
		none := Failure{}
		for room, want := range map[int]Failure{len(note) + 10: full, len(note) - 10: short, 3: none} {
			data := sized(room)
			id, err := q.Put(t.Context(), data)
			require.NoError(t, err)
			a := serveLater(t, q, func(context.Context, *Item) error { return errHandler })
			synctest.Wait()
			require.NoError(t, stop(a))
			it := takeOn(t, q.DeadLetters())
			require.Equal(t, id, it.ID)
			require.Equal(t, want, it.Failure)
			require.Equal(t, data, it.Data)
			ackOn(t, it)
		}
	})
}

// Data are never taken for a note, however they begin. A letter that was moved by an
// earlier version has none, and comes back, too.
func TestDeadLettersWithoutANoteCanBeRead(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q, conn := w.queue(w.stranger(nil)), w.bare()
		letters := q.DeadLetters()
		note := `{"queue":"/line","attempts":3,"text":"no note"}` + "\nx"
		putOn(t, letters, note)
		_, err := conn.Create(letters.path+"/s/0000000000/"+queuelog.NewID()+"~0000000001", []byte("no JSON\nx"), 0, zk.WorldACL(zk.PermAll))
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
		require.Equal(t, got, drain(t, q))
	})
}

func TestA21RedriveMovesLettersBackWithAttemptsThatBeginAnew(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.small(3, &QueueOptions{MaxAttempts: 2})
		ids := bury(t, q, names(9)...)
		moved, err := q.Redrive(t.Context(), 4)
		require.NoError(t, err)
		require.Equal(t, 4, moved)
		require.Equal(t, names(9)[4:], listed(t, q.DeadLetters()))
		for i := range 4 {
			it := takeOn(t, q)
			require.Equal(t, ids[i], it.ID)
			require.Equal(t, fmt.Sprint(i), string(it.Data))
			require.Equal(t, 1, it.Attempt)
			require.Zero(t, it.Failure)
			nackOn(t, it)
			it = takeOn(t, q)
			require.Equal(t, 2, it.Attempt)
			ackOn(t, it)
		}
		moved, err = q.Redrive(t.Context(), math.MaxInt)
		require.NoError(t, err)
		require.Equal(t, 5, moved)
		require.Equal(t, names(9)[4:], drain(t, q))
		moved, err = q.Redrive(t.Context(), 1)
		require.NoError(t, err)
		require.Zero(t, moved)
		_, err = q.Redrive(t.Context(), -1)
		require.EqualError(t, err, "zkrecipes: redrive "+w.path+": -1 dead letters")
	})
}

// Letters that a consumer has, and those of other queues, stay.
func TestRedriveLeavesLettersThatAreTakenOrOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		opts := &QueueOptions{MaxAttempts: 1, DeadLetter: "/letters"}
		q := NewQueue(w.stranger(nil), w.path, opts)
		other := NewQueue(q.c, "/next", opts)
		bury(t, q, "taken")
		it := takeOn(t, q.DeadLetters())
		bury(t, other, "other")
		bury(t, q, "free")
		moved, err := q.Redrive(t.Context(), 9)
		require.NoError(t, err)
		require.Equal(t, 1, moved)
		require.Equal(t, []string{"free"}, drain(t, q))
		ackOn(t, it)
		moved, err = other.Redrive(t.Context(), 9)
		require.NoError(t, err)
		require.Equal(t, 1, moved)
		require.Equal(t, []string{"other"}, drain(t, other))
		require.Empty(t, listed(t, q.DeadLetters()))
	})
}

// Redrive waits for room in a bounded queue, one letter after the other, and its ctx ends
// that.
func TestRedriveWaitsForRoom(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := NewQueue(w.stranger(nil), w.path, &QueueOptions{MaxAttempts: 1, MaxLen: 2})
		bury(t, q, "0", "1")
		bury(t, q, "2", "3")
		a := harness.Go(t, func(ctx context.Context) (int, error) { return q.Redrive(ctx, 3) })
		synctest.Wait()
		require.True(t, a.Waiting())
		require.Equal(t, []string{"0", "1"}, listed(t, q))
		ackOn(t, takeOn(t, q))
		require.Equal(t, 3, a.Get())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		moved, err := q.Redrive(ctx, 3)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Zero(t, moved)
		require.Equal(t, []string{"1", "2"}, drain(t, q))
		require.Equal(t, []string{"3"}, listed(t, q.DeadLetters()))
		synctest.Wait()
		require.Empty(t, w.srv.Children(w.path+"/room"))
	})
}

// A letter that is too large stays, and those behind it are moved.
func TestRedriveGoesOnAfterALetterThatIsTooLarge(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := NewQueue(w.stranger(nil), w.path, &QueueOptions{MaxAttempts: 1})
		bury(t, q, "x", "large", "y")
		small := NewQueue(q.c, w.path, &QueueOptions{MaxItemBytes: 3})
		moved, err := small.Redrive(t.Context(), 9)
		require.ErrorIs(t, err, ErrTooLarge)
		require.ErrorContains(t, err, "zkrecipes: redrive "+w.path+": letter "+w.path+"-dead/s/0000000000/")
		require.Equal(t, 2, moved)
		require.Equal(t, []string{"large"}, listed(t, q.DeadLetters()))
		require.Equal(t, []string{"x", "y"}, drain(t, q))
	})
}

const opRedrive = "multi(setData,delete,check,create)"

// A letter whose move back loses its request or reply is moved once, although its item has
// been acked in the meantime.
func TestB42RedriveWhoseReplyIsLostIsDoneOnce(t *testing.T) {
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after=%v", after), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				q := NewQueue(w.stranger(nil), w.path, &QueueOptions{MaxAttempts: 1})
				bury(t, q, "x", "y")
				var got []string
				a := serveLater(t, NewQueue(w.stranger(nil), w.path, nil), func(_ context.Context, it *Item) error {
					got = append(got, string(it.Data))
					return nil
				})
				w.plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: opRedrive})
				moved, err := q.Redrive(t.Context(), 9)
				require.NoError(t, err)
				require.Equal(t, 2, moved)
				synctest.Wait()
				require.Len(t, w.plan.Fired(), 1)
				require.Equal(t, []string{"x", "y"}, got)
				require.NoError(t, stop(a))
				require.Empty(t, listed(t, q.DeadLetters()))
			})
		})
	}
}

// If the session ends before the outcome is known, the letter is in one of the queues.
func TestB42RedriveWhoseSessionExpiresIsUncertain(t *testing.T) {
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after=%v", after), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				q := NewQueue(w.stranger(nil), w.path, &QueueOptions{MaxAttempts: 1})
				bury(t, q, "x", "y", "z")
				w.plan.Add(zktest.Fault{Do: zktest.Expire, After: after, Op: opRedrive, Skip: 1})
				moved, err := q.Redrive(t.Context(), 9)
				require.ErrorIs(t, err, ErrUncertain)
				require.Equal(t, 1, moved)
				require.Equal(t, []string{"x", "y", "z"}, slices.Concat(listed(t, q), listed(t, q.DeadLetters())))
				_, err = q.Redrive(t.Context(), 9) // goes on with the others
				require.NoError(t, err)
				require.Equal(t, []string{"x", "y", "z"}, drain(t, q))
			})
		})
	}
}

// The session ends while Redrive reads: it goes on in the next one.
func TestRedriveGoesOnInTheNextSession(t *testing.T) {
	for _, op := range []string{"sync", "getChildren2", "getData"} {
		t.Run(op, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				q := NewQueue(w.stranger(nil), w.path, &QueueOptions{MaxAttempts: 1})
				bury(t, q, "x", "y", "z")
				w.plan.Add(zktest.Fault{Do: zktest.Expire, Op: op})
				moved, err := q.Redrive(t.Context(), 9)
				require.NoError(t, err)
				require.Equal(t, 3, moved)
				require.Equal(t, []string{"x", "y", "z"}, drain(t, q))
			})
		})
	}
}

// A letter with a foreign znode below it is moved, and marked.
func TestB85RedriveOfALetterWithAForeignZnodeBelow(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		opts, log := logged()
		q := NewQueue(w.stranger(opts), w.path, &QueueOptions{MaxAttempts: 1})
		bury(t, q, "x", "y")
		segment := w.path + "-dead/s/0000000000/"
		letter := segment + queuelog.Entries(w.srv.Children(w.path + "-dead/s/0000000000"))[0].Name
		w.foreign(w.bare(), letter, "note")
		moved, err := q.Redrive(t.Context(), 9)
		require.NoError(t, err)
		require.Equal(t, 2, moved)
		synctest.Wait() // the log is written in the background
		require.Contains(t, log.String(), `"znode":"`+letter+`"`)
		require.Contains(t, log.String(), `"children":["note"]`)
		require.Equal(t, []string{"x", "y"}, drain(t, q))
		moved, err = q.Redrive(t.Context(), 9)
		require.NoError(t, err)
		require.Zero(t, moved)
		require.Empty(t, listed(t, q.DeadLetters()))
	})
}
