package queue_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Dead letters that are moved back.

func TestA21RedriveMovesLettersBackWithAttemptsThatBeginAnew(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Small(3, &zkrecipes.QueueOptions{MaxAttempts: 2})
		ids := bury(t, q, recipetest.Names(9)...)
		moved, err := q.Redrive(t.Context(), 4)
		require.NoError(t, err)
		require.Equal(t, 4, moved)
		require.Equal(t, recipetest.Names(9)[4:], listed(t, q.DeadLetters()))
		for i := range 4 {
			it := recipetest.TakeOn(t, q)
			require.Equal(t, ids[i], it.ID)
			require.Equal(t, fmt.Sprint(i), string(it.Data))
			require.Equal(t, 1, it.Attempt)
			require.Zero(t, it.Failure)
			recipetest.NackOn(t, it)
			it = recipetest.TakeOn(t, q)
			require.Equal(t, 2, it.Attempt)
			recipetest.AckOn(t, it)
		}
		moved, err = q.Redrive(t.Context(), math.MaxInt)
		require.NoError(t, err)
		require.Equal(t, 5, moved)
		require.Equal(t, recipetest.Names(9)[4:], recipetest.Drain(t, q))
		moved, err = q.Redrive(t.Context(), 1)
		require.NoError(t, err)
		require.Zero(t, moved)
		_, err = q.Redrive(t.Context(), -1)
		require.EqualError(t, err, "zkrecipes: redrive "+w.Path+": -1 dead letters")
	})
}

// The dead letters' segments go with the letters, so that a Len of no letters costs the
// same for ever.
func TestRedriveDeletesTheSegmentsThatItEmpties(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Small(2, &zkrecipes.QueueOptions{MaxAttempts: 1})
		bury(t, q, recipetest.Names(7)...)
		require.Len(t, w.Srv.Children(w.Path+"-dead/s"), 4)
		for _, move := range []struct{ n, left int }{{2, 3}, {1, 3}, {1, 2}, {2, 1}, {1, 1}} {
			moved, err := q.Redrive(t.Context(), move.n)
			require.NoError(t, err)
			require.Equal(t, move.n, moved)
			require.Len(t, w.Srv.Children(w.Path+"-dead/s"), move.left)
		}
		require.Equal(t, recipetest.Names(7), recipetest.Drain(t, q))
	})
}

// Letters that a consumer has, and those of other queues, stay.
func TestRedriveLeavesLettersThatAreTakenOrOthers(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		opts := &zkrecipes.QueueOptions{MaxAttempts: 1, DeadLetter: "/letters"}
		q := zkrecipes.NewQueue(w.Stranger(nil), w.Path, opts)
		other := zkrecipes.NewQueue(recipetest.ClientOf(recipetest.QueueOf(q).Client), "/next", opts)
		bury(t, q, "taken")
		it := recipetest.TakeOn(t, q.DeadLetters())
		bury(t, other, "other")
		bury(t, q, "free")
		moved, err := q.Redrive(t.Context(), 9)
		require.NoError(t, err)
		require.Equal(t, 1, moved)
		require.Equal(t, []string{"free"}, recipetest.Drain(t, q))
		recipetest.AckOn(t, it)
		moved, err = other.Redrive(t.Context(), 9)
		require.NoError(t, err)
		require.Equal(t, 1, moved)
		require.Equal(t, []string{"other"}, recipetest.Drain(t, other))
		require.Empty(t, listed(t, q.DeadLetters()))
	})
}

// Redrive waits for room in a bounded queue, one letter after the other, and its ctx ends
// that.
func TestRedriveWaitsForRoom(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := zkrecipes.NewQueue(w.Stranger(nil), w.Path, &zkrecipes.QueueOptions{MaxAttempts: 1, MaxLen: 2})
		bury(t, q, "0", "1")
		bury(t, q, "2", "3")
		a := harness.Go(t, func(ctx context.Context) (int, error) { return q.Redrive(ctx, 3) })
		synctest.Wait()
		require.True(t, a.Waiting())
		require.Equal(t, []string{"0", "1"}, listed(t, q))
		recipetest.AckOn(t, recipetest.TakeOn(t, q))
		require.Equal(t, 3, a.Get())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		moved, err := q.Redrive(ctx, 3)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Zero(t, moved)
		require.Equal(t, []string{"1", "2"}, recipetest.Drain(t, q))
		require.Equal(t, []string{"3"}, listed(t, q.DeadLetters()))
		synctest.Wait()
		require.Empty(t, w.Srv.Children(w.Path+"/room"))
	})
}

// A letter that is too large stays, and those behind it are moved.
func TestRedriveGoesOnAfterALetterThatIsTooLarge(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := zkrecipes.NewQueue(w.Stranger(nil), w.Path, &zkrecipes.QueueOptions{MaxAttempts: 1})
		bury(t, q, "x", "large", "y")
		small := zkrecipes.NewQueue(recipetest.ClientOf(recipetest.QueueOf(q).Client), w.Path, &zkrecipes.QueueOptions{MaxItemBytes: 3})
		moved, err := small.Redrive(t.Context(), 9)
		require.ErrorIs(t, err, zkrecipes.ErrTooLarge)
		require.ErrorContains(t, err, "zkrecipes: redrive "+w.Path+": letter "+w.Path+"-dead/s/0000000000/")
		require.Equal(t, 2, moved)
		require.Equal(t, []string{"large"}, listed(t, q.DeadLetters()))
		require.Equal(t, []string{"x", "y"}, recipetest.Drain(t, q))
	})
}

const opRedrive = "multi(setData,delete,check,create)"

// A letter whose move back loses its request or reply is moved once, although its item has
// been acked in the meantime.
func TestB42RedriveWhoseReplyIsLostIsDoneOnce(t *testing.T) {
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after=%v", after), func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				q := zkrecipes.NewQueue(w.Stranger(nil), w.Path, &zkrecipes.QueueOptions{MaxAttempts: 1})
				bury(t, q, "x", "y")
				var got []string
				a := recipetest.ServeLater(t, zkrecipes.NewQueue(w.Stranger(nil), w.Path, nil), func(_ context.Context, it *zkrecipes.Item) error {
					got = append(got, string(it.Data))
					return nil
				})
				w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: opRedrive})
				moved, err := q.Redrive(t.Context(), 9)
				require.NoError(t, err)
				require.Equal(t, 2, moved)
				synctest.Wait()
				require.Len(t, w.Plan.Fired(), 1)
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
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				q := zkrecipes.NewQueue(w.Stranger(nil), w.Path, &zkrecipes.QueueOptions{MaxAttempts: 1})
				bury(t, q, "x", "y", "z")
				w.Plan.Add(zktest.Fault{Do: zktest.Expire, After: after, Op: opRedrive, Skip: 1})
				moved, err := q.Redrive(t.Context(), 9)
				require.ErrorIs(t, err, zkrecipes.ErrUncertain)
				require.Equal(t, 1, moved)
				require.Equal(t, []string{"x", "y", "z"}, slices.Concat(listed(t, q), listed(t, q.DeadLetters())))
				_, err = q.Redrive(t.Context(), 9) // goes on with the others
				require.NoError(t, err)
				require.Equal(t, []string{"x", "y", "z"}, recipetest.Drain(t, q))
			})
		})
	}
}

// The session ends while Redrive reads: it goes on in the next one.
func TestRedriveGoesOnInTheNextSession(t *testing.T) {
	for _, op := range []string{"sync", "getChildren2", "getData"} {
		t.Run(op, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				q := zkrecipes.NewQueue(w.Stranger(nil), w.Path, &zkrecipes.QueueOptions{MaxAttempts: 1})
				bury(t, q, "x", "y", "z")
				w.Plan.Add(zktest.Fault{Do: zktest.Expire, Op: op})
				moved, err := q.Redrive(t.Context(), 9)
				require.NoError(t, err)
				require.Equal(t, 3, moved)
				require.Equal(t, []string{"x", "y", "z"}, recipetest.Drain(t, q))
			})
		})
	}
}

// A letter with a foreign znode below it is moved, and marked.
func TestB85RedriveOfALetterWithAForeignZnodeBelow(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		opts, log := recipetest.Logged()
		q := zkrecipes.NewQueue(w.Stranger(opts), w.Path, &zkrecipes.QueueOptions{MaxAttempts: 1})
		bury(t, q, "x", "y")
		segment := w.Path + "-dead/s/0000000000/"
		letter := segment + queuelog.Entries(w.Srv.Children(w.Path + "-dead/s/0000000000"))[0].Name
		w.Foreign(w.Bare(), letter, "note")
		moved, err := q.Redrive(t.Context(), 9)
		require.NoError(t, err)
		require.Equal(t, 2, moved)
		synctest.Wait() // the log is written in the background
		require.Contains(t, log.String(), `"znode":"`+letter+`"`)
		require.Contains(t, log.String(), `"children":["note"]`)
		require.Equal(t, []string{"x", "y"}, recipetest.Drain(t, q))
		moved, err = q.Redrive(t.Context(), 9)
		require.NoError(t, err)
		require.Zero(t, moved)
		require.Empty(t, listed(t, q.DeadLetters()))
	})
}

// An operator deletes the queue or its dead letters at any request of a Redrive, which
// moves what is left.
func TestB86OperatorActsAtAnyRequestOfARedrive(t *testing.T) {
	for _, deleted := range []string{"/line", "/line-dead"} {
		t.Run(deleted, func(t *testing.T) {
			atAnyRequest(t, func(t *testing.T, w *recipetest.World, between func(call, act func())) {
				q, conn := w.Small(2, &zkrecipes.QueueOptions{MaxAttempts: 1}), w.Bare()
				bury(t, q, "x", "y", "z")
				q = zkrecipes.NewQueue(w.Stranger(nil), w.Path, nil)
				var a *harness.Call[int]
				between(func() {
					a = harness.Go(t, func(ctx context.Context) (int, error) { return q.Redrive(ctx, 9) })
				}, func() { recipetest.RemoveTree(t, conn, deleted) })
				moved := a.Get()
				left := len(listed(t, q)) + len(listed(t, q.DeadLetters()))
				if deleted == "/line" {
					require.Equal(t, 3, moved)
				}
				require.LessOrEqual(t, left, 3)
				if deleted == "/line-dead" {
					require.Len(t, listed(t, q), moved)
				}
				recipetest.PutOn(t, q, "last")
				require.Contains(t, recipetest.Drain(t, q), "last")
			})
		})
	}
}

// Two clients have different prefixes, and their queues' dead letters one path. The path of
// one queue as its users give it may be that of the other.
func TestRedriveTellsQueuesApartByTheirAbsolutePaths(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		below := zkrecipes.NewQueue(w.Stranger(&zkrecipes.Options{Prefix: "/p"}), "/jobs", &zkrecipes.QueueOptions{MaxAttempts: 1, DeadLetter: "/dead"})
		root := zkrecipes.NewQueue(w.Stranger(nil), "/jobs", &zkrecipes.QueueOptions{MaxAttempts: 1, DeadLetter: "/p/dead"})
		twice := zkrecipes.NewQueue(w.Stranger(nil), "/p/p/jobs", &zkrecipes.QueueOptions{MaxAttempts: 1, DeadLetter: "/p/dead"})
		bury(t, root, "of the root")
		bury(t, twice, "of the longest")
		for e, err := range below.DeadLetters().Items(t.Context()) {
			require.NoError(t, err)
			require.Equal(t, map[string]string{"of the root": "/jobs", "of the longest": "/p/p/jobs"}[string(e.Data)], e.Failure.Queue)
		}
		moved, err := below.Redrive(t.Context(), 9)
		require.NoError(t, err)
		require.Zero(t, moved)
		bury(t, below, "of the one below")
		for want, q := range map[string]*zkrecipes.Queue{"of the root": root, "of the one below": below, "of the longest": twice} {
			moved, err := q.Redrive(t.Context(), 9)
			require.NoError(t, err)
			require.Equal(t, 1, moved)
			require.Equal(t, []string{want}, recipetest.Drain(t, q))
		}
	})
}
