package line

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/placename"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// A downgrade moves a grant from the writer's place to a reader's place with the same
// uuid and number, in one transaction. So no other place can come between, and if the
// reply is lost the name tells whether the transaction was carried out. No signal is
// sent: the successor lists the line and finds the place that it has to wait for.

var errReentered = errors.New("re-entries are open")

// Downgrade turns an exclusive grant into a shared one, if l is its only handle.
func (g *Grant) Downgrade(ctx context.Context, l *Handle) error {
	// Close must wait for the task that this starts, so this must be a task, too.
	g.Line.Client.Tasks.Add()
	defer g.Line.Client.Tasks.Finish()
	if err := g.awaitChange(ctx); err != nil {
		return err
	}
	g.mu.Lock()
	_, open := g.handles[l]
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
		return g.Downgrade(ctx, l)
	case !g.Place().Kind.Exclusive():
		g.mu.Unlock()
		return nil
	case len(g.handles) > 1:
		g.mu.Unlock()
		return errReentered
	}
	g.changing = make(chan struct{})
	g.mu.Unlock()
	next := g.Place().asReader()
	watchdogOf(g.Session).expect(g, next.Path) // an event may come before the reply
	result := make(chan error, 1)
	g.Line.Client.Tasks.Start(func() { result <- g.move(next) })
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return zkconn.ContextErr(ctx)
	}
}

// asReader returns the reader's place that replaces this one.
func (p *Place) asReader() *Place {
	next := *p
	number := strings.TrimPrefix(p.Name[strings.LastIndex(p.Name, string(p.Kind)):], string(p.Kind))
	next.Kind = placename.KindRead
	next.Name = "_c_" + p.UUID + "-" + string(placename.KindRead) + number
	next.Path = p.Line.Abs() + "/" + next.Name
	next.Own = nil
	return &next
}

// move carries the downgrade out. If the grant has ended in the meantime, it deletes
// whichever place there is then, in the background.
func (g *Grant) move(next *Place) error {
	last := g.Place()
	err := last.replace(next)
	g.mu.Lock()
	if err == nil {
		g.current.Store(next)
		g.downgraded = true
	}
	close(g.changing)
	g.changing = nil
	over := g.err != nil
	g.mu.Unlock()
	if err == nil || over {
		watchdogOf(g.Session).forget(g, last.Path)
	}
	if err != nil || over {
		watchdogOf(g.Session).forget(g, next.Path)
	} else { // watched once it has lived for a while, like other grants
		time.AfterFunc(g.Session.Timeout()/10, func() { g.Line.Client.Tasks.Start(g.watchPlace) })
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

// replace creates next and deletes the place, in one transaction that is sent until
// its outcome is known. It returns zk.ErrNoNode if the place was gone, and also if the
// outcome cannot be found out.
func (p *Place) replace(next *Place) error {
	for again := false; ; again = true {
		acl := p.Bears.ForPlaces(p.Session.Session)
		create := &zk.CreateRequest{Path: next.Path, Data: []byte(p.Line.Client.Identity), Acl: acl, Flags: zk.FlagEphemeral}
		o := p.Session.Multi(p.Session.Lifetime(), create, &zk.DeleteRequest{Path: p.Path, Version: -1})
		switch {
		case again && o.RefusedAt(create, zk.ErrNodeExists):
			return nil
		case o.Transient():
			continue
		case o.Applied(), !again, o.SessionOver():
			return o.Err()
		}
		// The attempt whose reply was lost may have been carried out all the same:
		// the servers check what refuses this one, an ACL for example, before they
		// check whether next exists. If the grant went on as a writer's, the
		// successor might hold at the same time.
		check := p.Session.Multi(p.Session.Lifetime(), &zk.CheckVersionRequest{Path: next.Path, Version: -1})
		switch {
		case check.Applied():
			return nil
		case check.Is(zk.ErrNoNode):
			return o.Err()
		case check.SessionOver():
			return check.Err()
		case !check.Transient(): // the outcome cannot be found out
			p.Line.Client.Tasks.Start(next.Withdraw)
			return zk.ErrNoNode
		}
	}
}
