package queue_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/queue"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// Handlers that overrun QueueOptions.HandlerTimeout.

const (
	doesNotReturn = `"level":"ERROR","msg":"a handler does not return; its worker takes no other item until it does"`
	returnedLate  = `"level":"WARN","msg":"a handler has returned too late; its result is ignored"`
)

// limited returns options with a HandlerTimeout of ten seconds, and a back-off of five.
func limited() *zkrecipes.QueueOptions {
	return &zkrecipes.QueueOptions{HandlerTimeout: 10 * time.Second, Backoff: func(int) time.Duration { return 5 * time.Second }}
}

// A handler that does not return loses its item to another consumer, and its worker takes no
// other one until it does. What it returns then is ignored.
func TestItemOfAHandlerThatDoesNotReturnIsGivenBack(t *testing.T) {
	for _, result := range []error{nil, recipetest.ErrHandler} {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			opts, log := recipetest.Logged()
			q := w.QueueWith(w.Stranger(opts), limited())
			ids := recipetest.PutOn(t, q, "hangs", "next")
			finish := make(chan struct{})
			var got []string
			var cause error
			var ended time.Duration
			began := time.Now()
			a := recipetest.ServeLater(t, q, func(ctx context.Context, it *zkrecipes.Item) error {
				if got = append(got, string(it.Data)); len(got) > 1 {
					return nil
				}
				deadline, ok := ctx.Deadline()
				require.True(t, ok)
				require.Equal(t, 10*time.Second, deadline.Sub(began))
				<-ctx.Done()
				cause, ended = context.Cause(ctx), time.Since(began)
				<-finish
				return result
			})
			time.Sleep(10*time.Second + time.Millisecond)
			synctest.Wait()
			require.Equal(t, 10*time.Second, ended)
			require.ErrorIs(t, cause, context.DeadlineExceeded)
			require.EqualError(t, cause, "HandlerTimeout: 10s have passed since the handler was called: context deadline exceeded")
			require.NotContains(t, log.String(), doesNotReturn, "it may still return")
			time.Sleep(time.Second)
			synctest.Wait()
			require.Contains(t, log.String(), doesNotReturn)
			require.Contains(t, log.String(), string(ids[0]))
			require.Len(t, w.Flags(), 1, "it is claimed for the back-off")

			other := w.Queue(w.Stranger(nil))
			recipetest.AckedOn(t, other) // "next"
			recipetest.PutOn(t, q, "third")
			time.Sleep(5 * time.Second)
			it := recipetest.TakeOn(t, other)
			require.Equal(t, ids[0], it.ID)
			require.Equal(t, 2, it.Attempt)
			time.Sleep(time.Hour)
			require.Equal(t, []string{"hangs"}, got, "the only worker is lost")
			require.NoError(t, it.Err())

			close(finish)
			synctest.Wait()
			require.Contains(t, log.String(), returnedLate)
			require.NoError(t, it.Err(), "its result is ignored")
			require.Equal(t, []string{"hangs", "third"}, got, "the worker goes on")
			recipetest.AckOn(t, it)
			require.NoError(t, stop(a))
			require.Empty(t, w.Items())
			require.Equal(t, 1, strings.Count(log.String(), `"level":"ERROR"`))
		})
	}
}

// A handler that returns when its context ends, or within a second, has returned in time.
func TestHandlerThatReturnsWhenItsContextEndsKeepsItsWorker(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		opts, log := recipetest.Logged()
		q := w.QueueWith(w.Stranger(opts), limited())
		recipetest.PutOn(t, q, "slow", "late", "quick")
		began := time.Now()
		var got []string
		a := recipetest.ServeLater(t, q, func(ctx context.Context, it *zkrecipes.Item) error {
			got = append(got, string(it.Data)+" at "+time.Since(began).String())
			switch {
			case string(it.Data) == "quick" || it.Attempt == 2:
				return nil
			case string(it.Data) == "slow":
				<-ctx.Done()
				return ctx.Err()
			}
			time.Sleep(10*time.Second + queue.HandlerGrace/2)
			return nil
		})
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, []string{"slow at 0s", "late at 10s", "slow at 20.5s", "quick at 20.5s"}, got)
		require.NotContains(t, log.String(), `"level":"ERROR"`)
		require.Contains(t, log.String(), "item failed")
		require.NoError(t, stop(a))
		require.Empty(t, w.Items(), "what a handler has done in time is acked")
	})
}

// An item that hangs every handler is a dead letter after MaxAttempts, although none of
// them has returned.
func TestItemThatHangsEachHandlerBecomesADeadLetter(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		options := limited()
		options.MaxAttempts, options.Workers = 3, 2
		finish := make(chan struct{})
		var hanging, most, handled atomic.Int64
		handler := func(_ context.Context, it *zkrecipes.Item) error {
			if string(it.Data) != "hangs" {
				handled.Add(1)
				return nil
			}
			most.Store(max(most.Load(), hanging.Add(1)))
			<-finish
			return nil
		}
		q := w.QueueWith(w.Stranger(nil), options)
		other := w.QueueWith(w.Stranger(nil), options)
		a, b := recipetest.ServeLater(t, q, handler), recipetest.ServeLater(t, other, handler)
		ids := recipetest.PutOn(t, q, "hangs")
		time.Sleep(time.Hour)
		require.EqualValues(t, 3, most.Load())
		letters := entries(t, q.DeadLetters())
		require.Len(t, letters, 1)
		require.Equal(t, ids[0], letters[0].ID)
		require.Equal(t, 3, letters[0].Failure.Attempts)
		require.Equal(t, "the handler has not returned after HandlerTimeout, 10s: context deadline exceeded", letters[0].Failure.Text)
		recipetest.PutOn(t, q, "good")
		synctest.Wait()
		require.EqualValues(t, 1, handled.Load(), "one worker is left")
		close(finish)
		require.NoError(t, stop(a))
		require.NoError(t, stop(b))
		require.Empty(t, w.Items())
	})
}

// Serve runs no more handlers than Workers. When none returns it takes nothing, and when its
// context ends it gives back what they had, and waits for them.
func TestServeTakesNothingWhileNoHandlerReturns(t *testing.T) {
	recipetest.EachInBubble(t, map[string]time.Duration{"without DrainTimeout": 0, "with DrainTimeout": time.Second}, func(t *testing.T, w *recipetest.World, drain time.Duration) {
		options := limited()
		options.Workers, options.DrainTimeout = 3, drain
		options.Backoff = func(int) time.Duration { return time.Hour }
		q := w.QueueWith(w.Stranger(nil), options)
		recipetest.PutOn(t, q, recipetest.Names(9)...)
		var began atomic.Int64
		finish := make(chan struct{})
		a := recipetest.ServeLater(t, q, func(context.Context, *zkrecipes.Item) error {
			began.Add(1)
			<-finish
			return nil
		})
		time.Sleep(time.Minute)
		require.EqualValues(t, 3, began.Load())
		require.Len(t, w.Flags(), 3)
		require.Empty(t, w.Srv.Children(w.Path+"/line"), "it does not wait for items")
		a.Cancel(nil)
		time.Sleep(time.Minute)
		require.True(t, a.Waiting(), "for its handlers")
		require.Empty(t, w.Flags(), "all were given back")
		close(finish)
		_, err := a.Wait()
		if drain == 0 {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, context.Canceled)
		}
		require.EqualValues(t, 3, began.Load())
		require.Equal(t, recipetest.Names(9), recipetest.Drain(t, q))
	})
}

// The item of a handler that has overrun its time is acked by the handler itself, while it stays
// claimed for the back-off, or is lost before. There is nothing to give back.
func TestOverrunOfAnItemThatIsOver(t *testing.T) {
	recipetest.EachInBubble(t, map[string]func(*testing.T, *zkrecipes.Queue, *zkrecipes.Item){
		"acked late": func(t *testing.T, _ *zkrecipes.Queue, it *zkrecipes.Item) {
			time.Sleep(12 * time.Second)
			recipetest.AckOn(t, it)
		},
		"acked early": func(t *testing.T, _ *zkrecipes.Queue, it *zkrecipes.Item) {
			recipetest.AckOn(t, it)
			time.Sleep(12 * time.Second)
		},
		"buried": func(t *testing.T, q *zkrecipes.Queue, it *zkrecipes.Item) {
			ctx := it.Context(t.Context())
			require.NoError(t, q.Bury(t.Context(), it.ID))
			<-ctx.Done()
			time.Sleep(12 * time.Second)
		},
	}, func(t *testing.T, w *recipetest.World, end func(*testing.T, *zkrecipes.Queue, *zkrecipes.Item)) {
		opts, log := recipetest.Logged()
		q := w.QueueWith(w.Stranger(opts), limited())
		recipetest.PutOn(t, q, "x")
		calls := 0
		a := recipetest.ServeLater(t, q, func(ctx context.Context, it *zkrecipes.Item) error {
			calls++
			end(t, w.Queue(w.Stranger(nil)), it)
			return context.Cause(ctx)
		})
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, 1, calls)
		require.Contains(t, log.String(), doesNotReturn)
		require.Contains(t, log.String(), returnedLate)
		require.NotContains(t, log.String(), "before it was given back")
		require.NoError(t, stop(a))
		require.Empty(t, w.Items())
	})
}

// An operator buries the item of a handler, which learns why its context has ended.
func TestHandlerWhoseItemIsBuriedIsToldSo(t *testing.T) {
	recipetest.EachInBubble(t, map[string]time.Duration{"with HandlerTimeout": time.Hour, "with the longest": math.MaxInt64, "without": 0}, func(t *testing.T, w *recipetest.World, limit time.Duration) {
		q := w.QueueWith(w.Stranger(nil), &zkrecipes.QueueOptions{HandlerTimeout: limit})
		ids := recipetest.PutOn(t, q, "hangs", "next")
		var causes []error
		a := recipetest.ServeLater(t, q, func(ctx context.Context, it *zkrecipes.Item) error {
			if string(it.Data) == "next" {
				return nil
			}
			<-ctx.Done()
			time.Sleep(time.Second)
			causes = append(causes, context.Cause(ctx))
			return errors.New("given up")
		})
		time.Sleep(time.Minute) // HandlerTimeout has not passed, however long it is
		require.NoError(t, w.Queue(w.Stranger(nil)).Bury(t.Context(), ids[0]))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, causes, 1)
		require.ErrorIs(t, causes[0], zkrecipes.ErrLost)
		require.ErrorIs(t, causes[0], zkrecipes.ErrItemGone)
		require.Empty(t, w.Items(), "the worker went on")
		require.NoError(t, stop(a))
		require.Equal(t, []string{"hangs"}, recipetest.Drain(t, q.DeadLetters()))
	})
}
