package zkrecipes

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// A grant can end with a transaction of its holder's, of which its place is a part
// only. Until it is known whether that was carried out, the place is not given
// back.

// endWith has try end the grant. try must return once it is known whether the
// place is gone, and must not go on for longer than the session. sent is closed
// when something is under way: before, try ends with ctx, and from then on only
// this call does.
func (g *grant) endWith(ctx context.Context, sent <-chan struct{}, try func() (done bool, err error)) error {
	// Close waits for it: the task that it starts is to be waited for too.
	g.line.c.tasks.Add()
	defer g.line.c.tasks.Finish()
	if err := g.begin(ctx); err != nil {
		return err
	}
	known, result := make(chan struct{}), make(chan error, 1)
	g.line.c.tasks.Start(func() {
		done, err := try()
		close(known)
		g.endedWith(done)
		switch {
		case errors.Is(err, ErrUncertain):
		case errors.Is(err, zkconn.ErrSessionOver):
			err = g.check()
		case errors.Is(err, errDeleted):
			g.end(err)
		}
		result <- err
	})
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
	}
	select {
	case <-known: // ctx may be the grant's own, which ends with it
		return <-result
	default:
	}
	select {
	case err := <-result:
		return err
	case <-sent:
		return fmt.Errorf("%w: %w", ErrUncertain, zkconn.ContextErr(ctx))
	}
}

// begin makes the grant one that is about to move, as a downgrade does.
func (g *grant) begin(ctx context.Context) error {
	for {
		if ctx.Err() != nil {
			return zkconn.ContextErr(ctx)
		}
		if err := g.settled(ctx); err != nil {
			return err
		}
		if err := g.check(); err != nil {
			return err
		}
		g.mu.Lock()
		free := g.err == nil && g.moving == nil
		if free {
			g.moving = make(chan struct{})
		}
		g.mu.Unlock()
		if free {
			return nil
		}
	}
}

// endedWith ends the grant, or lets it go on; one that ended meanwhile leaves.
func (g *grant) endedWith(done bool) {
	g.mu.Lock()
	over := g.err != nil
	var handles map[*Lease]struct{}
	if done && !over {
		handles, _ = g.seal(ErrReleased)
	}
	close(g.moving)
	g.moving = nil
	g.mu.Unlock()
	switch {
	case done && !over:
		g.finish(ErrReleased, handles)
	case !done && over:
		g.leave()
	}
}
