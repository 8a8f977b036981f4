package zkrecipes

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

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/queue"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Serve, dead letters, and what handlers may do.

// serveLater calls Serve in the background.
func serveLater(t testing.TB, q *Queue, handler func(context.Context, *Item) error) *harness.Call[struct{}] {
	return harness.GoErr(t, func(ctx context.Context) error { return q.Serve(ctx, handler) })
}

// stop ends a Serve and returns its error.
func stop(a *harness.Call[struct{}]) error {
	a.Cancel(nil)
	_, err := a.Wait()
	return err
}

func TestServeHandsEachItemToOneHandlerInOrder(t *testing.T) {
	t.Parallel()
	r := newQueueRig(t, nil)
	var mu sync.Mutex
	var got []string
	a := serveLater(t, r.q, func(ctx context.Context, it *Item) error {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, string(it.Data))
		return ctx.Err()
	})
	putOn(t, r.other(), names(250)...)
	harness.Eventually(t, "all handled", func() bool { mu.Lock(); defer mu.Unlock(); return len(got) == 250 })
	require.Equal(t, names(250), got)
	require.NoError(t, stop(a))
	atRest(t, r.raw, r.path)
}

// When its context ends, Serve takes no more items and lets the handlers finish. Their
// contexts do not end, and Serve acts on what they return.
func TestServeLetsHandlersFinishWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	r := newQueueRig(t, &QueueOptions{Workers: 3})
	putOn(t, r.q, "0", "1", "2", "3")
	began, finish := make(chan *Item, 4), make(chan struct{})
	a := serveLater(t, r.q, func(ctx context.Context, it *Item) error {
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
	require.Equal(t, []string{"3"}, drain(t, r.q))
	atRest(t, r.raw, r.path)
}

// With a DrainTimeout, the handlers' contexts end at that time after Serve's. What they
// have finished by then is acked.
func TestServeEndsTheHandlersContextsAfterTheDrainTimeout(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := NewQueue(w.stranger(nil), w.path, &QueueOptions{Workers: 2, DrainTimeout: 10 * time.Second})
		putOn(t, q, "quick", "slow", "late")
		handler := func(slow time.Duration) func(context.Context, *Item) error {
			return func(ctx context.Context, it *Item) error {
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
		a := serveLater(t, q, func(ctx context.Context, it *Item) error {
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
		require.EqualError(t, err, "zkrecipes: serve "+w.path+": a handler was at work 10s after the context had ended: context canceled")
		synctest.Wait()
		require.Empty(t, w.flags(), "the slow one was given back at once")
		n, err := q.Len(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2, n, "the quick one was acked")

		a = serveLater(t, q, handler(time.Second))
		synctest.Wait()
		began = time.Now()
		require.NoError(t, stop(a))
		require.Equal(t, time.Second, time.Since(began), "no longer than its handlers")
		require.Empty(t, w.items())
	})
}

// DrainTimeout counts from Shutdown, too.
func TestServeEndsTheHandlersContextsAfterTheDrainTimeoutOfAShutdown(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		q := NewQueue(c, w.path, &QueueOptions{DrainTimeout: 10 * time.Second})
		putOn(t, q, "x")
		var cause error
		a := serveLater(t, q, func(ctx context.Context, _ *Item) error {
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
		require.ErrorIs(t, stop(a), ErrClosed)
		require.ErrorIs(t, cause, context.DeadlineExceeded)
	})
}

// An item whose handler fails stays claimed for the back-off, and is then delivered
// again. After MaxAttempts it becomes a dead letter.
func TestA21ItemWhoseHandlerFailsComesBackAndEndsAmongTheDeadLetters(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var waited []int
		q := NewQueue(w.stranger(nil), w.path, &QueueOptions{MaxAttempts: 3, Backoff: func(attempt int) time.Duration {
			waited = append(waited, attempt)
			return time.Duration(attempt) * time.Minute
		}})
		ids := putOn(t, q, "bad", "good")
		var got []string
		began := time.Now()
		a := serveLater(t, q, func(_ context.Context, it *Item) error {
			got = append(got, fmt.Sprintf("%s %d at %v", it.Data, it.Attempt, time.Since(began)))
			if it.Attempt == 2 && string(it.Data) == "bad" {
				panic("a panic is a failure, too")
			}
			if string(it.Data) == "bad" {
				it.Data[0] = 'B' // a handler may change Data
				return errHandler
			}
			return nil
		})
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, []string{"bad 1 at 0s", "good 1 at 0s", "bad 2 at 1m0s", "bad 3 at 3m0s"}, got)
		require.Equal(t, []int{1, 2}, waited)
		require.NoError(t, stop(a))
		require.Empty(t, w.items())

		dead := NewQueue(clientOf(q.itemQueue.Client), w.path+"-dead", &QueueOptions{MaxAttempts: -1})
		it := takeOn(t, dead)
		require.Equal(t, ids[0], it.ID)
		require.Equal(t, "bad", string(it.Data), "the data as it was put")
		require.Equal(t, 1, it.Attempt)
		ackOn(t, it)
	})
}

// One item that fails again and again does not hold up those behind it, although there
// is one worker. It is the first to be taken when its back-off is over.
func TestB81ItemsBehindOneThatFailsAreDelivered(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := NewQueue(w.stranger(nil), w.path, &QueueOptions{Backoff: func(int) time.Duration { return time.Minute }})
		putOn(t, q, "bad", "1", "2")
		var got []string
		a := serveLater(t, q, func(_ context.Context, it *Item) error {
			got = append(got, string(it.Data))
			if string(it.Data) == "3" {
				time.Sleep(2 * time.Minute) // while the back-off ends, and more are put
			}
			if string(it.Data) == "bad" {
				return errHandler
			}
			return nil
		})
		synctest.Wait()
		require.Equal(t, []string{"bad", "1", "2"}, got)
		require.Len(t, w.flags(), 1, "still claimed")
		putOn(t, q, "3", "4")
		time.Sleep(150 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{"bad", "1", "2", "3", "bad", "4"}, got)
		require.NoError(t, stop(a))
	})
}

// Items that wait for their back-off are bounded in number: further ones keep the worker.
func TestB81WorkersWaitWhenTooManyItemsDo(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := NewQueue(w.stranger(nil), w.path, &QueueOptions{
			Workers: 2, Backoff: func(int) time.Duration { return time.Minute },
		})
		most := queue.ParkedPerWorker*2 + 2
		putOn(t, q, names(most+5)...)
		var calls atomic.Int64
		a := serveLater(t, q, func(context.Context, *Item) error {
			calls.Add(1)
			return errHandler
		})
		time.Sleep(time.Minute - time.Second)
		synctest.Wait()
		require.EqualValues(t, most, calls.Load())
		require.Len(t, w.flags(), most)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Greater(t, calls.Load(), int64(most))
		require.NoError(t, stop(a))
		synctest.Wait()
		require.Empty(t, w.flags(), "all were given back")
	})
}

// A worker's error is Serve's, although its context ends while the others finish. And a
// Client that is closed is no shutdown of Serve.
func TestServeReturnsWhatEndedItFirst(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, w *world, q *Queue) error{
		"evicted": func(t *testing.T, w *world, q *Queue) error {
			require.NoError(t, w.bare().Delete(w.path+"/line/"+w.srv.Children(w.path + "/line")[0], -1))
			time.Sleep(10 * time.Second) // it may be that the whole line was deleted
			return ErrEvicted
		},
		"closed": func(t *testing.T, _ *world, q *Queue) error {
			require.NoError(t, clientOf(q.itemQueue.Client).Close())
			return ErrClosed
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				q := NewQueue(w.stranger(nil), w.path, &QueueOptions{Workers: 2})
				putOn(t, q, "x")
				a := serveLater(t, q, func(context.Context, *Item) error {
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
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		q := NewQueue(c, w.path, &QueueOptions{Backoff: func(int) time.Duration { return time.Hour }})
		putOn(t, q, "x")
		failing := func(context.Context, *Item) error { return errHandler }
		began := time.Now()
		a := serveLater(t, q, failing)
		time.Sleep(time.Minute)
		require.Len(t, w.flags(), 1, "still claimed")
		require.NoError(t, stop(a))
		synctest.Wait()
		require.Empty(t, w.flags())

		a = serveLater(t, q, failing)
		time.Sleep(time.Minute)
		require.True(t, w.srv.Expire(sessionID(c)))
		time.Sleep(time.Minute)
		e, err := q.Peek(t.Context())
		require.ErrorIs(t, err, ErrEmpty, "%v: taken again", e)
		require.True(t, a.Waiting())
		require.NoError(t, stop(a))
		require.Less(t, time.Since(began), time.Hour)
		it := takeOn(t, q)
		require.Equal(t, 4, it.Attempt)
		ackOn(t, it)
	})
}

// An item whose handler kills its process each time becomes a dead letter. Here the
// process's session expires instead.
func TestA21HandlerThatAlwaysCrashesItsProcessDoesNotBlockTheHead(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		put := NewQueue(w.stranger(nil), w.path, nil)
		ids := putOn(t, put, "poison", "next")
		opts := &QueueOptions{MaxAttempts: 3, DeadLetter: "/dead/letters"}
		for attempt := range 3 {
			c := w.stranger(nil)
			it := takeOn(t, NewQueue(c, w.path, opts))
			require.Equal(t, ids[0], it.ID)
			require.Equal(t, attempt+1, it.Attempt)
			require.True(t, w.srv.Expire(sessionID(c)))
		}
		q := NewQueue(w.stranger(nil), w.path, opts)
		it := takeOn(t, q)
		require.Equal(t, ids[1], it.ID)
		dead, err := NewQueue(clientOf(q.itemQueue.Client), "/dead/letters", nil).Peek(t.Context())
		require.NoError(t, err)
		require.Equal(t, ids[0], dead.ID)
		require.Equal(t, "poison", string(dead.Data))
		ackOn(t, it)
		require.Empty(t, w.items())
	})
}

// Sixteen is the default number of attempts. Without a limit no item becomes a dead
// letter.
func TestItemsBecomeDeadLettersAfterSixteenAttemptsByDefault(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue(w.stranger(nil))
		without := NewQueue(clientOf(q.itemQueue.Client), w.path, &QueueOptions{MaxAttempts: -1})
		putOn(t, q, "x")
		for range 16 {
			nackOn(t, takeOn(t, q))
		}
		for range 10 {
			nackOn(t, takeOn(t, without))
		}
		a := w.takeLater(q)
		require.True(t, a.Waiting())
		require.Empty(t, w.items())
		n, err := NewQueue(clientOf(q.itemQueue.Client), w.path+"-dead", nil).Len(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, n)
	})
}

// The move to the dead letters loses its reply, or finds that the segment there is
// sealed.
func TestB44MoveToTheDeadLettersWhoseReplyIsLostIsDoneOnce(t *testing.T) {
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after=%v", after), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				q := NewQueue(w.stranger(nil), w.path, &QueueOptions{MaxAttempts: 1})
				dead := NewQueue(clientOf(q.itemQueue.Client), w.path+"-dead", nil)
				q.itemQueue.SegmentSize = 2
				want := names(9)
				putOn(t, q, want...)
				w.plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: "multi", Path: w.path + "-dead/*", Skip: 2, Times: 3})
				for range want { // each Take moves the item before
					nackOn(t, takeOn(t, q))
				}
				a := w.takeLater(q)
				require.True(t, a.Waiting())
				require.Equal(t, map[string]int{map[bool]string{false: "drop before", true: "drop after"}[after]: 3}, w.plan.Fired())
				require.Equal(t, want, drain(t, dead))
				require.Greater(t, slices.Max(w.srv.Children(w.path+"-dead/s")), "0000000002", "segments")
			})
		})
	}
}

// If the dead letters cannot be written, Take returns an error that says so, and gives
// the item back.
func TestB36DeadLettersThatCannotBeWrittenAreAnError(t *testing.T) {
	r := newQueueRig(t, &QueueOptions{MaxAttempts: 1})
	_, err := r.raw.Create(zkconn.Parent(r.path), nil, 0, zk.WorldACL(zk.PermAll))
	if err != nil {
		harness.MakeParents(t, r.raw, zkconn.Parent(r.path))
	}
	_, err = r.raw.Create(r.path+"-dead", nil, 0, zk.WorldACL(zk.PermRead))
	require.NoError(t, err)
	ids := putOn(t, r.q, "x")
	nackOn(t, takeOn(t, r.q))
	_, err = r.q.Take(r.ctx)
	require.ErrorIs(t, err, zk.ErrNoAuth)
	require.EqualError(t, err, fmt.Sprintf("zkrecipes: take from %s: move item %s to the dead letters, %s-dead: zk: not authenticated", r.path, ids[0], r.path))
	harness.Eventually(t, "given back", func() bool { _, err := r.q.Peek(r.ctx); return err == nil })
}

// A handler may fail by a panic, by runtime.Goexit, or by an error.
func TestB41HandlerThatPanicsOrEndsItsGoroutineHasFailed(t *testing.T) {
	t.Parallel()
	r := newQueueRig(t, &QueueOptions{Workers: 2, Backoff: func(int) time.Duration { return 0 }})
	var calls atomic.Int64
	putOn(t, r.q, "x")
	done := make(chan struct{})
	a := serveLater(t, r.q, func(_ context.Context, it *Item) error {
		switch calls.Add(1) {
		case 1:
			panic("in a handler")
		case 2:
			runtime.Goexit()
		case 3:
			return errHandler
		}
		require.Equal(t, 4, it.Attempt)
		close(done)
		return nil
	})
	<-done
	require.NoError(t, stop(a))
	require.Empty(t, drain(t, r.q))
}

func TestB57HandlersMayCallTheLibraryIncludingClose(t *testing.T) {
	t.Parallel()
	r := newQueueRig(t, nil)
	putOn(t, r.q, "x")
	closed := make(chan error, 1)
	a := serveLater(t, r.q, func(ctx context.Context, it *Item) error {
		if _, err := r.q.Put(ctx, []byte("y")); err != nil {
			return err
		}
		context.AfterFunc(ctx, func() { r.c.Close() })
		closed <- r.c.Close()
		return it.Err()
	})
	require.NoError(t, <-closed)
	_, err := a.Wait()
	require.ErrorIs(t, err, ErrClosed)
	require.EqualError(t, err, "zkrecipes: serve "+r.path+": client closed")
	require.Equal(t, []string{"x", "y"}, drain(t, r.other()))
}

// A handler may ack the item itself, with operations of its own, or nack it.
func TestServeLeavesItemsAloneThatTheHandlerAckedOrNacked(t *testing.T) {
	t.Parallel()
	r := newQueueRig(t, nil)
	putOn(t, r.q, "0", "1", "2")
	var mu sync.Mutex
	var got []string
	a := serveLater(t, r.q, func(ctx context.Context, it *Item) error {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, fmt.Sprintf("%s %d", it.Data, it.Attempt))
		switch {
		case string(it.Data) == "0":
			return it.Ack(ctx, OpCreate(r.path+"-effect", nil, 0, nil))
		case string(it.Data) == "1" && it.Attempt == 1:
			return it.Nack(ctx)
		case string(it.Data) == "1":
			_ = it.Ack(ctx)
			return errHandler
		}
		return nil
	})
	harness.Eventually(t, "all", func() bool { mu.Lock(); defer mu.Unlock(); return len(got) == 4 })
	require.Equal(t, []string{"0 1", "1 1", "1 2", "2 1"}, got)
	require.NoError(t, stop(a))
	require.Empty(t, drain(t, r.q))
	exists, _, err := r.raw.Exists(r.path + "-effect")
	require.NoError(t, err)
	require.True(t, exists)
}

// Serve's ack also joins the line for the next item. If its reply is lost, the place is
// found.
func TestB44AckOfServeWhoseReplyIsLostIsDoneOnceAndLeavesNoPlaceBehind(t *testing.T) {
	for _, after := range []bool{false, true} {
		for _, others := range []bool{false, true} {
			t.Run(fmt.Sprintf("after=%v others=%v", after, others), func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					q := w.queue(w.stranger(nil))
					putOn(t, q, names(6)...)
					w.plan.Add(
						zktest.Fault{Do: zktest.Drop, After: after, Op: opAckJoin, Skip: 1, Times: 2},
						zktest.Fault{Do: zktest.Answer, Code: -7, After: after, Op: opAckJoin, Skip: 3, Times: 1})
					var got []string
					var other *harness.Call[*Item]
					a := serveLater(t, q, func(_ context.Context, it *Item) error {
						got = append(got, string(it.Data))
						if others && len(got) == 2 {
							other = takeLater(t, w.queue(w.stranger(nil)))
							synctest.Wait()
							ackOn(t, other.Get())
						}
						return nil
					})
					time.Sleep(time.Minute)
					synctest.Wait()
					want := names(6)
					if others {
						want = slices.Delete(want, 2, 3)
					}
					require.Equal(t, want, got)
					require.Len(t, w.srv.Children(w.path+"/line"), 1, "one worker waits")
					require.NoError(t, stop(a))
					synctest.Wait()
					require.Empty(t, w.srv.Children(w.path+"/line"))
					require.Len(t, w.plan.Fired(), 2)
				})
			})
		}
	}
}

// An error that ends one worker ends Serve, once all handlers have returned. Lost
// connections and expired sessions do not.
func TestServeSurvivesExpiryAndEndsWhenEvicted(t *testing.T) {
	t.Parallel()
	r := newQueueRig(t, &QueueOptions{Workers: 3})
	a := serveLater(t, r.q, func(context.Context, *Item) error { return nil })
	lineUp(t, r.raw, r.path+"/line", 1, r.c)
	r.p.Expire()
	lineUp(t, r.raw, r.path+"/line", 1, r.c)
	r.p.Drop()
	putOn(t, r.other(), names(10)...)
	harness.Eventually(t, "all handled", func() bool { n, err := r.q.Len(r.ctx); return err == nil && n == 0 })
	lineUp(t, r.raw, r.path+"/line", 1, r.c)
	require.True(t, a.Waiting())
	require.NoError(t, r.raw.Delete(r.path+"/line/"+harness.Children(t, r.raw, r.path+"/line")[0], -1))
	_, err := a.Wait()
	require.ErrorIs(t, err, ErrEvicted)
	require.NotErrorIs(t, err, context.Canceled)
	harness.Eventually(t, "no place left", func() bool { return len(harness.Children(t, r.raw, r.path+"/line")) == 0 })
}

// If the session expires while a handler works, the handler's context ends and the
// item is delivered again.
func TestB09ExpiryWhileAHandlerWorksEndsItsContext(t *testing.T) {
	t.Parallel()
	r := newQueueRig(t, nil)
	putOn(t, r.q, "x")
	began := make(chan struct{}, 2)
	var attempts []int
	a := serveLater(t, r.q, func(ctx context.Context, it *Item) error {
		attempts = append(attempts, it.Attempt)
		began <- struct{}{}
		if it.Attempt == 1 {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		return nil
	})
	<-began
	r.p.Expire()
	<-began
	harness.Eventually(t, "acked", func() bool { n, err := r.q.Len(r.ctx); return err == nil && n == 0 })
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
	r := newQueueRig(t, nil)
	require.EqualError(t, r.q.Serve(r.ctx, nil), "zkrecipes: serve "+r.path+": nil function")
	require.NoError(t, r.c.Close())
	require.ErrorIs(t, r.q.Serve(r.ctx, func(context.Context, *Item) error { return nil }), ErrClosed)
}

// The exported fields are the handler's to change.
func TestHandlerThatChangesItsItemLosesNothing(t *testing.T) {
	for name, change := range map[string]func(it *Item){
		"fields": func(it *Item) { it.ID, it.Data, it.Attempt, it.Failure = "mine", nil, 1<<30, Failure{Queue: "/mine"} },
		"zero":   func(it *Item) { it.ID, it.Data, it.Attempt, it.Failure = "", nil, 0, Failure{} },
		"all":    func(it *Item) { *it = Item{} },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				var backoffs []int
				q := NewQueue(w.stranger(nil), w.path, &QueueOptions{MaxAttempts: 3, Backoff: func(attempt int) time.Duration {
					backoffs = append(backoffs, attempt)
					return time.Second
				}})
				ids := putOn(t, q, "x", "y")
				calls := 0
				a := serveLater(t, q, func(_ context.Context, it *Item) error {
					bad := string(it.Data) == "x"
					change(it)
					if bad {
						calls++
						return errHandler
					}
					return nil
				})
				time.Sleep(time.Hour)
				synctest.Wait()
				require.NoError(t, stop(a))
				require.Equal(t, 3, calls)
				require.Equal(t, []int{1, 2}, backoffs)
				require.Empty(t, w.items(), "y was acked")
				letter := takeOn(t, q.DeadLetters())
				require.Equal(t, ids[0], letter.ID)
				require.Equal(t, "x", string(letter.Data))
				require.Equal(t, 3, letter.Failure.Attempts)
				ackOn(t, letter)
			})
		})
	}
}
