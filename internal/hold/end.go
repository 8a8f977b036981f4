package hold

import (
	"errors"
	"log/slog"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/assert"
	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// End ends the grant for that cause, unless it has ended already.
func (g *Grant) End(cause error) {
	if g.endHeld(cause) {
		g.abandon()
	}
}

// EndAfter ends the grant d from now, for that cause, unless it has ended by then.
func (g *Grant) EndAfter(d time.Duration, cause error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return
	}
	g.limit = time.AfterFunc(d, func() {
		g.At.Client.Tasks.Add() // see releaseHandle
		defer g.At.Client.Tasks.End()
		g.End(cause)
	})
}

// endHeld is like End but does not delete the thing: the caller has to, if it returns true.
func (g *Grant) endHeld(cause error) (leave bool) {
	g.mu.Lock()
	handles, ok := g.markEnded(cause)
	changing := g.changing != nil
	g.mu.Unlock()
	if !ok {
		return false
	}
	g.announceEnd(cause, handles)
	return !changing // else the change deletes it: it knows which thing there is
}

// EndIdle is like End for a grant of a kept thing, and does nothing once somebody has been
// given it.
func (g *Grant) EndIdle(cause error) {
	g.mu.Lock()
	var ok bool
	if g.idle {
		_, ok = g.markEnded(cause)
	}
	g.mu.Unlock()
	if ok {
		g.announceEnd(cause, nil)
		g.abandon()
	}
}

// abandon deletes the thing of a grant that has ended, in the background (H8). The
// successor gets a signal that it is next only if the thing was held for certain until
// now, so not if the grant was lost (H7).
func (g *Grant) abandon() {
	t, signal := g.Thing(), !errors.Is(g.err, errs.ErrLost)
	g.At.Background(func() {
		<-g.announced // a change may have ended while the end is announced
		if assert.Failed != nil && !g.mayBeDeleted() {
			assert.Failed("H3, H6")
		}
		err := deleteUntilGone(t, signal)
		if why := (*errs.Deletion)(nil); errors.As(g.err, &why) {
			why.Resolve(g.Session.Session, err)
		}
	})
}

// markEnded marks the grant as ended, tells the Trace, and takes the handles. ok is false
// if it had ended before. g.mu must be held. A caller that gets true must call
// announceEnd.
func (g *Grant) markEnded(cause error) (handles map[*Handle]struct{}, ok bool) {
	if g.err != nil {
		return nil, false
	}
	if assert.Failed != nil && !watchdogOf(g.Session).has(g) {
		assert.Failed("H2")
	}
	g.err = cause
	g.noteEnd()
	handles, g.handles = g.handles, nil
	return handles, true
}

// noteEnd tells the Trace, once. g.mu must be held.
func (g *Grant) noteEnd() {
	if tell := g.tellEnd; tell != nil {
		g.tellEnd = nil
		tell(g.err, g.replaced)
	}
}

// announceEnd tells the session and the holder that the grant has ended. The thing is yet
// to be deleted (H3).
func (g *Grant) announceEnd(cause error, handles map[*Handle]struct{}) {
	close(g.Over)
	if g.limit != nil {
		g.limit.Stop()
	}
	if g.kept != nil {
		g.kept.Ended(g, cause)
	}
	watchdogOf(g.Session).drop(g)
	for l := range handles {
		l.end(cause)
	}
	close(g.announced)
	if !g.idle {
		g.At.Client.Held.End()
	}
}

// releaseHandle removes a handle. With the last one it deletes the thing, unless that is kept.
func (g *Grant) releaseHandle(l *Handle) error {
	// Close ends the grants that have not ended, and then waits for the tasks. So this
	// must be a task before the grant ends.
	c := g.At.Client
	c.Tasks.Add()
	defer c.Tasks.End()
	if g.kept != nil { // Shutdown must not end the next grant before PassOn has decided
		c.Held.Add()
		defer c.Held.End()
	}
	last, err := g.RemoveHandle(l)
	if err != nil || !last {
		return err
	}
	if assert.Failed != nil && l.own.Err() == nil {
		assert.Failed("H3")
	}
	if g.kept != nil {
		return g.kept.PassOn(g)
	}
	return g.ReleaseThing()
}

// mayBeDeleted reports whether nobody believes in the grant, and no change is under way.
func (g *Grant) mayBeDeleted() bool {
	select {
	case <-g.Over:
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.changing == nil
	default:
		return false
	}
}

// Release ends a grant that nobody has, and deletes its thing.
func (g *Grant) Release() error {
	g.At.Client.Tasks.Add() // see releaseHandle
	defer g.At.Client.Tasks.End()
	if g.endIfLost() != nil {
		return nil
	}
	g.mu.Lock()
	_, ok := g.markEnded(errs.ErrReleased)
	g.mu.Unlock()
	if !ok {
		return nil
	}
	g.announceEnd(errs.ErrReleased, nil)
	return g.ReleaseThing()
}

// ReleaseThing deletes the thing of a grant that was released: in the background if there is
// no connection, or if it is lost before the reply. ErrLost: the grant had ended before.
func (g *Grant) ReleaseThing() error {
	if assert.Failed != nil && !g.mayBeDeleted() {
		assert.Failed("H3, H6")
	}
	if assert.Failed != nil && !errors.Is(g.err, errs.ErrReleased) {
		assert.Failed("H7")
	}
	err := g.Thing().Delete(true, g.Session.Start)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errs.ErrItemDeleted):
		return errs.Lost(errs.ErrItemDeleted)
	case errors.Is(err, zk.ErrNoNode):
		return errs.Lost(errs.ErrDeleted)
	}
	g.abandon()
	switch {
	case errors.Is(err, zkconn.ErrSessionOver):
		if why := g.Session.Cause(); !errors.Is(why, errs.ErrClosed) {
			return errs.Lost(why)
		}
		return nil // the Client was closed after the release had begun
	case errors.Is(err, zk.ErrSessionExpired): // a server says so
		return errs.Lost(err)
	case zkconn.Transient(err): // it was lost if a server learned of the end of the session first
		return nil
	}
	return err
}

// RemoveHandle removes a handle. The grant ends with the last one (H4). If last is true, the
// caller must delete the thing.
func (g *Grant) RemoveHandle(l *Handle) (last bool, err error) {
	if err := g.endIfLost(); err != nil {
		return false, err
	}
	g.mu.Lock()
	if g.err == nil && len(g.handles) > 1 { // its contexts end before another handle can be the last (H3)
		g.mu.Unlock()
		l.end(errs.ErrReleased)
		g.mu.Lock()
	}
	if g.err != nil {
		g.mu.Unlock()
		return false, g.err
	}
	delete(g.handles, l)
	last, changing := len(g.handles) == 0, g.changing != nil
	if last {
		g.markEnded(errs.ErrReleased)
	}
	g.mu.Unlock()
	l.end(errs.ErrReleased)
	if last {
		g.announceEnd(errs.ErrReleased, nil)
	}
	return last && !changing, nil // else the change deletes the thing
}

// Withdraw deletes a thing that nobody holds. It returns when the thing is gone, or its session has
// ended.
func Withdraw(t Thing) { _ = deleteUntilGone(t, false) }

// deleteUntilGone deletes a thing (H8), until it is gone or its session has ended, which it returns as
// ErrSessionOver, or zk.ErrNoNode if it was gone before. Where the servers refuse, it goes on in
// longer and longer intervals. A Client that is being closed is about to end its session, which
// deletes everything at once.
func deleteUntilGone(t Thing, signal bool) error {
	z := t.Node()
	s, c := z.Session, z.Session.Client
	for wait := 100 * time.Millisecond; c.Closing.Err() == nil; {
		err := t.Delete(signal, func(ops ...any) (*zkconn.Transaction, error) { return s.Begin(s.UntilAnswered(), ops...) })
		switch {
		case err == nil, errors.Is(err, zk.ErrNoNode):
			return err
		case errors.Is(err, zkconn.ErrSessionOver):
			return zkconn.ErrSessionOver
		case zkconn.Transient(err):
			continue
		}
		c.Log(slog.LevelError, "cannot delete a place; it blocks the line until the session ends", "place", z.Path, "err", err)
		if !z.Pause(wait) {
			return zkconn.ErrSessionOver
		}
		wait = min(2*wait, s.Timeout())
	}
	return zkconn.ErrSessionOver
}
