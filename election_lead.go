package zkrecipes

import (
	"context"
	"errors"
	"log/slog"
	"slices"
)

// Lead campaigns, calls f while the process leads, and resigns once f has returned. f's
// context ends with ctx or when the leadership is lost. After a loss, Lead waits until f
// has returned and campaigns again, whatever f returned: most errors of f are due to the
// end of its context then. They are logged. So f should return as soon as its context
// ends. Until it does, the process does not lead again, but another one may, so f should
// write by Term.Commit or with Term.Token.
//
// Otherwise Lead ends with f and returns f's error, or nil, joined with the error of
// Resign. It also ends when ctx ends while it campaigns, or when Campaign fails for any
// reason but an eviction from the line. If f panics, Lead resigns first.
//
// In a process, at most one call of Lead campaigns or leads for a Client and path at a
// time, and others wait for it. So there are never two calls of f at once. ErrDeadlock is
// returned if ctx is a context of the leader, also a Reentrant one.
func (e *Election) Lead(ctx context.Context, value []byte, f func(context.Context, *Term) error) error {
	r := e.self()
	err := r.check(ctx)
	switch {
	case err != nil:
	case f == nil:
		err = errors.New("nil function")
	default:
		if h, ok := r.holderIn(ctx); ok && h.lease.Err() == nil {
			err = ErrDeadlock
		}
	}
	if err != nil {
		return fail("lead", r.path(), err)
	}
	value = slices.Clone(value)
	for {
		if again, err := e.leadOnce(ctx, value, f); !again {
			return err
		}
	}
}

// leadOnce campaigns and leads for one term. again: it was lost.
func (e *Election) leadOnce(ctx context.Context, value []byte, f func(context.Context, *Term) error) (again bool, err error) {
	c, path := e.line.c, e.line.path
	done, err := c.takeLead(ctx, path)
	if err != nil {
		return false, fail("lead", path, err)
	}
	defer done()
	t, err := e.campaign(ctx, "lead", value)
	if err != nil {
		return ctx.Err() == nil && errors.Is(err, ErrEvicted), err
	}
	defer func() { // also if f panics
		why := t.Err()
		resigned := t.Resign()
		switch {
		case errors.Is(why, ErrLost):
			c.hooks.log(slog.LevelWarn, "leadership lost; campaigning again", "path", path, "cause", why, "err", err)
			again = true
		case resigned != nil:
			err = errors.Join(err, resigned)
		}
	}()
	return false, f(t.Context(ctx), t)
}

// takeLead waits until no other call of Lead campaigns or leads on that path. done must
// be called in the end.
func (c *Client) takeLead(ctx context.Context, path string) (done func(), err error) {
	ctx, unbind := c.bind(ctx)
	defer unbind()
	for {
		c.mu.Lock()
		busy := c.leading[path]
		if busy == nil {
			mine := make(chan struct{})
			c.leading[path] = mine
			c.mu.Unlock()
			return func() {
				c.mu.Lock()
				defer c.mu.Unlock()
				delete(c.leading, path)
				close(mine)
			}, nil
		}
		c.mu.Unlock()
		if err := c.awaitEnd(ctx, busy); err != nil {
			return nil, err
		}
	}
}
