package zkrecipes

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// recipe is what all locks have in common: checks of what the user gave,
// re-entry, and the form of errors. Its line is nil where a user made a lock
// without its constructor.
type recipe struct{ *line }

func (r recipe) path() string {
	if r.line == nil {
		return ""
	}
	return r.line.path
}

func (r recipe) check(ctx context.Context) error {
	if r.line == nil {
		return errors.New("not made by its constructor (NewMutex, NewRWLock, NewGate, ...)")
	}
	return r.c.check(ctx, r.line.path)
}

// acquire waits for a lease of that kind.
func (r recipe) acquire(ctx context.Context, op string, k kind) (*Lease, error) {
	return r.get(ctx, op, k, func(h holding) error {
		if h == holdsShared && k.exclusive() {
			return ErrUpgrade
		}
		return ErrDeadlock
	}, r.enter)
}

// tryAcquire is acquire for who does not wait.
func (r recipe) tryAcquire(ctx context.Context, op string, k kind) (*Lease, error) {
	return r.get(ctx, op, k, func(h holding) error {
		switch {
		case h == holdsAlone:
			return ErrLocked
		case k.exclusive():
			return fmt.Errorf("%w: %w", ErrLocked, ErrUpgrade)
		}
		return nil // one reader more
	}, r.tryEnter)
}

// holding is what the holder has whose context a call was given.
type holding int

const (
	holdsShared holding = iota
	holdsAlone
)

// get gets a lease with enter. held is the error for a context of the holder,
// which would wait for itself, nil for none.
func (r recipe) get(ctx context.Context, op string, k kind, held func(holding) error, enter func(context.Context, kind) (*grant, error)) (*Lease, error) {
	if err := r.check(ctx); err != nil {
		return nil, fail(op, r.path(), err)
	}
	path := r.path()
	if h, ok := ctx.Value(r.key()).(holder); ok {
		err := h.lease.Err()
		switch {
		case h.reentrant && err != nil:
			return nil, fail(op, path, errors.Unwrap(err))
		case h.reentrant:
			l, err := h.lease.g.enter(k)
			if errors.Is(err, ErrUpgrade) {
				err = held(holdsShared)
			}
			return l, fail(op, path, err)
		case err == nil:
			if err := held(h.lease.g.holding()); err != nil {
				return nil, fail(op, path, err)
			}
		}
	}
	ctx, done := r.c.bind(ctx)
	defer done()
	for {
		g, err := enter(ctx, k)
		if err != nil {
			return nil, fail(op, path, err)
		}
		l, err := g.enter(k)
		if errors.Is(err, errDeleted) { // by an operator, or with its session
			err = g.place().whyGone(ctx)
		}
		// Lost before anybody had it: the wait goes on, in the next session.
		if !errors.Is(err, ErrLost) && !errors.Is(err, zkconn.ErrSessionOver) {
			return l, fail(op, path, err)
		}
	}
}

// do runs f with a lease.
func (r recipe) do(ctx context.Context, op string, k kind, f func(context.Context, *Lease) error) (err error) {
	if f == nil {
		return fail(op, r.path(), errors.New("nil function"))
	}
	l, err := r.acquire(ctx, op, k)
	if err != nil {
		return err
	}
	defer func() {
		if released := l.Release(); released != nil {
			err = errors.Join(err, released)
		}
	}()
	return f(l.Context(ctx), l)
}

// contenders lists who stands in line.
func (r recipe) list(ctx context.Context) ([]Contender, error) {
	if err := r.check(ctx); err != nil {
		return nil, fail("list", r.path(), err)
	}
	ctx, done := r.c.bind(ctx)
	defer done()
	cs, err := r.contenders(ctx)
	return cs, fail("list", r.path(), err)
}
