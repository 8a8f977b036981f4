package line

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/placename"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Grant is a place that holds. The holder's leases, one for each entry, are handles
// of it.
//
// A change is a transaction of the holder's that replaces the place, as a downgrade
// does, or that deletes it together with something else, see EndWith. There is never
// more than one under way.
type Grant struct {
	Line    *Line
	Session *session.Session
	Token   int64
	// current is replaced by a downgrade.
	current atomic.Pointer[Place]
	// Over is closed when the grant has ended.
	Over chan struct{}

	mu sync.Mutex
	// handles are those that are not released.
	handles map[*Handle]struct{}
	// err is why the grant has ended, nil while it holds.
	err error
	// changing is closed at the end of a change, and nil without one.
	changing chan struct{}

	// since is when the place was granted.
	since time.Time
	// watched: its place is watched. deleted: an event said that it was deleted. watchdog.mu
	// guards both.
	watched bool
	deleted bool

	// kept is nil if the place is deleted after a release. mu guards what follows, too.
	kept keeper
	// idle: nobody has been given the grant yet.
	idle       bool
	downgraded bool
	tellEnd    func(why error, downgraded bool)
}

func (g *Grant) Place() *Place { return g.current.Load() }

// newGrant makes a grant of a place whose turn it is. From here on the grant ends
// when the session ends, when the session's clock runs out, and when the znode is
// deleted.
func newGrant(p *Place) (*Grant, error) {
	g := &Grant{
		Line: p.Line, Session: p.Session, Token: TokenOf(p.Czxid, p.Nth),
		Over: make(chan struct{}), handles: map[*Handle]struct{}{},
		since: time.Now(), watched: p.Own != nil && p.Others == nil,
	}
	g.current.Store(p)
	if err := watchdogOf(p.Session).add(g); err != nil {
		return nil, err
	}
	if p.Own != nil && p.Own.HasFired() { // before add, so the event reached no grant
		p.Line.Client.Tasks.Start(g.watchPlace)
	}
	return g, nil
}

// endIfLost ends a grant that can no longer be trusted. It returns why the grant has ended, nil
// while it holds.
func (g *Grant) endIfLost() error {
	g.mu.Lock()
	err := g.err
	g.mu.Unlock()
	if err != nil {
		return err
	}
	s := g.Session
	switch {
	case s.IsOver():
		g.End(errs.Lost(s.Cause()))
	case !time.Now().Before(s.ValidUntil()):
		g.End(errs.Lost(errs.ErrSilent))
	default:
		return nil
	}
	return g.endIfLost()
}

// Start sends a transaction of the holder's, unless the grant has ended. So it is sent
// before anything that the next holder of a kept place sends.
func (g *Grant) Start(ops ...any) (*zkconn.Transaction, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return nil, g.err
	}
	return g.Session.Start(ops...)
}

// watchPlace sets the watches on the place of a grant that has none.
func (g *Grant) watchPlace() {
	select {
	case <-g.Over:
		return
	default:
	}
	p := g.Place()
	for _, path := range p.Paths() {
		if _, err := p.Session.Watch(p.Session.Lifetime(), path); errors.Is(err, zk.ErrNoNode) {
			g.placeGone(path, &errs.Deletion{BySomebody: errs.ErrDeleted})
			return
		}
	}
}

// placeGone ends the grant, for that cause, after the place at path was deleted, unless the
// grant has another place by now.
func (g *Grant) placeGone(path string, cause error) {
	g.awaitChange(g.Session.Lifetime())
	if g.Place().has(path) {
		g.End(errs.Lost(cause))
	}
}

// whyFailed is for a transaction of the holder's that found no znode at path, which guarded has
// returned. It returns why the grant has ended, nil if a downgrade was quicker and the grant has
// another place.
func (g *Grant) whyFailed(ctx context.Context, path string) error {
	if err := g.awaitChange(ctx); err != nil {
		return err
	}
	if !g.Place().has(path) {
		return nil
	}
	g.placeGone(path, errs.ErrDeleted) // servers carry out no write of a session that has ended
	return g.endIfLost()
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

// End ends the grant for that cause, unless it has ended already.
func (g *Grant) End(cause error) {
	if g.endHeld(cause) {
		g.abandon()
	}
}

// endHeld is like end but does not delete the place: the caller has to, if it returns true.
func (g *Grant) endHeld(cause error) (leave bool) {
	g.mu.Lock()
	handles, ok := g.markEnded(cause)
	changing := g.changing != nil
	g.mu.Unlock()
	if !ok {
		return false
	}
	g.announceEnd(cause, handles)
	return !changing // else the change deletes it: it knows which place there is
}

// EndIdle is like end for a grant of a kept place, and does nothing once somebody has been
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

// abandon deletes the place of a grant that has ended, in the background. The
// successor gets a signal that it is next only if the place was held for certain until
// now, so not if the grant was lost.
func (g *Grant) abandon() {
	p, signal, why := g.Place(), !errors.Is(g.err, errs.ErrLost), (*errs.Deletion)(nil)
	p.holds = p.holds && signal
	if !errors.As(g.err, &why) {
		p.abandon(signal)
		return
	}
	g.Line.Background(func() { why.Settle(g.Session.Session, p.leave(signal)) })
}

// markEnded marks the grant as ended, tells the Trace, and takes the handles. ok is false
// if it had ended before. g.mu must be held. A caller that gets true must call
// announceEnd.
func (g *Grant) markEnded(cause error) (handles map[*Handle]struct{}, ok bool) {
	if g.err != nil {
		return nil, false
	}
	g.err = cause
	g.noteEnd()
	handles, g.handles = g.handles, nil
	return handles, true
}

// Tell calls begun, during which the grant cannot end. What that returns is called once the grant
// has ended, with mu held; nil: nothing is called.
func (g *Grant) Tell(begun func() (ended func(why error, downgraded bool))) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tellEnd = begun(); g.err != nil {
		g.noteEnd()
	}
}

// noteEnd tells the Trace, once. g.mu must be held.
func (g *Grant) noteEnd() {
	if tell := g.tellEnd; tell != nil {
		g.tellEnd = nil
		tell(g.err, g.downgraded)
	}
}

// announceEnd tells the session and the holder that the grant has ended. The place is yet
// to be deleted.
func (g *Grant) announceEnd(cause error, handles map[*Handle]struct{}) {
	close(g.Over)
	if g.kept != nil {
		g.kept.Ended(g, cause)
	}
	watchdogOf(g.Session).drop(g)
	for l := range handles {
		l.end(cause)
	}
	if !g.idle {
		g.Line.Client.Held.End()
	}
}

// Enter adds a handle, which is exclusive or shared as k says. It returns ErrUpgrade if
// k is exclusive and the grant is not.
func (g *Grant) Enter(k placename.Kind) (*Handle, error) {
	if err := g.endIfLost(); err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.err != nil:
		return nil, g.err
	case k.Exclusive() && !g.exclusive():
		return nil, errs.ErrUpgrade
	}
	l := newHandle(g)
	g.handles[l] = struct{}{}
	return l, nil
}

// exclusive reports whether the grant is exclusive and stays so. g.mu must be held.
func (g *Grant) exclusive() bool { return g.changing == nil && g.Place().Kind.Exclusive() }

// HoldsAlone is exclusive for a caller without g.mu.
func (g *Grant) HoldsAlone() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.exclusive()
}

// releaseHandle removes a handle. With the last one it deletes the place, unless that is kept.
func (g *Grant) releaseHandle(l *Handle) error {
	// Close ends the grants that have not ended, and then waits for the tasks. So this
	// must be a task before the grant ends.
	c := g.Line.Client
	c.Tasks.Add()
	defer c.Tasks.Finish()
	last, err := g.RemoveHandle(l)
	if err != nil || !last {
		return err
	}
	if g.kept != nil {
		return g.kept.PassOn(g)
	}
	return g.ReleasePlace()
}

// Release ends a grant that nobody has, and deletes its place.
func (g *Grant) Release() error {
	g.Line.Client.Tasks.Add() // see releaseHandle
	defer g.Line.Client.Tasks.Finish()
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
	return g.ReleasePlace()
}

// ReleasePlace deletes the place of a grant that was released: in the background if there is
// no connection, or if it is lost before the reply. ErrLost: the grant had ended before.
func (g *Grant) ReleasePlace() error {
	p := g.Place()
	err := p.remove(true, p.Session.Start)
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
		return errs.Lost(g.Session.Cause())
	case errors.Is(err, zk.ErrSessionExpired): // a server says so
		return errs.Lost(err)
	case zkconn.Transient(err): // it was lost if a server learned of the end of the session first
		return nil
	}
	return err
}

// RemoveHandle removes a handle. The grant ends with the last one, under the same
// lock, so that a racing entry fails. If last is true, the caller must delete the
// place.
func (g *Grant) RemoveHandle(l *Handle) (last bool, err error) {
	if err := g.endIfLost(); err != nil {
		return false, err
	}
	g.mu.Lock()
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
	return last && !changing, nil // else the change deletes the place
}

// A grant can end by a transaction of the holder's that does more than delete the
// place: an Ack, for example. Until it is known whether the transaction was carried
// out, the place is not deleted in any other way.

// EndWith runs try, which ends the grant by a transaction. try must return once it is
// known whether the place is gone, and must not outlast the session. It closes sent
// when it has sent something. Before that, try ends with ctx. From then on only this
// call ends with ctx, and returns ErrUncertain.
func (g *Grant) EndWith(ctx context.Context, sent <-chan struct{}, try func() (done bool, err error)) error {
	// Close must wait for the task that this starts, so this must be a task, too.
	g.Line.Client.Tasks.Add()
	defer g.Line.Client.Tasks.Finish()
	if err := g.beginChange(ctx); err != nil {
		return err
	}
	known, result := make(chan struct{}), make(chan error, 1)
	g.Line.Client.Tasks.Start(func() {
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

// endChange ends the change that beginChange has begun. If done, the place is deleted
// and the grant ends. Else the grant goes on, and if it has ended in the meantime its
// place is deleted.
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
