package queue_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/queue"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Serve, dead letters, and what handlers may do.

// When its context ends, Serve takes no more items and lets the handlers finish. Their
// contexts do not end, and Serve acts on what they return. Meanwhile it gives back what it keeps for
// a back-off.
func TestServeLetsHandlersFinishWhenItsContextEnds(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.QueueWith(w.Stranger(nil), hourly(3))
		recipetest.PutOn(t, q, "failed", "1", "2", "3", "left")
		finish := make(chan struct{})
		a := recipetest.ServeLater(t, q, func(ctx context.Context, it *zkrecipes.Item) error {
			if string(it.Data) == "failed" {
				return recipetest.ErrHandler
			}
			<-finish
			return ctx.Err()
		})
		synctest.Wait()
		require.Len(t, w.Flags(), 4)
		a.Cancel(nil)
		time.Sleep(time.Second)
		require.True(t, a.Waiting())
		it := recipetest.TakeOn(t, w.Queue(w.Stranger(nil)))
		require.Equal(t, "failed", string(it.Data))
		require.Equal(t, 2, it.Attempt)
		recipetest.AckOn(t, it)
		close(finish)
		require.NoError(t, stop(a))
		require.Equal(t, []string{"left"}, recipetest.Drain(t, q))
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

// The handler returns at once, and its ack is under way for longer than DrainTimeout. That ends no
// handler's context, so it is no error.
func TestServeReturnsNilIfOnlyAnAckOutlastsTheDrainTimeout(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.QueueWith(w.Stranger(nil), &zkrecipes.QueueOptions{DrainTimeout: time.Second})
		recipetest.PutOn(t, q, "x")
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpAck, For: 2 * time.Second})
		finish := make(chan struct{})
		a := recipetest.ServeLater(t, q, func(context.Context, *zkrecipes.Item) error {
			<-finish
			return nil
		})
		synctest.Wait()
		began := time.Now()
		a.Cancel(nil)
		close(finish)
		_, err := a.Wait()
		require.NoError(t, err)
		require.Equal(t, 2*time.Second, time.Since(began))
		require.Empty(t, w.Items())
	})
}

// An item whose handler fails stays claimed for the back-off, and is then delivered again, before
// those behind it. Meanwhile it does not hold them up, although there is one worker. After MaxAttempts
// it becomes a dead letter, as it was put: the exported fields are the handler's to change.
func TestItemWhoseHandlerFailsComesBackAndEndsAmongTheDeadLetters(t *testing.T) {
	recipetest.EachInBubble(t, map[string]func(it *zkrecipes.Item){
		"data": func(it *zkrecipes.Item) { it.Data[0] = 'B' },
		"fields": func(it *zkrecipes.Item) {
			it.ID, it.Data, it.Attempt, it.Failure = "mine", nil, 1<<30, zkrecipes.Failure{Queue: "/mine"}
		},
		"zero": func(it *zkrecipes.Item) { it.ID, it.Data, it.Attempt, it.Failure = "", nil, 0, zkrecipes.Failure{} },
		"all":  func(it *zkrecipes.Item) { *it = zkrecipes.Item{} },
	}, func(t *testing.T, w *recipetest.World, change func(it *zkrecipes.Item)) {
		var backoffs []int
		q := w.QueueWith(w.Stranger(nil), &zkrecipes.QueueOptions{MaxAttempts: 3, Backoff: func(attempt int) time.Duration {
			backoffs = append(backoffs, attempt)
			return time.Duration(attempt) * time.Minute
		}})
		ids := recipetest.PutOn(t, q, "bad", "good", "long", "last")
		var got []string
		began := time.Now()
		a := recipetest.ServeLater(t, q, func(_ context.Context, it *zkrecipes.Item) error {
			data := string(it.Data)
			got = append(got, fmt.Sprintf("%s %d at %v", data, it.Attempt, time.Since(began)))
			change(it)
			switch data {
			case "bad":
				return recipetest.ErrHandler
			case "long":
				time.Sleep(2 * time.Minute) // the back-off ends meanwhile
			}
			return nil
		})
		time.Sleep(30 * time.Second)
		require.Len(t, w.Flags(), 2, "the one that has failed is still claimed")
		time.Sleep(time.Minute)
		require.Len(t, w.Flags(), 1, "it is not, although the worker is at work")
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, []string{"bad 1 at 0s", "good 1 at 0s", "long 1 at 0s", "bad 2 at 2m0s", "last 1 at 2m0s", "bad 3 at 4m0s"}, got)
		require.Equal(t, []int{1, 2}, backoffs)
		require.NoError(t, stop(a))
		require.Empty(t, w.Items())
		letter := recipetest.TakeOn(t, q.DeadLetters())
		require.Equal(t, ids[0], letter.ID)
		require.Equal(t, "bad", string(letter.Data))
		require.Equal(t, 1, letter.Attempt)
		require.Equal(t, 3, letter.Failure.Attempts)
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
	recipetest.EachInBubble(t, ways, func(t *testing.T, w *recipetest.World, succeed func(context.Context, *zkrecipes.Item, *zkrecipes.Queue) error) {
		c := w.Stranger(nil)
		q := w.QueueWith(c, hourly(1))
		to := zkrecipes.NewQueue(c, "/next", nil)
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
	recipetest.EachInBubble(t, map[string]error{"evicted": zkrecipes.ErrEvicted, "closed": zkrecipes.ErrClosed}, func(t *testing.T, w *recipetest.World, want error) {
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

// A handler may ack the item itself, with operations of its own, or nack it.
func TestServeLeavesItemsAloneThatTheHandlerHasEnded(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(nil))
		a := serve(t, q, func(it *zkrecipes.Item) error {
			switch {
			case string(it.Data) == "0":
				return it.Ack(t.Context(), zkrecipes.OpCreate("/effect", nil, 0, nil))
			case string(it.Data) == "1" && it.Attempt == 1:
				return it.Nack(t.Context())
			case string(it.Data) == "1":
				_ = it.Ack(t.Context())
				return recipetest.ErrHandler
			}
			return nil
		})
		recipetest.PutOn(t, w.Queue(w.Stranger(nil)), "0", "1", "2")
		synctest.Wait()
		require.Equal(t, []string{"0", "1", "1", "2"}, a.got)
		require.NoError(t, stop(a.Call))
		require.Empty(t, w.Items())
		require.Contains(t, w.Srv.Children("/"), "effect")
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

func TestServeWaitsForAnAckNoLongerThanASessionTimeout(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(nil))
		recipetest.PutOn(t, q, "x")
		release := make(chan struct{})
		a := recipetest.ServeLater(t, q, func(context.Context, *zkrecipes.Item) error { <-release; return nil })
		time.Sleep(time.Second)
		a.Cancel(nil)
		time.Sleep(time.Hour)
		require.True(t, a.Waiting(), "for the handler")
		w.Plan.Add(zktest.Fault{Do: zktest.Answer, Code: -127, Times: -1})
		close(release)
		time.Sleep(recipetest.DefaultSessionTimeout - time.Second)
		require.True(t, a.Waiting(), "for the ack")
		time.Sleep(2 * time.Second)
		require.False(t, a.Waiting())
		w.Plan.Stop()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Empty(t, w.Items(), "it was acked in the background")
	})
}

// Serve's context ends during an outage, and a handler returns. The ack was not sent, or
// its reply never comes.
func TestServeEndsWithItsLeasesIfItsContextEndsDuringAnOutage(t *testing.T) {
	recipetest.EachInBubble(t, map[string]bool{"sent": true, "not sent": false}, func(t *testing.T, w *recipetest.World, sent bool) {
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
		require.Contains(t, log.String(), "serve_test.go", "the stack")
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
