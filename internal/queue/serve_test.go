package queue_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/queue"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Serve, dead letters, and what handlers may do.

// stop ends a Serve and returns its error.
func stop(a *harness.Call[struct{}]) error {
	a.Cancel(nil)
	_, err := a.Wait()
	return err
}

func TestServeHandsEachItemToOneHandlerInOrder(t *testing.T) {
	t.Parallel()
	r := recipetest.NewQueueRig(t, nil)
	var mu sync.Mutex
	var got []string
	a := recipetest.ServeLater(t, r.Q, func(ctx context.Context, it *zkrecipes.Item) error {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, string(it.Data))
		return ctx.Err()
	})
	recipetest.PutOn(t, r.Other(), recipetest.Names(250)...)
	harness.Eventually(t, "all handled", func() bool { mu.Lock(); defer mu.Unlock(); return len(got) == 250 })
	require.Equal(t, recipetest.Names(250), got)
	require.NoError(t, stop(a))
	recipetest.AtRest(t, r.Raw, r.Path)
}

// When its context ends, Serve takes no more items and lets the handlers finish. Their
// contexts do not end, and Serve acts on what they return.
func TestServeLetsHandlersFinishWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	r := recipetest.NewQueueRig(t, &zkrecipes.QueueOptions{Workers: 3})
	recipetest.PutOn(t, r.Q, "0", "1", "2", "3")
	began, finish := make(chan *zkrecipes.Item, 4), make(chan struct{})
	a := recipetest.ServeLater(t, r.Q, func(ctx context.Context, it *zkrecipes.Item) error {
		began <- it
		<-finish
		return ctx.Err()
	})
	for range 3 {
		require.NoError(t, (<-began).Err())
	}
	a.Cancel(nil)
	require.True(t, a.Waiting())
	close(finish)
	require.NoError(t, stop(a))
	require.Empty(t, began)
	require.Equal(t, []string{"3"}, recipetest.Drain(t, r.Q))
	recipetest.AtRest(t, r.Raw, r.Path)
}

// With a DrainTimeout, the handlers' contexts end at that time after Serve's. What they
// have finished by then is acked.
func TestServeEndsTheHandlersContextsAfterTheDrainTimeout(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := zkrecipes.NewQueue(w.Stranger(nil), w.Path, &zkrecipes.QueueOptions{Workers: 2, DrainTimeout: 10 * time.Second})
		recipetest.PutOn(t, q, "quick", "slow", "late")
		handler := func(slow time.Duration) func(context.Context, *zkrecipes.Item) error {
			return func(ctx context.Context, it *zkrecipes.Item) error {
				d := map[string]time.Duration{"quick": 9 * time.Second, "slow": slow, "late": 0}[string(it.Data)]
				select {
				case <-time.After(d):
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
		}
		var cause error
		slow := handler(time.Hour)
		a := recipetest.ServeLater(t, q, func(ctx context.Context, it *zkrecipes.Item) error {
			err := slow(ctx, it)
			if ctx.Err() != nil {
				cause = err
			}
			return err
		})
		synctest.Wait()
		began := time.Now()
		err := stop(a)
		require.ErrorIs(t, cause, context.DeadlineExceeded)
		require.ErrorContains(t, cause, "DrainTimeout: 10s have passed")
		require.Equal(t, 10*time.Second, time.Since(began))
		require.ErrorIs(t, err, context.Canceled)
		require.EqualError(t, err, "zkrecipes: serve "+w.Path+": a handler was at work 10s after the context had ended: context canceled")
		synctest.Wait()
		require.Empty(t, w.Flags(), "the slow one was given back at once")
		n, err := q.Len(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2, n, "the quick one was acked")

		a = recipetest.ServeLater(t, q, handler(time.Second))
		synctest.Wait()
		began = time.Now()
		require.NoError(t, stop(a))
		require.Equal(t, time.Second, time.Since(began), "no longer than its handlers")
		require.Empty(t, w.Items())
	})
}

// DrainTimeout counts from Shutdown, too.
func TestServeEndsTheHandlersContextsAfterTheDrainTimeoutOfAShutdown(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		q := zkrecipes.NewQueue(c, w.Path, &zkrecipes.QueueOptions{DrainTimeout: 10 * time.Second})
		recipetest.PutOn(t, q, "x")
		var cause error
		a := recipetest.ServeLater(t, q, func(ctx context.Context, _ *zkrecipes.Item) error {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return cause
		})
		synctest.Wait()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.NoError(t, c.Shutdown(ctx))
		require.Equal(t, 10*time.Second, time.Since(began))
		require.ErrorIs(t, stop(a), zkrecipes.ErrClosed)
		require.ErrorIs(t, cause, context.DeadlineExceeded)
	})
}

// An item whose handler fails stays claimed for the back-off, and is then delivered
// again. After MaxAttempts it becomes a dead letter.
func TestA21ItemWhoseHandlerFailsComesBackAndEndsAmongTheDeadLetters(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		var waited []int
		q := zkrecipes.NewQueue(w.Stranger(nil), w.Path, &zkrecipes.QueueOptions{MaxAttempts: 3, Backoff: func(attempt int) time.Duration {
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

		dead := zkrecipes.NewQueue(recipetest.ClientOf(recipetest.QueueOf(q).Client), w.Path+"-dead", &zkrecipes.QueueOptions{MaxAttempts: -1})
		it := recipetest.TakeOn(t, dead)
		require.Equal(t, ids[0], it.ID)
		require.Equal(t, "bad", string(it.Data), "the data as it was put")
		require.Equal(t, 1, it.Attempt)
		recipetest.AckOn(t, it)
	})
}

// One item that fails again and again does not hold up those behind it, although there
// is one worker. It is the first to be taken when its back-off is over.
func TestB81ItemsBehindOneThatFailsAreDelivered(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := zkrecipes.NewQueue(w.Stranger(nil), w.Path, &zkrecipes.QueueOptions{Backoff: func(int) time.Duration { return time.Minute }})
		recipetest.PutOn(t, q, "bad", "1", "2")
		var got []string
		a := recipetest.ServeLater(t, q, func(_ context.Context, it *zkrecipes.Item) error {
			got = append(got, string(it.Data))
			if string(it.Data) == "3" {
				time.Sleep(2 * time.Minute) // while the back-off ends, and more are put
			}
			if string(it.Data) == "bad" {
				return recipetest.ErrHandler
			}
			return nil
		})
		synctest.Wait()
		require.Equal(t, []string{"bad", "1", "2"}, got)
		require.Len(t, w.Flags(), 1, "still claimed")
		recipetest.PutOn(t, q, "3", "4")
		time.Sleep(150 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{"bad", "1", "2", "3", "bad", "4"}, got)
		require.NoError(t, stop(a))
	})
}

// Items that wait for their back-off are bounded in number: further ones keep the worker.
func TestB81WorkersWaitWhenTooManyItemsDo(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := zkrecipes.NewQueue(w.Stranger(nil), w.Path, &zkrecipes.QueueOptions{
			Workers: 2, Backoff: func(int) time.Duration { return time.Minute },
		})
		most := queue.ParkedPerWorker*2 + 2
		recipetest.PutOn(t, q, recipetest.Names(most+5)...)
		var calls atomic.Int64
		a := recipetest.ServeLater(t, q, func(context.Context, *zkrecipes.Item) error {
			calls.Add(1)
			return recipetest.ErrHandler
		})
		time.Sleep(time.Minute - time.Second)
		synctest.Wait()
		require.EqualValues(t, most, calls.Load())
		require.Len(t, w.Flags(), most)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Greater(t, calls.Load(), int64(most))
		require.NoError(t, stop(a))
		synctest.Wait()
		require.Empty(t, w.Flags(), "all were given back")
	})
}

// A worker's error is Serve's, although its context ends while the others finish. And a
// Client that is closed is no shutdown of Serve.
func TestServeReturnsWhatEndedItFirst(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, w *recipetest.World, q *zkrecipes.Queue) error{
		"evicted": func(t *testing.T, w *recipetest.World, q *zkrecipes.Queue) error {
			require.NoError(t, w.Bare().Delete(w.Path+"/line/"+w.Srv.Children(w.Path + "/line")[0], -1))
			time.Sleep(10 * time.Second) // it may be that the whole line was deleted
			return zkrecipes.ErrEvicted
		},
		"closed": func(t *testing.T, _ *recipetest.World, q *zkrecipes.Queue) error {
			require.NoError(t, recipetest.ClientOf(recipetest.QueueOf(q).Client).Close())
			return zkrecipes.ErrClosed
		},
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				q := zkrecipes.NewQueue(w.Stranger(nil), w.Path, &zkrecipes.QueueOptions{Workers: 2})
				recipetest.PutOn(t, q, "x")
				a := recipetest.ServeLater(t, q, func(context.Context, *zkrecipes.Item) error {
					time.Sleep(20 * time.Second)
					return nil
				})
				synctest.Wait()
				want := end(t, w, q)
				require.ErrorIs(t, stop(a), want)
			})
		})
	}
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

// An item whose handler kills its process each time becomes a dead letter. Here the
// process's session expires instead.
func TestA21HandlerThatAlwaysCrashesItsProcessDoesNotBlockTheHead(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		put := zkrecipes.NewQueue(w.Stranger(nil), w.Path, nil)
		ids := recipetest.PutOn(t, put, "poison", "next")
		opts := &zkrecipes.QueueOptions{MaxAttempts: 3, DeadLetter: "/dead/letters"}
		for attempt := range 3 {
			c := w.Stranger(nil)
			it := recipetest.TakeOn(t, zkrecipes.NewQueue(c, w.Path, opts))
			require.Equal(t, ids[0], it.ID)
			require.Equal(t, attempt+1, it.Attempt)
			require.True(t, w.Srv.Expire(recipetest.SessionID(c)))
		}
		q := zkrecipes.NewQueue(w.Stranger(nil), w.Path, opts)
		it := recipetest.TakeOn(t, q)
		require.Equal(t, ids[1], it.ID)
		dead, err := zkrecipes.NewQueue(recipetest.ClientOf(recipetest.QueueOf(q).Client), "/dead/letters", nil).Peek(t.Context())
		require.NoError(t, err)
		require.Equal(t, ids[0], dead.ID)
		require.Equal(t, "poison", string(dead.Data))
		recipetest.AckOn(t, it)
		require.Empty(t, w.Items())
	})
}

// Sixteen is the default number of attempts. Without a limit no item becomes a dead
// letter.
func TestItemsBecomeDeadLettersAfterSixteenAttemptsByDefault(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		q := w.Queue(w.Stranger(nil))
		without := zkrecipes.NewQueue(recipetest.ClientOf(recipetest.QueueOf(q).Client), w.Path, &zkrecipes.QueueOptions{MaxAttempts: -1})
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
		n, err := zkrecipes.NewQueue(recipetest.ClientOf(recipetest.QueueOf(q).Client), w.Path+"-dead", nil).Len(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, n)
	})
}

// The move to the dead letters loses its reply, or finds that the segment there is
// sealed.
func TestB44MoveToTheDeadLettersWhoseReplyIsLostIsDoneOnce(t *testing.T) {
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after=%v", after), func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				q := zkrecipes.NewQueue(w.Stranger(nil), w.Path, &zkrecipes.QueueOptions{MaxAttempts: 1})
				dead := zkrecipes.NewQueue(recipetest.ClientOf(recipetest.QueueOf(q).Client), w.Path+"-dead", nil)
				recipetest.QueueOf(q).SegmentSize = 2
				want := recipetest.Names(9)
				recipetest.PutOn(t, q, want...)
				w.Plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: "multi", Path: w.Path + "-dead/*", Skip: 2, Times: 3})
				for range want { // each Take moves the item before
					recipetest.NackOn(t, recipetest.TakeOn(t, q))
				}
				a := w.TakeLater(q)
				require.True(t, a.Waiting())
				require.Equal(t, map[string]int{map[bool]string{false: "drop before", true: "drop after"}[after]: 3}, w.Plan.Fired())
				require.Equal(t, want, recipetest.Drain(t, dead))
				require.Greater(t, slices.Max(w.Srv.Children(w.Path+"-dead/s")), "0000000002", "segments")
			})
		})
	}
}

// If the dead letters cannot be written, Take returns an error that says so, and gives
// the item back.
func TestB36DeadLettersThatCannotBeWrittenAreAnError(t *testing.T) {
	r := recipetest.NewQueueRig(t, &zkrecipes.QueueOptions{MaxAttempts: 1})
	_, err := r.Raw.Create(zkconn.Parent(r.Path), nil, 0, zk.WorldACL(zk.PermAll))
	if err != nil {
		harness.MakeParents(t, r.Raw, zkconn.Parent(r.Path))
	}
	_, err = r.Raw.Create(r.Path+"-dead", nil, 0, zk.WorldACL(zk.PermRead))
	require.NoError(t, err)
	ids := recipetest.PutOn(t, r.Q, "x")
	recipetest.NackOn(t, recipetest.TakeOn(t, r.Q))
	_, err = r.Q.Take(r.Ctx)
	require.ErrorIs(t, err, zk.ErrNoAuth)
	require.EqualError(t, err, fmt.Sprintf("zkrecipes: take from %s: move item %s to the dead letters, %s-dead: zk: not authenticated", r.Path, ids[0], r.Path))
	harness.Eventually(t, "given back", func() bool { _, err := r.Q.Peek(r.Ctx); return err == nil })
}

// A handler may fail by a panic, by runtime.Goexit, or by an error.
func TestB41HandlerThatPanicsOrEndsItsGoroutineHasFailed(t *testing.T) {
	t.Parallel()
	r := recipetest.NewQueueRig(t, &zkrecipes.QueueOptions{Workers: 2, Backoff: func(int) time.Duration { return 0 }})
	var calls atomic.Int64
	recipetest.PutOn(t, r.Q, "x")
	done := make(chan struct{})
	a := recipetest.ServeLater(t, r.Q, func(_ context.Context, it *zkrecipes.Item) error {
		switch calls.Add(1) {
		case 1:
			panic("in a handler")
		case 2:
			runtime.Goexit()
		case 3:
			return recipetest.ErrHandler
		}
		require.Equal(t, 4, it.Attempt)
		close(done)
		return nil
	})
	<-done
	require.NoError(t, stop(a))
	require.Empty(t, recipetest.Drain(t, r.Q))
}

func TestB57HandlersMayCallTheLibraryIncludingClose(t *testing.T) {
	t.Parallel()
	r := recipetest.NewQueueRig(t, nil)
	recipetest.PutOn(t, r.Q, "x")
	closed := make(chan error, 1)
	a := recipetest.ServeLater(t, r.Q, func(ctx context.Context, it *zkrecipes.Item) error {
		if _, err := r.Q.Put(ctx, []byte("y")); err != nil {
			return err
		}
		context.AfterFunc(ctx, func() { r.C.Close() })
		closed <- r.C.Close()
		return it.Err()
	})
	require.NoError(t, <-closed)
	_, err := a.Wait()
	require.ErrorIs(t, err, zkrecipes.ErrClosed)
	require.EqualError(t, err, "zkrecipes: serve "+r.Path+": client closed")
	require.Equal(t, []string{"x", "y"}, recipetest.Drain(t, r.Other()))
}

// A handler may ack the item itself, with operations of its own, or nack it.
func TestServeLeavesItemsAloneThatTheHandlerAckedOrNacked(t *testing.T) {
	t.Parallel()
	r := recipetest.NewQueueRig(t, nil)
	recipetest.PutOn(t, r.Q, "0", "1", "2")
	var mu sync.Mutex
	var got []string
	a := recipetest.ServeLater(t, r.Q, func(ctx context.Context, it *zkrecipes.Item) error {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, fmt.Sprintf("%s %d", it.Data, it.Attempt))
		switch {
		case string(it.Data) == "0":
			return it.Ack(ctx, zkrecipes.OpCreate(r.Path+"-effect", nil, 0, nil))
		case string(it.Data) == "1" && it.Attempt == 1:
			return it.Nack(ctx)
		case string(it.Data) == "1":
			_ = it.Ack(ctx)
			return recipetest.ErrHandler
		}
		return nil
	})
	harness.Eventually(t, "all", func() bool { mu.Lock(); defer mu.Unlock(); return len(got) == 4 })
	require.Equal(t, []string{"0 1", "1 1", "1 2", "2 1"}, got)
	require.NoError(t, stop(a))
	require.Empty(t, recipetest.Drain(t, r.Q))
	exists, _, err := r.Raw.Exists(r.Path + "-effect")
	require.NoError(t, err)
	require.True(t, exists)
}

// Serve's ack also joins the line for the next item. If its reply is lost, the place is
// found.
func TestB44AckOfServeWhoseReplyIsLostIsDoneOnceAndLeavesNoPlaceBehind(t *testing.T) {
	for _, after := range []bool{false, true} {
		for _, others := range []bool{false, true} {
			t.Run(fmt.Sprintf("after=%v others=%v", after, others), func(t *testing.T) {
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					q := w.Queue(w.Stranger(nil))
					recipetest.PutOn(t, q, recipetest.Names(6)...)
					w.Plan.Add(
						zktest.Fault{Do: zktest.Drop, After: after, Op: recipetest.OpAckJoin, Skip: 1, Times: 2},
						zktest.Fault{Do: zktest.Answer, Code: -7, After: after, Op: recipetest.OpAckJoin, Skip: 3, Times: 1})
					var got []string
					var other *harness.Call[*zkrecipes.Item]
					a := recipetest.ServeLater(t, q, func(_ context.Context, it *zkrecipes.Item) error {
						got = append(got, string(it.Data))
						if others && len(got) == 2 {
							other = recipetest.TakeLater(t, w.Queue(w.Stranger(nil)))
							synctest.Wait()
							recipetest.AckOn(t, other.Get())
						}
						return nil
					})
					time.Sleep(time.Minute)
					synctest.Wait()
					want := recipetest.Names(6)
					if others {
						want = slices.Delete(want, 2, 3)
					}
					require.Equal(t, want, got)
					require.Len(t, w.Srv.Children(w.Path+"/line"), 1, "one worker waits")
					require.NoError(t, stop(a))
					synctest.Wait()
					require.Empty(t, w.Srv.Children(w.Path+"/line"))
					require.Len(t, w.Plan.Fired(), 2)
				})
			})
		}
	}
}

// An error that ends one worker ends Serve, once all handlers have returned. Lost
// connections and expired sessions do not.
func TestServeSurvivesExpiryAndEndsWhenEvicted(t *testing.T) {
	t.Parallel()
	r := recipetest.NewQueueRig(t, &zkrecipes.QueueOptions{Workers: 3})
	a := recipetest.ServeLater(t, r.Q, func(context.Context, *zkrecipes.Item) error { return nil })
	recipetest.LineUp(t, r.Raw, r.Path+"/line", 1, r.C)
	r.P.Expire()
	recipetest.LineUp(t, r.Raw, r.Path+"/line", 1, r.C)
	r.P.Drop()
	recipetest.PutOn(t, r.Other(), recipetest.Names(10)...)
	harness.Eventually(t, "all handled", func() bool { n, err := r.Q.Len(r.Ctx); return err == nil && n == 0 })
	recipetest.LineUp(t, r.Raw, r.Path+"/line", 1, r.C)
	require.True(t, a.Waiting())
	require.NoError(t, r.Raw.Delete(r.Path+"/line/"+harness.Children(t, r.Raw, r.Path+"/line")[0], -1))
	_, err := a.Wait()
	require.ErrorIs(t, err, zkrecipes.ErrEvicted)
	require.NotErrorIs(t, err, context.Canceled)
	harness.Eventually(t, "no place left", func() bool { return len(harness.Children(t, r.Raw, r.Path+"/line")) == 0 })
}

// If the session expires while a handler works, the handler's context ends and the
// item is delivered again.
func TestB09ExpiryWhileAHandlerWorksEndsItsContext(t *testing.T) {
	t.Parallel()
	r := recipetest.NewQueueRig(t, nil)
	recipetest.PutOn(t, r.Q, "x")
	began := make(chan struct{}, 2)
	var attempts []int
	a := recipetest.ServeLater(t, r.Q, func(ctx context.Context, it *zkrecipes.Item) error {
		attempts = append(attempts, it.Attempt)
		began <- struct{}{}
		if it.Attempt == 1 {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		return nil
	})
	<-began
	r.P.Expire()
	<-began
	harness.Eventually(t, "acked", func() bool { n, err := r.Q.Len(r.Ctx); return err == nil && n == 0 })
	require.NoError(t, stop(a))
	require.Equal(t, []int{1, 2}, attempts)
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

func TestB40ServeWithoutAFunctionIsAnError(t *testing.T) {
	r := recipetest.NewQueueRig(t, nil)
	require.EqualError(t, r.Q.Serve(r.Ctx, nil), "zkrecipes: serve "+r.Path+": nil function")
	require.NoError(t, r.C.Close())
	require.ErrorIs(t, r.Q.Serve(r.Ctx, func(context.Context, *zkrecipes.Item) error { return nil }), zkrecipes.ErrClosed)
}

// The exported fields are the handler's to change.
func TestHandlerThatChangesItsItemLosesNothing(t *testing.T) {
	for name, change := range map[string]func(it *zkrecipes.Item){
		"fields": func(it *zkrecipes.Item) {
			it.ID, it.Data, it.Attempt, it.Failure = "mine", nil, 1<<30, zkrecipes.Failure{Queue: "/mine"}
		},
		"zero": func(it *zkrecipes.Item) { it.ID, it.Data, it.Attempt, it.Failure = "", nil, 0, zkrecipes.Failure{} },
		"all":  func(it *zkrecipes.Item) { *it = zkrecipes.Item{} },
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				var backoffs []int
				q := zkrecipes.NewQueue(w.Stranger(nil), w.Path, &zkrecipes.QueueOptions{MaxAttempts: 3, Backoff: func(attempt int) time.Duration {
					backoffs = append(backoffs, attempt)
					return time.Second
				}})
				ids := recipetest.PutOn(t, q, "x", "y")
				calls := 0
				a := recipetest.ServeLater(t, q, func(_ context.Context, it *zkrecipes.Item) error {
					bad := string(it.Data) == "x"
					change(it)
					if bad {
						calls++
						return recipetest.ErrHandler
					}
					return nil
				})
				time.Sleep(time.Hour)
				synctest.Wait()
				require.NoError(t, stop(a))
				require.Equal(t, 3, calls)
				require.Equal(t, []int{1, 2}, backoffs)
				require.Empty(t, w.Items(), "y was acked")
				letter := recipetest.TakeOn(t, q.DeadLetters())
				require.Equal(t, ids[0], letter.ID)
				require.Equal(t, "x", string(letter.Data))
				require.Equal(t, 3, letter.Failure.Attempts)
				recipetest.AckOn(t, letter)
			})
		})
	}
}
