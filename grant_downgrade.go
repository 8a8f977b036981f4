package zkrecipes

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// A downgrade moves a grant from the writer's place to a reader's place with the same
// uuid and number, in one transaction. So no other place can come between, and if the
// reply is lost the name tells whether the transaction was carried out. No signal is
// sent: the successor lists the line and finds the place that it has to wait for.

var errReentered = errors.New("re-entries are open")

// downgrade turns an exclusive grant into a shared one, if l is its only handle.
func (g *grant) downgrade(ctx context.Context, l *handle) error {
	// Close must wait for the task that this starts, so this must be a task, too.
	g.line.c.tasks.Add()
	defer g.line.c.tasks.Finish()
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
		return coreErrReleased
	case g.changing != nil: // another change was quicker
		g.mu.Unlock()
		return g.downgrade(ctx, l)
	case !g.place().kind.exclusive():
		g.mu.Unlock()
		return nil
	case len(g.handles) > 1:
		g.mu.Unlock()
		return errReentered
	}
	g.changing = make(chan struct{})
	g.mu.Unlock()
	next := g.place().asReader()
	g.s.expect(g, next.path) // an event may come before the reply
	result := make(chan error, 1)
	g.line.c.tasks.Start(func() { result <- g.move(next) })
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return zkconn.ContextErr(ctx)
	}
}

// asReader returns the reader's place that replaces this one.
func (p *place) asReader() *place {
	next := *p
	number := strings.TrimPrefix(p.name[strings.LastIndex(p.name, string(p.kind)):], string(p.kind))
	next.kind = kindRead
	next.name = "_c_" + p.uuid + "-" + string(kindRead) + number
	next.path = p.line.abs() + "/" + next.name
	next.own = nil
	return &next
}

// move carries the downgrade out. If the grant has ended in the meantime, it deletes
// whichever place there is then, in the background.
func (g *grant) move(next *place) error {
	last := g.place()
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
		g.s.forget(g, last.path)
	}
	if err != nil || over {
		g.s.forget(g, next.path)
	} else { // watched once it has lived for a while, like other grants
		time.AfterFunc(g.s.Timeout()/10, func() { g.line.c.tasks.Start(g.watchPlace) })
	}
	switch {
	case over:
		g.leaveLater()
		return g.checkHeld()
	case errors.Is(err, zkconn.ErrSessionOver):
		return g.checkHeld()
	case errors.Is(err, zk.ErrNoNode):
		g.end(lost(errDeleted))
		return g.checkHeld()
	}
	return err
}

// replace creates next and deletes the place, in one transaction that is sent until
// its outcome is known. It returns zk.ErrNoNode if the place was gone, and also if the
// outcome cannot be found out.
func (p *place) replace(next *place) error {
	for again := false; ; again = true {
		acl, _ := p.bears.list(p.s)
		create := &zk.CreateRequest{Path: next.path, Data: []byte(p.line.c.identity), Acl: acl, Flags: zk.FlagEphemeral}
		o := p.s.Multi(p.s.Lifetime(), create, &zk.DeleteRequest{Path: p.path, Version: -1})
		switch {
		case again && o.RefusedAt(create, zk.ErrNodeExists):
			p.s.NoteGone(p.path)
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
		check := p.s.Multi(p.s.Lifetime(), &zk.CheckVersionRequest{Path: next.path, Version: -1})
		switch {
		case check.Applied():
			p.s.NoteGone(p.path)
			return nil
		case check.Is(zk.ErrNoNode):
			return o.Err()
		case check.SessionOver():
			return check.Err()
		case !check.Transient(): // the outcome cannot be found out
			p.line.c.tasks.Start(func() { next.leave(false) })
			return zk.ErrNoNode
		}
	}
}
