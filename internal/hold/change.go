package hold

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// A change is a transaction of the holder's that replaces the thing, as a downgrade does, or that
// ends the grant and does more than delete the thing: an Ack, for example. Until it is known whether
// the transaction was carried out, the thing is not deleted in any other way (H6).

// EndWith runs try, which ends the grant by a transaction. try must return once it is
// known whether the thing is gone, and must not outlast the session. It closes sent
// when it has sent something. Before that, try ends with ctx. From then on only this
// call ends with ctx, and returns ErrUncertain.
func (g *Grant) EndWith(ctx context.Context, sent <-chan struct{}, try func() (done bool, err error)) error {
	// Close must wait for the task that this starts, so this must be a task, too.
	g.At.Client.Tasks.Add()
	defer g.At.Client.Tasks.End()
	if err := g.beginChange(ctx); err != nil {
		return err
	}
	known, result := make(chan struct{}), make(chan error, 1)
	g.At.Client.Tasks.Start(func() {
		done, err := try()
		close(known)
		g.endChange(done)
		switch {
		case errors.Is(err, errs.ErrUncertain):
		case errors.Is(err, zkconn.ErrSessionOver):
			err = g.endIfLost()
		case errors.Is(err, errs.ErrDeleted):
			g.End(err)
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
		return fmt.Errorf("%w: %w", errs.ErrUncertain, zkconn.ContextErr(ctx))
	}
}

// beginChange waits until no change is under way, and begins one.
func (g *Grant) beginChange(ctx context.Context) error {
	for {
		if ctx.Err() != nil {
			return zkconn.ContextErr(ctx)
		}
		if err := g.awaitChange(ctx); err != nil {
			return err
		}
		if err := g.endIfLost(); err != nil {
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

// endChange ends the change that beginChange has begun. If done, the thing is deleted
// and the grant ends. Otherwise the grant goes on or, if it has ended meanwhile, its thing is
// deleted.
func (g *Grant) endChange(done bool) {
	g.mu.Lock()
	over := g.err != nil
	var handles map[*Handle]struct{}
	if done && !over {
		handles, _ = g.markEnded(errs.ErrReleased)
	}
	close(g.changing)
	g.changing = nil
	g.mu.Unlock()
	switch {
	case done && !over:
		g.announceEnd(errs.ErrReleased, handles)
	case !done && over:
		g.abandon()
	}
}

// awaitChange waits for the end of the change that is under way, if any. It fails only
// if ctx ends first.
func (g *Grant) awaitChange(ctx context.Context) error {
	g.mu.Lock()
	changing := g.changing
	g.mu.Unlock()
	if changing == nil {
		return nil
	}
	select {
	case <-changing:
		return nil
	case <-ctx.Done():
		return g.Session.ContextErr(ctx)
	}
}

var errReentered = errors.New("re-entries are open")

// Replace replaces the thing of an exclusive grant by one that is shared, if the handle is the only
// one. try does so by a transaction, and must return once it is known whether it was carried out.
// zk.ErrNoNode: the thing was gone. If ctx ends first, the background goes on.
func (h *Handle) Replace(ctx context.Context, by Thing, try func() error) error {
	g := h.Grant
	// Close must wait for the task that this starts, so this must be a task, too.
	g.At.Client.Tasks.Add()
	defer g.At.Client.Tasks.End()
	if err := g.awaitChange(ctx); err != nil {
		return err
	}
	g.mu.Lock()
	_, open := g.handles[h]
	switch {
	case ctx.Err() != nil:
		g.mu.Unlock()
		return zkconn.ContextErr(ctx)
	case g.err != nil:
		g.mu.Unlock()
		return g.err
	case !open: // released in the meantime; a re-entry may still hold
		g.mu.Unlock()
		return errs.ErrReleased
	case g.changing != nil: // another change was quicker
		g.mu.Unlock()
		return h.Replace(ctx, by, try)
	case !g.Thing().Exclusive():
		g.mu.Unlock()
		return nil
	case len(g.handles) > 1:
		g.mu.Unlock()
		return errReentered
	}
	g.changing = make(chan struct{})
	g.mu.Unlock()
	watchdogOf(g.Session).expect(g, by.Node().Path) // an event may come before the reply
	result := make(chan error, 1)
	g.At.Client.Tasks.Start(func() { result <- g.replace(by, try()) })
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return zkconn.ContextErr(ctx)
	}
}

// replace ends a replacement, whose outcome err is. If the grant has ended in the meantime, it
// deletes whichever thing there is then, in the background.
func (g *Grant) replace(by Thing, err error) error {
	last := g.Path()
	g.mu.Lock()
	if err == nil {
		g.current.Store(&by)
		g.replaced = true
	}
	close(g.changing)
	g.changing = nil
	over := g.err != nil
	g.mu.Unlock()
	if err == nil || over {
		watchdogOf(g.Session).forget(g, last)
	}
	if err != nil || over {
		watchdogOf(g.Session).forget(g, by.Node().Path)
	} else { // watched once it has lived for a while, like other grants
		time.AfterFunc(WatchDelay(g.Session), func() { g.At.Client.Tasks.Start(g.watch) })
	}
	switch {
	case over:
		g.abandon()
		return g.endIfLost()
	case errors.Is(err, zkconn.ErrSessionOver):
		return g.endIfLost()
	case errors.Is(err, zk.ErrNoNode):
		g.End(errs.Lost(errs.ErrDeleted))
		return g.endIfLost()
	}
	return err
}
