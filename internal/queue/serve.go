package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Serve takes items and calls handler for each, until ctx ends.
func (q *Queue) Serve(ctx context.Context, handler func(context.Context, *Item) error) error {
	if !q.Client.Held.Begin() {
		return errs.ErrClosed
	}
	defer q.Client.Held.End()
	bound, done := q.Client.BindWait(ctx)
	defer done()
	taking, stop := context.WithCancel(bound)
	defer stop()
	s := &serving{
		Queue:   q,
		handler: handler,
		takes:   make(chan struct{}, q.Opts.Workers),
		taken:   make(chan struct{}),
		ctx:     taking,
	}
	// Without a cause of its own, a handler could not tell a deadline from a cancellation.
	cause := fmt.Errorf("DrainTimeout: %v have passed since Serve was stopped: %w", q.Opts.DrainTimeout, context.DeadlineExceeded)
	handling, end := endLater(context.WithoutCancel(bound), bound, q.Opts.DrainTimeout, cause)
	defer end()
	s.handling = handling
	s.all.Go(func() { s.endTakes(taking) })
	failed := make(chan error, q.Opts.Workers)
	for range q.Opts.Workers {
		s.all.Go(func() {
			defer stop()
			if err := s.work(taking); taking.Err() == nil { // else it was stopped
				failed <- err
			}
		})
	}
	s.all.Wait()
	q.endIdle()
	if len(failed) > 0 {
		return <-failed
	}
	err := zkconn.ContextErr(bound)
	switch {
	case s.cutShort.Load():
		return fmt.Errorf("a handler was at work %v after the context had ended: %w", q.Opts.DrainTimeout, err)
	case zkconn.WasStopped(bound):
		return err
	}
	return nil
}

// serving is one call of Serve.
type serving struct {
	*Queue
	handler func(context.Context, *Item) error
	// takes has room for as many workers as take an item, and taken is closed when none does any
	// more.
	takes chan struct{}
	taken chan struct{}
	// ctx ends when no more is to be taken.
	ctx context.Context
	// all are the workers, endTakes and the parked items.
	all sync.WaitGroup

	// failures are handlers that have failed since one succeeded.
	failures atomic.Int64
	parked   atomic.Int64

	// full: the session has no room for another item.
	full atomic.Bool
	// handling ends when the handlers have to. cutShort: it did before one had returned.
	handling context.Context
	cutShort atomic.Bool
}

// endLater returns a context that ends with parent, and d after ctx has ended, for that cause. If d is 0, it
// ends with parent only.
func endLater(parent, ctx context.Context, d time.Duration, cause error) (_ context.Context, end context.CancelFunc) {
	later, cancel := context.WithCancelCause(parent)
	stop := context.AfterFunc(ctx, func() {
		if d == 0 {
			return
		}
		late := time.NewTimer(d)
		defer late.Stop()
		select {
		case <-late.C:
			cancel(cause)
		case <-later.Done():
		}
	})
	return later, func() {
		stop()
		cancel(nil)
	}
}

const (
	// ParkedPerWorker bounds the items that are parked one after another while no handler
	// succeeds, so that an outage uses up the attempts of few items.
	ParkedPerWorker = 16
	// MaxParked bounds the parked items.
	MaxParked = 1000
)

// endTakes closes taken when ctx has ended and no worker's take is under way. Its places
// in takes are not given back, so none begins later.
func (s *serving) endTakes(ctx context.Context) {
	<-ctx.Done()
	for range cap(s.takes) {
		s.takes <- struct{}{}
	}
	close(s.taken)
}

// work is one worker's loop. It ends with an error.
func (s *serving) work(ctx context.Context) error {
	for {
		it, err := s.next(ctx)
		if err != nil {
			return err
		}
		s.serve(ctx, it)
	}
}

// next waits for an item.
func (s *serving) next(ctx context.Context) (*Item, error) {
	select {
	case s.takes <- struct{}{}:
		defer func() { <-s.takes }()
	case <-s.taken:
		return nil, zkconn.ContextErr(ctx)
	}
	ctx, end := s.hooks.Acquire(ctx, s.Path, "serve")
	it, err := s.takeWithRoom(ctx)
	if err != nil {
		end(nil, err)
		return nil, err
	}
	end(it.Handle.Grant, nil)
	return it, nil
}

// serve calls the handler for an item, and then acks the item or gives it back. It returns once
// the handler has returned.
func (s *serving) serve(ctx context.Context, it *Item) {
	handling, overdue, end := s.handlingOf(it)
	defer end()
	result := guard("handler", func() error {
		defer s.noteReturn()
		return s.handler(handling, it)
	})
	select {
	case err := <-result:
		s.finish(ctx, it, err)
	case <-overdue:
		s.overrun(ctx, it, result)
	}
}

// noteReturn notes that a handler returns. Its ack, which follows, may last until DrainTimeout has passed:
// that cuts nothing short.
func (s *serving) noteReturn() {
	if s.handling.Err() != nil {
		s.cutShort.Store(true)
	}
}

// handlingOf returns the context of an item's handler, and what fires when the handler has to have
// returned.
func (s *serving) handlingOf(it *Item) (_ context.Context, overdue <-chan time.Time, end func()) {
	handling, limit := it.Handle.Context(s.handling), s.Opts.HandlerTimeout
	if limit == 0 {
		return handling, nil, func() {}
	}
	cause := fmt.Errorf("HandlerTimeout: %v have passed since the handler was called: %w", limit, context.DeadlineExceeded)
	handling, cancel := context.WithTimeoutCause(handling, limit, cause)
	timer := time.NewTimer(max(limit, limit+HandlerGrace)) // which may be too long for a Duration
	return handling, timer.C, func() { timer.Stop(); cancel() }
}

// HandlerGrace is how long a handler has to return once its HandlerTimeout has passed.
const HandlerGrace = time.Second

// overrun gives up the attempt of a handler that does not return, and then waits until it does.
func (s *serving) overrun(ctx context.Context, it *Item, result <-chan error) {
	called := time.Now().Add(-s.Opts.HandlerTimeout - HandlerGrace)
	item, attempt := it.Claim.logged(), it.Claim.Attempt
	s.Client.Log(slog.LevelError, "a handler does not return; its worker takes no other item until it does",
		"item", item, "queue", s.Path, "attempt", attempt, "timeout", s.Opts.HandlerTimeout)
	s.finish(ctx, it, fmt.Errorf("the handler has not returned after HandlerTimeout, %v: %w", s.Opts.HandlerTimeout, context.DeadlineExceeded))
	err := <-result
	s.Client.Log(slog.LevelWarn, "a handler has returned too late; its result is ignored",
		"item", item, "queue", s.Path, "attempt", attempt, "after", time.Since(called), "err", err)
}

// finish acks an item whose handler has returned nil, and else gives it back.
func (s *serving) finish(ctx context.Context, it *Item, err error) {
	// It outlives ctx but not the claim: an ack that is sent while the connection is
	// lost may stay without a reply for as long as the session lives.
	claimed := it.Handle.Context(context.WithoutCancel(ctx))
	// Once no more is to be taken, it lasts for a session timeout, so that Serve returns although a server
	// does not answer.
	settling, done := endLater(claimed, s.ctx, it.Claim.Session.Timeout(), errUnsettled)
	defer done()
	if err == nil && it.err() == nil {
		if err = it.Ack(settling, nil); err == nil {
			s.failures.Store(0)
			return
		}
	}
	switch {
	case errors.Is(it.err(), errs.ErrReleased):
		if err == nil && it.acked.Load() { // by the handler
			s.failures.Store(0)
		}
		return
	case it.err() != nil:
		s.Client.Log(slog.LevelWarn, "item was lost; if it is still in the queue it is delivered again", "item", it.Claim.logged(), "queue", s.Path, "err", it.err())
		return
	}
	s.Client.Log(slog.LevelWarn, "item failed", "item", it.Claim.logged(), "queue", s.Path, "attempt", it.Claim.Attempt, "err", err)
	if s.Opts.MaxAttempts < 0 || it.Claim.Attempt < s.Opts.MaxAttempts {
		s.park(claimed, it)
	} else {
		s.moveFailed(settling, it, err)
	}
}

var errUnsettled = errors.New("Serve was stopped a session timeout ago, and the servers have not answered")

// park gives an item back after its Backoff, when the workers' takes have ended, or when
// its claim ends. A take that is under way would claim the item again, and that claim would
// count as an attempt. The worker goes on meanwhile, unless so many handlers have failed in
// a row that all seem to. From half of MaxParked on, the more items are parked, the shorter
// the new one stays, so that they remain below MaxParked.
func (s *serving) park(claimed context.Context, it *Item) {
	d := s.backoff(it)
	stay := func() {
		keep := time.NewTimer(d)
		defer keep.Stop()
		select {
		case <-keep.C:
		case <-s.taken:
		case <-claimed.Done():
		}
	}
	if d > 0 && s.failures.Add(1) > int64(ParkedPerWorker*s.Opts.Workers) {
		stay()
		s.release(it)
		return
	}
	if many := s.parked.Add(1) - MaxParked/2; many > 0 {
		d -= d / (MaxParked / 2) * time.Duration(many)
	}
	if d <= 0 {
		s.parked.Add(-1)
		s.release(it)
		return
	}
	s.all.Go(func() {
		stay()
		s.parked.Add(-1)
		s.release(it)
	})
}

// release gives an item back, in the background if that takes long and no more is to be taken.
func (s *serving) release(it *Item) {
	if _, err := s.Client.Tasks.Within(s.ctx, zkconn.Grace, it.Handle.Release); err != nil && !errors.Is(err, errs.ErrReleased) {
		s.Client.Log(slog.LevelWarn, "item was lost before it was given back", "item", it.Claim.logged(), "queue", s.Path, "err", err)
	}
}

// backoff returns for how long the item of a handler that failed is kept.
func (q *Queue) backoff(it *Item) (d time.Duration) {
	err := guarded("QueueOptions.Backoff", func() error {
		d = q.Opts.Backoff(it.Claim.Attempt)
		return nil
	})
	if err != nil {
		d = BackOff(it.Claim.Attempt)
		q.Client.Log(slog.LevelError, "the default back-off is used", "item", it.Claim.logged(), "queue", q.Path, "err", err)
	}
	return d
}

// guarded calls a function of the caller's as guard does.
func guarded(what string, f func() error) error { return <-guard(what, f) }

// guard calls a function of the caller's in a goroutine of its own, which the function may end,
// and sends its error. The error after a panic has the panic's stack.
func guard(what string, f func() error) <-chan error {
	result := make(chan error, 1)
	go func() {
		err := fmt.Errorf("%s has ended its goroutine (runtime.Goexit)", what)
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("%s panicked: %v\n%s", what, p, debug.Stack())
			}
			result <- err
		}()
		err = f()
	}()
	return result
}

// BackOff is the default of QueueOptions.Backoff.
func BackOff(attempt int) time.Duration {
	return min(100*time.Millisecond<<min(max(attempt-1, 0), 20), 30*time.Second)
}

// takeWithRoom takes an item. As long as the session has no room for one, it tries again,
// without a place in the line: others take the items meanwhile. It passes over items that
// cannot be moved to the dead letters, which stay claimed for a while.
func (s *serving) takeWithRoom(ctx context.Context) (*Item, error) {
	for {
		items, err := s.takeN(ctx, 1)
		unmoved := (*unmovedError)(nil)
		switch {
		case err == nil && ctx.Err() != nil: // just then
			giveBack(items...)
			return nil, zkconn.ContextErr(ctx)
		case err == nil && items[0].Seen():
			s.full.Store(false)
			return items[0], nil
		case err == nil, errors.As(err, &unmoved) && ctx.Err() == nil:
			continue
		case !errors.Is(err, zkconn.ErrSessionFull):
			return nil, err
		}
		if !s.full.Swap(true) {
			s.Client.Log(slog.LevelWarn, "session is full; no items are taken until there is room", "queue", s.Path, "err", err)
		}
		if err := s.Client.PauseWhileFull(ctx); err != nil {
			return nil, err
		}
	}
}
