package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Serve takes items and has handler work on them, QueueOptions.Workers at a time,
// until ctx ends. It then takes no more, lets the handlers finish, and returns
// ctx's error; the handlers' context does not end with ctx, only when the item is
// lost.
//
// An item whose handler returns nil is acked; one that the handler has acked
// itself, with operations for instance, is left as it is. An item whose handler
// fails, or panics, is kept for QueueOptions.Backoff, during which the worker does
// nothing else, and then given back: it is the first that is taken next. Once it
// was taken MaxAttempts times, whoever takes it moves it to the dead letters, also
// where it is the handler's process that dies each time. The Logger is told of
// failures.
//
// Any other error than ctx's ends all workers, once their handlers have finished:
// ErrClosed, ErrEvicted where somebody has deleted a worker's znode in the
// consumers' line, and what the servers refuse. A lost connection, a lost item and
// the end of the session are none: Serve goes on.
//
// Cost: four requests and two commits an item, with the worker's next place in
// line; three requests more where that is not the first one.
func (q *Queue) Serve(ctx context.Context, handler func(context.Context, *Item) error) error {
	if err := q.check(ctx); err != nil {
		return q.fail("serve", err)
	}
	if handler == nil {
		return q.fail("serve", errors.New("nil function"))
	}
	ctx, done := q.c.bind(ctx)
	defer done()
	taking, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, q.opts.Workers)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			defer stop()
			errs[i] = q.work(taking, handler)
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return q.fail("serve", zkconn.ContextErr(ctx))
	}
	for _, err := range errs {
		if !errors.Is(err, context.Canceled) { // of one that was stopped
			return q.fail("serve", err)
		}
	}
	return q.fail("serve", errors.Join(errs...))
}

// work is one worker's loop. It ends with an error.
func (q *Queue) work(ctx context.Context, handler func(context.Context, *Item) error) error {
	var next *place
	for {
		it, err := q.take(ctx, next)
		if err != nil {
			return err
		}
		next = q.serve(ctx, it, handler)
	}
}

// serve has an item worked on and settles it. The place that it returns, if any,
// is in the consumers' line, and the caller must see that it moves on.
func (q *Queue) serve(ctx context.Context, it *Item, handler func(context.Context, *Item) error) *place {
	lasting := context.WithoutCancel(ctx)
	err := call(it.Context(lasting), it, handler)
	if err == nil && it.Err() == nil {
		ack := &ackTransaction{it: it}
		if ctx.Err() == nil {
			ack.rejoin = q.consumers
		}
		if err = ack.run(lasting); err == nil {
			return ack.next
		}
	}
	switch {
	case errors.Is(it.Err(), ErrReleased): // by the handler
		return nil
	case it.Err() != nil:
		q.c.hooks.log(slog.LevelWarn, "item was lost; it is delivered again", "item", it.ID, "queue", q.path, "err", it.Err())
		return nil
	}
	q.c.hooks.log(slog.LevelWarn, "item failed", "item", it.ID, "queue", q.path, "attempt", it.Attempt, "err", err)
	if q.opts.MaxAttempts < 0 || it.Attempt < q.opts.MaxAttempts {
		keep := time.NewTimer(q.opts.Backoff(it.Attempt))
		defer keep.Stop()
		select {
		case <-keep.C:
		case <-ctx.Done():
		case <-it.Context(lasting).Done():
		}
	}
	if err := it.lease.Release(); err != nil {
		q.c.hooks.log(slog.LevelWarn, "item was lost before it was given back", "item", it.ID, "queue", q.path, "err", err)
	}
	return nil
}

// call calls the handler, in a goroutine that is its own to end.
func call(ctx context.Context, it *Item, handler func(context.Context, *Item) error) error {
	result := make(chan error, 1)
	go func() {
		err := errors.New("handler has ended its goroutine (runtime.Goexit)")
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("handler panicked: %v", p)
			}
			result <- err
		}()
		err = handler(ctx, it)
	}()
	return <-result
}

// backOff is the default of QueueOptions.Backoff.
func backOff(attempt int) time.Duration {
	return min(100*time.Millisecond<<min(max(attempt-1, 0), 20), 30*time.Second)
}
