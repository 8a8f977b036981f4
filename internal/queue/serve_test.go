package queue_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/queue"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Serve, dead letters, and what handlers may do.

// When its context ends, Serve takes no more items and lets the handlers finish. Their
// contexts do not end, and Serve acts on what they return.
func TestServeLetsHandlersFinishWhenItsContextEnds(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.QueueWith(w.Stranger(nil), &zkrecipes.QueueOptions{Workers: 3})
		recipetest.PutOn(t, q, recipetest.Names(4)...)
		var began atomic.Int64
		finish := make(chan struct{})
		a := recipetest.ServeLater(t, q, func(ctx context.Context, it *zkrecipes.Item) error {
			began.Add(1)
			<-finish
			return ctx.Err()
		})
		synctest.Wait()
		a.Cancel(nil)
		synctest.Wait()
		require.True(t, a.Waiting())
		close(finish)
		require.NoError(t, stop(a))
		require.EqualValues(t, 3, began.Load())
		require.Equal(t, []string{"3"}, recipetest.Drain(t, q))
	})
}

// With a DrainTimeout, the handlers' contexts end at that time after Serve's, or after
// Shutdown. What they have finished by then is acked.
func TestServeEndsTheHandlersContextsAfterTheDrainTimeout(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.QueueWith(w.Stranger(nil), &zkrecipes.QueueOptions{Workers: 2, DrainTimeout: 10 * time.Second})
		recipetest.PutOn(t, q, "quick", "slow", "late")
		var cause error
		serve := func(slow time.Duration) *harness.Call[struct{}] {
			a := recipetest.ServeLater(t, q, func(ctx context.Context, it *zkrecipes.Item) error {
				select {
				case <-time.After(map[string]time.Duration{"quick": 9 * time.Second, "slow": slow}[string(it.Data)]):
					return nil
				case <-ctx.Done():
					cause = context.Cause(ctx)
					return cause
				}
			})
			synctest.Wait()
			return a
		}
		a, began := serve(time.Hour), time.Now()
		err := stop(a)
		require.ErrorIs(t, cause, context.DeadlineExceeded)
		require.ErrorContains(t, cause, "DrainTimeout: 10s have passed")
		require.Equal(t, 10*time.Second, time.Since(began))
		require.EqualError(t, err, "zkrecipes: serve "+w.Path+": a handler was at work 10s after the context had ended: context canceled")
		require.ErrorIs(t, err, context.Canceled)
		synctest.Wait()
		require.Empty(t, w.Flags(), "the slow one was given back at once")
		require.Equal(t, []string{"slow", "late"}, listed(t, q), "the quick one was acked")

		a, began = serve(time.Second), time.Now()
		require.NoError(t, stop(a))
		require.Equal(t, time.Second, time.Since(began), "no longer than its handlers")
		require.Empty(t, w.Items())

		recipetest.PutOn(t, q, "slow")
		a, began, cause = serve(time.Hour), time.Now(), nil
		require.NoError(t, w.ClientOf(q).Shutdown(t.Context()))
		require.Equal(t, 10*time.Second, time.Since(began))
		require.ErrorIs(t, stop(a), zkrecipes.ErrClosed)
		require.ErrorIs(t, cause, context.DeadlineExceeded)
	})
}

// An item whose handler fails stays claimed for the back-off, and is then delivered
// again. After MaxAttempts it becomes a dead letter.
func TestItemWhoseHandlerFailsComesBackAndEndsAmongTheDeadLetters(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var waited []int
		q := w.QueueWith(w.Stranger(nil), &zkrecipes.QueueOptions{MaxAttempts: 3, Backoff: func(attempt int) time.Duration {
			waited = append(waited, attempt)
			return time.Duration(attempt) * time.Minute
		}})
		ids := recipetest.PutOn(t, q, "bad", "good")
		var got []string
		began := time.Now()
		a := recipetest.ServeLater(t, q, func(_ context.Context, it *zkrecipes.Item) error {
			got = append(got, fmt.Sprintf("%s %d at %v", it.Data, it.Attempt, time.Since(began)))
			if it.Attempt == 2 && string(it.Data) == "bad" {
				panic("a panic is a failure, too")
			}
			if string(it.Data) == "bad" {
				it.Data[0] = 'B' // a handler may change Data
				return recipetest.ErrHandler
			}
			return nil
		})
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, []string{"bad 1 at 0s", "good 1 at 0s", "bad 2 at 1m0s", "bad 3 at 3m0s"}, got)
		require.Equal(t, []int{1, 2}, waited)
		require.NoError(t, stop(a))
		require.Empty(t, w.Items())

		dead := zkrecipes.NewQueue(w.ClientOf(q), w.Path+"-dead", &zkrecipes.QueueOptions{MaxAttempts: -1})
		it := recipetest.TakeOn(t, dead)
		require.Equal(t, ids[0], it.ID)
		require.Equal(t, "bad", string(it.Data), "the data as it was put")
		require.Equal(t, 1, it.Attempt)
		recipetest.AckOn(t, it)
	})
}

// One item that fails again and again does not hold up those behind it, although there
// is one worker. It is the first to be taken when its back-off is over.
func TestItemsBehindOneThatFailsAreDelivered(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.QueueWith(w.Stranger(nil), &zkrecipes.QueueOptions{Backoff: func(int) time.Duration { return time.Minute }})
		recipetest.PutOn(t, q, "bad", "1", "2")
		a := serve(t, q, func(it *zkrecipes.Item) error {
			switch string(it.Data) {
			case "3":
				time.Sleep(2 * time.Minute) // while the back-off ends, and more are put
			case "bad":
				return recipetest.ErrHandler
			}
			return nil
		})
		require.Equal(t, []string{"bad", "1", "2"}, a.got)
		require.Len(t, w.Flags(), 1, "still claimed")
		recipetest.PutOn(t, q, "3", "4")
		time.Sleep(150 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{"bad", "1", "2", "3", "bad", "4"}, a.got)
		require.NoError(t, stop(a.Call))
	})
}

// While all handlers fail, few items use up their attempts: further ones keep the worker.
func TestWorkersWaitWhenTooManyItemsDo(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := zkrecipes.NewQueue(w.Stranger(nil), w.Path, &zkrecipes.QueueOptions{
			Workers: 2, Backoff: func(int) time.Duration { return time.Minute },
		})
		most := queue.ParkedPerWorker*2 + 2
		recipetest.PutAllOn(t, q, 0, 1000)
		var mu sync.Mutex
		calls, tried := 0, map[zkrecipes.ItemID]bool{}
		a := recipetest.ServeLater(t, q, func(_ context.Context, it *zkrecipes.Item) error {
			time.Sleep(time.Millisecond) // else all back-offs end at once, and others are taken before those are free
			mu.Lock()
			defer mu.Unlock()
			calls++
			tried[it.ID] = true
			return recipetest.ErrHandler
		})
		time.Sleep(time.Minute - time.Second)
		synctest.Wait()
		require.Equal(t, most, calls)
		require.Len(t, w.Flags(), most)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		require.Greater(t, calls, most+10)
		require.Len(t, tried, most)
		require.NoError(t, stop(a))
		synctest.Wait()
		require.Empty(t, w.Flags(), "all were given back")
	})
}

// A handler that acks by itself has succeeded, like one that returns nil.
func TestWorkersGoOnIfOtherHandlersSucceed(t *testing.T) {
	ways := map[string]func(ctx context.Context, it *zkrecipes.Item, to *zkrecipes.Queue) error{
		"returns nil": func(context.Context, *zkrecipes.Item, *zkrecipes.Queue) error { return nil },
		"Ack":         func(ctx context.Context, it *zkrecipes.Item, _ *zkrecipes.Queue) error { return it.Ack(ctx) },
		"AckPut": func(ctx context.Context, it *zkrecipes.Item, to *zkrecipes.Queue) error {
			_, err := it.AckPut(ctx, to, bytesOf("x"))
			return err
		},
	}
	eachInBubble(t, ways, func(t *testing.T, w *recipetest.World, succeed func(context.Context, *zkrecipes.Item, *zkrecipes.Queue) error) {
		c := w.Stranger(nil)
		q := w.QueueWith(c, &zkrecipes.QueueOptions{Backoff: func(int) time.Duration { return time.Hour }})
		to := next(c, 100, nil)
		for range 2 * queue.ParkedPerWorker {
			recipetest.PutOn(t, q, "bad", "good")
		}
		good := 0
		a := recipetest.ServeLater(t, q, func(ctx context.Context, it *zkrecipes.Item) error {
			if string(it.Data) == "bad" {
				return recipetest.ErrHandler
			}
			good++
			return succeed(ctx, it, to)
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, 2*queue.ParkedPerWorker, good)
		require.NoError(t, stop(a))
	})
}

// A worker's error is Serve's, although its context ends while the others finish. And a
// Client that is closed is no shutdown of Serve.
func TestServeReturnsWhatEndedItFirst(t *testing.T) {
	eachInBubble(t, map[string]error{"evicted": zkrecipes.ErrEvicted, "closed": zkrecipes.ErrClosed}, func(t *testing.T, w *recipetest.World, want error) {
		q := w.QueueWith(w.Stranger(nil), &zkrecipes.QueueOptions{Workers: 2})
		recipetest.PutOn(t, q, "x")
		a := recipetest.ServeLater(t, q, func(context.Context, *zkrecipes.Item) error {
			time.Sleep(20 * time.Second)
			return nil
		})
		synctest.Wait()
		if want == zkrecipes.ErrEvicted {
			require.NoError(t, w.Bare().Delete(w.Path+"/line/"+w.Srv.Children(w.Path + "/line")[0], -1))
			time.Sleep(10 * time.Second) // it may be that the whole line was deleted
		} else {
			require.NoError(t, w.ClientOf(q).Close())
		}
		require.ErrorIs(t, stop(a), want)
		synctest.Wait()
		require.Empty(t, w.Srv.Children(w.Path+"/line"))
	})
}

// During its back-off an item stays claimed, so that it does not spin at the head of
// the queue. The wait ends when ctx or the claim ends.
func TestServeGivesTheItemBackAtOnceWhenItEndsDuringABackoff(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		q := zkrecipes.NewQueue(c, w.Path, &zkrecipes.QueueOptions{Backoff: func(int) time.Duration { return time.Hour }})
		recipetest.PutOn(t, q, "x")
		failing := func(context.Context, *zkrecipes.Item) error { return recipetest.ErrHandler }
		began := time.Now()
		a := recipetest.ServeLater(t, q, failing)
		time.Sleep(time.Minute)
		require.Len(t, w.Flags(), 1, "still claimed")
		require.NoError(t, stop(a))
		synctest.Wait()
		require.Empty(t, w.Flags())

		a = recipetest.ServeLater(t, q, failing)
		time.Sleep(time.Minute)
		require.True(t, w.Srv.Expire(recipetest.SessionID(c)))
		time.Sleep(time.Minute)
		e, err := q.Peek(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrEmpty, "%v: taken again", e)
		require.True(t, a.Waiting())
		require.NoError(t, stop(a))
		require.Less(t, time.Since(began), time.Hour)
		it := recipetest.TakeOn(t, q)
		require.Equal(t, 4, it.Attempt)
		recipetest.AckOn(t, it)
	})
}

// Sixteen is the default number of attempts. Without a limit no item becomes a dead
// letter.
func TestItemsBecomeDeadLettersAfterSixteenAttemptsByDefault(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, without := w.Queue(w.Stranger(nil)), strict(w, -1)
		recipetest.PutOn(t, q, "x")
		for range 16 {
			recipetest.NackOn(t, recipetest.TakeOn(t, q))
		}
		for range 10 {
			recipetest.NackOn(t, recipetest.TakeOn(t, without))
		}
		a := w.TakeLater(q)
		require.True(t, a.Waiting())
		require.Empty(t, w.Items())
		require.Equal(t, []string{"x"}, listed(t, q.DeadLetters()))
	})
}

// The dead letters have segments, too. The replies to some moves are lost.
func TestMovesToTheDeadLettersFillSegments(t *testing.T) {
	beforeAndAfter(t, func(t *testing.T, w *recipetest.World, after bool) {
		q := w.Small(2, &zkrecipes.QueueOptions{MaxAttempts: 1})
		want := recipetest.Names(9)
		recipetest.PutOn(t, q, want...)
		w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: "multi", Path: w.Path + "-dead/*", Skip: 2, Times: 3})
		for range want { // each Take moves the item before
			recipetest.NackOn(t, recipetest.TakeOn(t, q))
		}
		w.TakeLater(q)
		require.Len(t, w.Plan.Fired(), 1)
		require.Equal(t, want, recipetest.Drain(t, q.DeadLetters()))
		require.Greater(t, slices.Max(w.Srv.Children(w.Path+"-dead/s")), "0000000002", "segments")
	})
}

func TestHandlersMayCallTheLibraryIncludingClose(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(nil))
		recipetest.PutOn(t, q, "x")
		a := recipetest.ServeLater(t, q, func(ctx context.Context, it *zkrecipes.Item) error {
			recipetest.PutOn(t, q, "y")
			context.AfterFunc(ctx, func() { w.ClientOf(q).Close() })
			require.NoError(t, w.ClientOf(q).Close())
			return it.Err()
		})
		_, err := a.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		require.EqualError(t, err, "zkrecipes: serve "+w.Path+": client closed")
		require.Equal(t, []string{"x", "y"}, recipetest.Drain(t, w.Queue(w.Stranger(nil))))
	})
}

// A handler may ack the item itself, with operations of its own, or nack it, or move it, which
// wakes the other queue's consumer.
func TestServeLeavesItemsAloneThatTheHandlerHasEnded(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q, producer := w.Queue(w.Stranger(nil)), w.Queue(w.Stranger(nil))
		to := next(w.ClientOf(q), 3, nil)
		second := serve(t, next(w.Stranger(nil), 3, nil), nil)
		a := serve(t, q, func(it *zkrecipes.Item) error {
			switch {
			case string(it.Data) == "0":
				return it.Ack(t.Context(), zkrecipes.OpCreate("/effect", nil, 0, nil))
			case string(it.Data) == "1" && it.Attempt == 1:
				return it.Nack(t.Context())
			case string(it.Data) == "1":
				_ = it.Ack(t.Context())
				return recipetest.ErrHandler
			case it.Data[0] == 'm':
				_, err := it.AckPut(t.Context(), to, [][]byte{it.Data})
				return err
			}
			return nil
		})
		recipetest.PutOn(t, producer, "0", "1", "2")
		synctest.Wait()
		require.Equal(t, []string{"0", "1", "1", "2"}, a.got)
		var moved []string
		for _, name := range recipetest.Names(9) {
			moved = append(moved, "m"+name)
			recipetest.PutOn(t, producer, "m"+name)
			synctest.Wait()
		}
		require.Equal(t, moved, second.got)
		require.NoError(t, stop(a.Call))
		require.NoError(t, stop(second.Call))
		require.Empty(t, w.Items())
		require.Contains(t, w.Srv.Children("/"), "effect")
	})
}

// The reply to an ack of Serve is lost, or the servers refuse it once.
func TestAckOfServeWhoseReplyIsLostIsDoneOnceAndLeavesNoPlaceBehind(t *testing.T) {
	beforeAndAfter(t, func(t *testing.T, w *recipetest.World, after bool) {
		q := w.Queue(w.Stranger(nil))
		recipetest.PutOn(t, q, recipetest.Names(6)...)
		w.Plan.Add(
			zktest.Fault{Do: zktest.Drop, After: after, Op: recipetest.OpAck, Skip: 1, Times: 2},
			zktest.Fault{Do: zktest.Answer, Code: -7, After: after, Op: recipetest.OpAck, Skip: 3, Times: 1})
		a := serve(t, q, func(it *zkrecipes.Item) error {
			if string(it.Data) == "1" { // another consumer comes between
				recipetest.AckedOn(t, w.Queue(w.Stranger(nil)))
			}
			return nil
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"0", "1", "3", "4", "5"}, a.got)
		require.Len(t, w.Srv.Children(w.Path+"/line"), 1, "one worker waits")
		require.NoError(t, stop(a.Call))
		synctest.Wait()
		require.Empty(t, w.Srv.Children(w.Path+"/line"))
		require.Len(t, w.Plan.Fired(), 2)
	})
}

// If the session expires while a handler works, the handler's context ends and the item is
// delivered again. Lost connections and expired sessions do not end Serve.
func TestServeSurvivesExpiry(t *testing.T) {
	// While a handler works
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(nil))
		recipetest.PutOn(t, q, "x")
		var attempts []int
		a := recipetest.ServeLater(t, q, func(ctx context.Context, it *zkrecipes.Item) error {
			if attempts = append(attempts, it.Attempt); len(attempts) == 1 {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return nil
		})
		synctest.Wait()
		w.Expire(w.ClientOf(q))
		require.Equal(t, []int{1, 2}, attempts)
		w.Expire(w.ClientOf(q))
		require.True(t, w.Srv.Disconnect(recipetest.SessionID(w.ClientOf(q))))
		recipetest.PutOn(t, w.Queue(w.Stranger(nil)), "y")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []int{1, 2, 1}, attempts)
		require.Empty(t, w.Items())
		require.True(t, a.Waiting())
	})
}

func TestDefaultBackoffGrowsAndHasABound(t *testing.T) {
	require.Equal(t, 100*time.Millisecond, queue.BackOff(1))
	require.Equal(t, 200*time.Millisecond, queue.BackOff(2))
	require.Equal(t, 25600*time.Millisecond, queue.BackOff(9))
	for _, attempt := range []int{10, 16, 100, 1 << 40} {
		require.Equal(t, 30*time.Second, queue.BackOff(attempt))
	}
	require.Equal(t, 100*time.Millisecond, queue.BackOff(0))
}

// The exported fields are the handler's to change.
func TestHandlerThatChangesItsItemLosesNothing(t *testing.T) {
	eachInBubble(t, map[string]func(it *zkrecipes.Item){
		"fields": func(it *zkrecipes.Item) {
			it.ID, it.Data, it.Attempt, it.Failure = "mine", nil, 1<<30, zkrecipes.Failure{Queue: "/mine"}
		},
		"zero": func(it *zkrecipes.Item) { it.ID, it.Data, it.Attempt, it.Failure = "", nil, 0, zkrecipes.Failure{} },
		"all":  func(it *zkrecipes.Item) { *it = zkrecipes.Item{} },
	}, func(t *testing.T, w *recipetest.World, change func(it *zkrecipes.Item)) {
		var backoffs []int
		q := zkrecipes.NewQueue(w.Stranger(nil), w.Path, &zkrecipes.QueueOptions{MaxAttempts: 3, Backoff: func(attempt int) time.Duration {
			backoffs = append(backoffs, attempt)
			return time.Second
		}})
		ids := recipetest.PutOn(t, q, "x", "y")
		a := serve(t, q, func(it *zkrecipes.Item) error {
			bad := string(it.Data) == "x"
			change(it)
			if bad {
				return recipetest.ErrHandler
			}
			return nil
		})
		time.Sleep(time.Hour)
		require.NoError(t, stop(a.Call))
		require.Equal(t, []string{"x", "y", "x", "x"}, a.got)
		require.Equal(t, []int{1, 2}, backoffs)
		require.Empty(t, w.Items(), "y was acked")
		letter := recipetest.TakeOn(t, q.DeadLetters())
		require.Equal(t, ids[0], letter.ID)
		require.Equal(t, "x", string(letter.Data))
		require.Equal(t, 3, letter.Failure.Attempts)
	})
}
