package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/keep"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// recipe is what all recipes have in common: they check what the user gave, and wrap errors. The
// zero recipe is that of a value that the user made without its constructor.
type recipe struct {
	session.At
	// invalid says why the options are, nil if they are not.
	invalid error
}

func (r recipe) check(ctx context.Context) error {
	if r.Recipe == "" {
		return errors.New("not made by its constructor (NewMutex, NewRWLock, NewGate, ...)")
	}
	if err := r.Client.Check(ctx, r.Path); err != nil {
		return err
	}
	return r.invalid
}

// lock is a recipe whose callers wait in a line and hold when it is their turn. A holder may re-enter.
type lock struct {
	recipe
	line *line.Line
	// keep is nil if the lock is not kept.
	keep *keep.Lock
	// maxHold ends each grant; 0: nothing does.
	maxHold time.Duration
}

// lockOn returns the lock with that line, and the zero lock without one.
func lockOn(l *line.Line, kept *keep.Lock, maxHold time.Duration, invalid error) lock {
	if l == nil {
		return lock{}
	}
	return lock{recipe{l.At, invalid}, l, kept, maxHold}
}

// grantFunc gets a grant of that kind.
type grantFunc func(ctx context.Context, k layout.Kind) (*hold.Grant, error)

// heldFunc returns the error of a call with a context of the holder, or nil if the call may go on.
// alone: the holder holds alone.
type heldFunc func(k layout.Kind, alone bool) error

// acquire waits for a lease of that kind.
func (r lock) acquire(ctx context.Context, op string, k layout.Kind) (*Lease, error) {
	if r.keep != nil {
		return r.lease(ctx, op, k, r.keep.Acquire, deadlock)
	}
	return r.lease(ctx, op, k, r.line.Acquire, deadlock)
}

// deadlock is the heldFunc of a call that would wait for itself.
func deadlock(k layout.Kind, alone bool) error {
	if !alone && k.Exclusive() {
		return ErrUpgrade
	}
	return ErrDeadlock
}

// tryAcquire is like acquire but does not wait.
func (r lock) tryAcquire(ctx context.Context, op string, k layout.Kind) (*Lease, error) {
	if r.keep != nil {
		return r.lease(ctx, op, k, r.keep.TryAcquire, heldByCaller)
	}
	return r.lease(ctx, op, k, r.line.TryAcquire, heldByCaller)
}

// heldByCaller is the heldFunc of a call that does not wait. nil: it is a reader beside the one that
// holds.
func heldByCaller(k layout.Kind, alone bool) error {
	switch {
	case alone:
		return ErrLocked
	case k.Exclusive():
		return fmt.Errorf("%w: %w", ErrLocked, ErrUpgrade)
	}
	return nil
}

// lease returns the first lease of what grant gets or, with a Reentrant context of the holder, one
// more lease of the holder's grant. With another context of the holder it asks held.
func (r lock) lease(ctx context.Context, op string, k layout.Kind, grant grantFunc, held heldFunc) (*Lease, error) {
	if err := r.check(ctx); err != nil {
		return nil, fail(op, r.Path, err)
	}
	if h, ok := r.holderIn(ctx); ok && h.Reentrant {
		l, err := reenter(h, k, held)
		return l, fail(op, r.Path, err)
	}
	if session.Attached[tracing](r.Client, nil).acquires {
		return r.tracedLease(ctx, op, k, grant, held)
	}
	return r.untracedLease(ctx, op, k, grant, held)
}

// untracedLease is lease without a Reentrant context of the holder, and without a Trace.
func (r lock) untracedLease(ctx context.Context, op string, k layout.Kind, grant grantFunc, held heldFunc) (*Lease, error) {
	if h, ok := r.holderIn(ctx); ok && h.Handle.Failure() == nil {
		if err := held(k, h.Handle.Grant.HoldsAlone()); err != nil {
			return nil, fail(op, r.Path, err)
		}
	}
	l, err := r.firstLease(ctx, k, grant)
	if err != nil {
		return nil, fail(op, r.Path, err)
	}
	return l, nil
}

// newLease returns the lease of a handle, which may be nil.
func newLease(h *hold.Handle) *Lease {
	if h == nil {
		return nil
	}
	return &Lease{h}
}

// reenter returns one more lease of the holder's grant.
func reenter(h hold.Holder, k layout.Kind, held heldFunc) (*Lease, error) {
	if err := h.Handle.Failure(); err != nil {
		return nil, err
	}
	l, err := h.Handle.Grant.AddHandle(k.Exclusive())
	if errors.Is(err, ErrUpgrade) {
		err = held(k, false)
	}
	return newLease(l), err
}

// firstLease returns the first lease of what grant gets.
func (r lock) firstLease(ctx context.Context, k layout.Kind, grant grantFunc) (*Lease, error) {
	ctx, done := r.Client.BindWait(ctx)
	defer done()
	for {
		g, err := grant(ctx, k)
		if err != nil {
			return nil, err
		}
		l, err := g.AddHandle(k.Exclusive())
		if errors.Is(err, errs.ErrGone) { // by an operator, or with its session
			err = g.WhyGone(ctx)
		}
		// Lost before the caller had it: the wait goes on in the next session.
		if !errors.Is(err, ErrLost) && !errors.Is(err, zkconn.ErrSessionOver) {
			if err == nil && r.maxHold > 0 {
				g.EndAfter(r.maxHold, errs.Lost(ErrMaxHold))
			}
			return newLease(l), err
		}
	}
}

// withLease acquires a lease, runs f with it and releases it.
func (r lock) withLease(ctx context.Context, op string, k layout.Kind, f func(context.Context, *Lease) error) error {
	if f == nil {
		return fail(op, r.Path, errors.New("nil function"))
	}
	l, err := r.acquire(ctx, op, k)
	if err != nil {
		return err
	}
	return l.releaseAfter(ctx, func() error { return f(l.Context(ctx), l) })
}

// releaseAfter runs f and then releases the lease, even if f panics.
func (l *Lease) releaseAfter(ctx context.Context, f func() error) (err error) {
	defer func() {
		if released := l.releaseWithin(ctx, l.Release); released != nil {
			err = errors.Join(err, released)
		}
	}()
	return f()
}

// releaseWithin calls release, of the lease and maybe of others. Once ctx has ended, it waits for
// no more than a Grace for the servers' answer, and then returns nil: what is released is deleted
// in the background.
func (l *Lease) releaseWithin(ctx context.Context, release func() error) error {
	_, err := l.handle.Grant.At.Client.Tasks.Within(ctx, zkconn.Grace, release)
	return err
}

// checkDeadlock returns ErrDeadlock if ctx is a context of the holder, but not a Reentrant
// one.
func (r lock) checkDeadlock(ctx context.Context) error {
	if h, ok := r.holderIn(ctx); ok && !h.Reentrant && h.Handle.Failure() == nil {
		return ErrDeadlock
	}
	return nil
}

// holderIn returns the holder one of whose contexts ctx is.
func (r lock) holderIn(ctx context.Context) (h hold.Holder, ok bool) {
	h, ok = ctx.Value(r.At).(hold.Holder)
	return h, ok
}

// inSessions calls f with the session, and again with the next one for as long as sessions
// end before f does.
func (r recipe) inSessions(ctx context.Context, op string, f func(ctx context.Context, s *session.Session, path string) error) error {
	return r.whileBound(ctx, op, (*session.Client).Bind, f)
}

// whileBound is like inSessions. bind says what ends the call: Close (Client.Bind), or Shutdown, too (BindWait).
func (r recipe) whileBound(ctx context.Context, op string, bind func(*session.Client, context.Context) (context.Context, context.CancelFunc), f func(context.Context, *session.Session, string) error) error {
	if err := r.check(ctx); err != nil {
		return fail(op, r.Path, err)
	}
	ctx, done := bind(r.Client, ctx)
	defer done()
	return fail(op, r.Path, r.Client.InSessions(ctx, func(s *session.Session) error { return f(ctx, s, r.Abs()) }))
}
