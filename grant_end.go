package zkrecipes

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// A grant can end by a transaction of the holder's that does more than delete the
// place: an Ack, for example. Until it is known whether the transaction was carried
// out, the place is not deleted in any other way.

// endWith runs try, which ends the grant by a transaction. try must return once it is
// known whether the place is gone, and must not outlast the session. It closes sent
// when it has sent something. Before that, try ends with ctx. From then on only this
// call ends with ctx, and returns ErrUncertain.
func (g *grant) endWith(ctx context.Context, sent <-chan struct{}, try func() (done bool, err error)) error {
	// Close must wait for the task that this starts, so this must be a task, too.
	g.line.c.tasks.Add()
	defer g.line.c.tasks.Finish()
	if err := g.beginChange(ctx); err != nil {
		return err
	}
	known, result := make(chan struct{}), make(chan error, 1)
	g.line.c.tasks.Start(func() {
		done, err := try()
		close(known)
		g.endChange(done)
		switch {
		case errors.Is(err, ErrUncertain):
		case errors.Is(err, zkconn.ErrSessionOver):
			err = g.checkHeld()
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
	case <-known: // ctx may be the lease's, which ends with the grant
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

// beginChange waits until no change is under way, and begins one.
func (g *grant) beginChange(ctx context.Context) error {
	for {
		if ctx.Err() != nil {
			return zkconn.ContextErr(ctx)
		}
		if err := g.awaitChange(ctx); err != nil {
			return err
		}
		if err := g.checkHeld(); err != nil {
			return err
		}
		g.mu.Lock()
		free := g.err == nil && g.changing == nil
		if free {
			g.changing = make(chan struct{})
		}
		g.mu.Unlock()
		if free {
			return nil
		}
	}
}

// endChange ends the change that beginChange has begun. If done, the place is deleted
// and the grant ends. Else the grant goes on, and if it has ended in the meantime its
// place is deleted.
func (g *grant) endChange(done bool) {
	g.mu.Lock()
	over := g.err != nil
	var handles map[*Lease]struct{}
	if done && !over {
		handles, _ = g.markEnded(ErrReleased)
	}
	close(g.changing)
	g.changing = nil
	g.mu.Unlock()
	switch {
	case done && !over:
		g.announceEnd(ErrReleased, handles)
	case !done && over:
		g.leaveLater()
	}
}
