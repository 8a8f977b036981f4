package queue_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/queue"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Serve without a connection, and user functions that panic.

// Serve's context ends during an outage, and a handler returns. The ack was not sent, or
// its reply never comes.
func TestServeEndsWithItsLeasesIfItsContextEndsDuringAnOutage(t *testing.T) {
	eachInBubble(t, map[string]bool{"sent": true, "not sent": false}, func(t *testing.T, w *recipetest.World, sent bool) {
		q := w.Queue(w.Stranger(nil))
		recipetest.PutOn(t, q, "x")
		began, finish := make(chan *zkrecipes.Item, 2), make(chan struct{})
		a := recipetest.ServeLater(t, q, func(_ context.Context, it *zkrecipes.Item) error {
			began <- it
			<-finish
			return nil
		})
		it, session := <-began, recipetest.SessionID(w.ClientOf(q))
		if sent {
			w.Plan.Add(zktest.Fault{Do: zktest.Withhold, Op: recipetest.OpAck}, zktest.Fault{Do: zktest.Refuse, Times: -1})
		} else {
			w.Away(w.ClientOf(q))
		}
		close(finish)
		synctest.Wait()
		require.True(t, a.Waiting(), "the ack may still be carried out")
		until := it.ValidUntil()
		require.False(t, until.IsZero())
		require.NoError(t, stop(a))
		require.False(t, time.Now().After(until), "%v after the claim's end", time.Since(until))

		w.Srv.Expire(session) // else the ack may be carried out after all
		w.Back()
		again := recipetest.TakeOn(t, w.Queue(w.Stranger(nil)))
		require.Equal(t, 2, again.Attempt)
		recipetest.AckOn(t, again)
	})
}

// A handler may fail by a panic, whose stack is logged, by runtime.Goexit, or by an error.
func TestHandlerThatPanicsOrEndsItsGoroutineHasFailed(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		opts, log := recipetest.Logged()
		q := w.Queue(w.Stranger(opts))
		recipetest.PutOn(t, q, "x")
		a := serve(t, q, func(it *zkrecipes.Item) error {
			switch it.Attempt {
			case 1:
				panic("on purpose")
			case 2:
				runtime.Goexit()
			case 3:
				return recipetest.ErrHandler
			}
			return nil
		})
		time.Sleep(time.Minute)
		require.NoError(t, stop(a.Call))
		require.Len(t, a.got, 4)
		require.Empty(t, w.Items())
		require.Contains(t, log.String(), "handler panicked: on purpose")
		require.Contains(t, log.String(), "serve_faults_test.go", "the stack")
	})
}

// A Backoff that panics, or ends its goroutine, is replaced by the default.
func TestBackoffThatPanicsIsLoggedAndTheDefaultIsUsed(t *testing.T) {
	for what, fails := range map[string]func(){"panicked: on purpose": func() { panic("on purpose") }, "runtime.Goexit": runtime.Goexit} {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			opts, log := recipetest.Logged()
			q := zkrecipes.NewQueue(w.Stranger(opts), w.Path, &zkrecipes.QueueOptions{Backoff: func(int) time.Duration {
				fails()
				return time.Hour
			}})
			recipetest.PutOn(t, q, "x")
			began := time.Now()
			var at []time.Duration
			a := serve(t, q, func(it *zkrecipes.Item) error {
				if at = append(at, time.Since(began)); len(at) < 3 {
					return recipetest.ErrHandler
				}
				return nil
			})
			time.Sleep(time.Minute)
			require.NoError(t, stop(a.Call))
			require.Equal(t, []time.Duration{0, queue.BackOff(1), queue.BackOff(1) + queue.BackOff(2)}, at)
			require.Contains(t, log.String(), "QueueOptions.Backoff")
			require.Contains(t, log.String(), what)
		})
	}
}

func hourly(workers int) *zkrecipes.QueueOptions {
	return &zkrecipes.QueueOptions{Workers: workers, Backoff: func(int) time.Duration { return time.Hour }}
}

// What a take that is under way as Serve ends claims is given back, too, and that is no attempt.
func TestServeGivesBackWhatItHasAndWhatItsTakesClaim(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.QueueWith(w.Stranger(nil), hourly(1))
		recipetest.PutOn(t, q, "failed")
		handled := 0
		a := recipetest.ServeLater(t, q, func(context.Context, *zkrecipes.Item) error {
			handled++
			return recipetest.ErrHandler
		})
		time.Sleep(time.Minute)
		for _, op := range claimOps {
			w.Plan.Add(zktest.Fault{Do: zktest.Delay, For: time.Second, After: true, Op: op})
		}
		recipetest.PutOn(t, q, "being taken")
		synctest.Wait()
		require.Len(t, w.Flags(), 2)
		a.Cancel(nil)
		time.Sleep(zkconn.Grace)
		synctest.Wait()
		require.False(t, a.Waiting())
		require.NoError(t, stop(a))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Empty(t, w.Flags())
		require.Equal(t, 1, handled)
		for _, attempt := range []int{2, 1} {
			it := recipetest.TakeOn(t, q)
			require.Equal(t, attempt, it.Attempt)
			recipetest.AckOn(t, it)
		}
	})
}
