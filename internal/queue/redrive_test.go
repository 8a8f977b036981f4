package queue_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// Dead letters that are moved back.

func TestA21RedriveMovesLettersBackWithAttemptsThatBeginAnew(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Small(3, &zkrecipes.QueueOptions{MaxAttempts: 2})
		ids := bury(t, q, recipetest.Names(9)...)
		require.Equal(t, 4, redrive(t, q, 4))
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
		require.Equal(t, 5, redrive(t, q, math.MaxInt))
		require.Equal(t, recipetest.Names(9)[4:], recipetest.Drain(t, q))
		require.Zero(t, redrive(t, q, 1))
		_, err := q.Redrive(t.Context(), -1)
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
			require.Equal(t, move.n, redrive(t, q, move.n))
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
		other := zkrecipes.NewQueue(clientOf(q), "/next", opts)
		bury(t, q, "taken")
		it := recipetest.TakeOn(t, q.DeadLetters())
		bury(t, other, "other")
		bury(t, q, "free")
		require.Equal(t, 1, redrive(t, q, 9))
		require.Equal(t, []string{"free"}, recipetest.Drain(t, q))
		recipetest.AckOn(t, it)
		require.Equal(t, 1, redrive(t, other, 9))
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
		recipetest.AckedOn(t, q)
		require.Equal(t, 3, a.Get())
		a = harness.Go(t, func(ctx context.Context) (int, error) { return q.Redrive(ctx, 3) })
		synctest.Wait()
		moved, _ := canceled(t, a)
		require.Zero(t, moved)
		require.Equal(t, []string{"1", "2"}, recipetest.Drain(t, q))
		require.Equal(t, []string{"3"}, listed(t, q.DeadLetters()))
		require.Empty(t, w.Srv.Children(w.Path+"/room"))
	})
}

// A letter that is too large stays, and those behind it are moved.
func TestRedriveGoesOnAfterALetterThatIsTooLarge(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := zkrecipes.NewQueue(w.Stranger(nil), w.Path, &zkrecipes.QueueOptions{MaxAttempts: 1})
		bury(t, q, "x", "large", "y")
		small := zkrecipes.NewQueue(clientOf(q), w.Path, &zkrecipes.QueueOptions{MaxItemBytes: 3})
		moved, err := small.Redrive(t.Context(), 9)
		require.ErrorIs(t, err, zkrecipes.ErrTooLarge)
		require.ErrorContains(t, err, "zkrecipes: redrive "+w.Path+": letter "+w.Path+"-dead/s/0000000000/")
		require.Equal(t, 2, moved)
		require.Equal(t, []string{"large"}, listed(t, q.DeadLetters()))
		require.Equal(t, []string{"x", "y"}, recipetest.Drain(t, q))
	})
}

// An operator deletes the queue or its dead letters at any request of a Redrive, which
// moves what is left.
func TestB86OperatorActsAtAnyRequestOfARedrive(t *testing.T) {
	for _, deleted := range []string{"/line", "/line-dead"} {
		atAnyRequest(t, func(t *testing.T, w *recipetest.World, between func(call, act func())) {
			q, conn := w.Small(2, &zkrecipes.QueueOptions{MaxAttempts: 1}), w.Bare()
			bury(t, q, "x", "y", "z")
			q = w.Queue(w.Stranger(nil))
			var a *harness.Call[int]
			between(func() {
				a = harness.Go(t, func(ctx context.Context) (int, error) { return q.Redrive(ctx, 9) })
			}, func() { recipetest.RemoveTree(t, conn, deleted) })
			if moved := a.Get(); deleted == "/line" {
				require.Equal(t, 3, moved)
			} else {
				require.Len(t, listed(t, q), moved)
			}
			require.LessOrEqual(t, len(listed(t, q))+len(listed(t, q.DeadLetters())), 3)
			recipetest.PutOn(t, q, "last")
			require.Contains(t, recipetest.Drain(t, q), "last")
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
		require.Zero(t, redrive(t, below, 9))
		bury(t, below, "of the one below")
		for want, q := range map[string]*zkrecipes.Queue{"of the root": root, "of the one below": below, "of the longest": twice} {
			require.Equal(t, 1, redrive(t, q, 9))
			require.Equal(t, []string{want}, recipetest.Drain(t, q))
		}
	})
}
