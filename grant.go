package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// grant is a place that holds. The holder's leases, one for each entry, are handles
// of it.
//
// A change is a transaction of the holder's that replaces the place, as a downgrade
// does, or that deletes it together with something else, see endWith. There is never
// more than one under way.
type grant struct {
	line    *line
	s       *session
	token   int64
	current atomic.Pointer[place] // a downgrade replaces it
	over    chan struct{}         // closed when the grant has ended

	mu       sync.Mutex
	handles  map[*handle]struct{} // not released
	err      error                // why the grant has ended, nil while it holds
	changing chan struct{}        // non-nil during a change, closed at its end

	since   time.Time // when the place was granted
	watched bool      // its place is watched; s.mu guards it
	deleted bool      // an event said that its place was deleted; s.mu guards it

	kept       keeper // nil: the place is deleted after a release; see keepBy
	idle       bool   // nobody has been given the grant yet; mu guards it
	downgraded bool   // mu guards it
	tellEnd    func() // called, with mu held, when the grant has ended; nil: nobody is told; mu guards it
}

// keeper decides what becomes of a place whose grant has ended.
type keeper interface {
	// Ended is called when the grant has ended, while its place's events are still
	// delivered.
	Ended(g *grant, cause error)
	// PassOn is called, after Ended, for a grant that was released. It deletes the place or
	// makes another grant of it.
	PassOn(g *grant) error
}

func (g *grant) place() *place { return g.current.Load() }

// newGrant makes a grant of a place whose turn it is. From here on the grant ends
// when the session ends, when the session's clock runs out, and when the znode is
// deleted.
func newGrant(p *place) (*grant, error) {
	g := &grant{
		line: p.line, s: p.s, token: tokenOf(p.czxid, p.nth),
		over: make(chan struct{}), handles: map[*handle]struct{}{},
		since: time.Now(), watched: p.own != nil && p.others == nil,
	}
	g.current.Store(p)
	if err := p.s.addGrant(g); err != nil {
		return nil, err
	}
	if p.own != nil && p.own.HasFired() { // before addGrant, so the event reached no grant
		p.line.c.tasks.Start(g.watchPlace)
	}
	return g, nil
}

// checkHeld returns why the grant has ended, nil while it holds. A grant that can no
// longer be trusted is ended first.
func (g *grant) checkHeld() error {
	g.mu.Lock()
	err := g.err
	g.mu.Unlock()
	if err != nil {
		return err
	}
	s := g.s
	switch {
	case s.IsOver():
		g.end(lost(s.Cause()))
	case !time.Now().Before(s.ValidUntil()):
		g.end(lost(errSilent))
	default:
		return nil
	}
	return g.checkHeld()
}

var (
	errSilent  = errors.New("no answer from the servers for as long as the session is known to live")
	errGone    = errors.New("its znode was deleted")
	errDeleted = fmt.Errorf("%w by somebody else", errGone)
)

// deletion is the cause of a grant's end if its znode was deleted: by somebody else, or by the
// servers with the session, of which the client may learn later. It is errGone until a server
// has answered a write or the session has ended.
type deletion struct {
	bySomebody error                 // its cause in the former case
	cause      atomic.Pointer[error] // nil: not known yet
}

func (d *deletion) Error() string { return d.Unwrap().Error() }

func (d *deletion) Unwrap() error {
	if cause := d.cause.Load(); cause != nil {
		return *cause
	}
	return errGone
}

// settle notes how the deletion of the place went, which is a write.
func (d *deletion) settle(s *session, err error) {
	cause := d.bySomebody
	if errors.Is(err, zkconn.ErrSessionOver) {
		cause = s.Cause()
	}
	if cause != nil && !errors.Is(cause, coreErrClosed) { // else nobody will know
		d.cause.Store(&cause)
	}
}

func lost(cause error) error {
	if errors.Is(cause, coreErrClosed) {
		return coreErrClosed
	}
	return &loss{cause}
}

// loss is ErrLost with a cause. Error builds the text on each call, because the cause may be
// settled later, see deletion.
type loss struct{ cause error }

func (l *loss) Error() string { return coreErrLost.Error() + ": " + l.cause.Error() }

func (l *loss) Unwrap() []error { return []error{coreErrLost, l.cause} }

// start sends a transaction of the holder's, unless the grant has ended. So it is sent
// before anything that the next holder of a kept place sends.
func (g *grant) start(ops ...any) (*zkconn.Transaction, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return nil, g.err
	}
	return g.s.Start(ops...)
}

// watchPlace sets the watches on the place of a grant that has none.
func (g *grant) watchPlace() {
	select {
	case <-g.over:
		return
	default:
	}
	p := g.place()
	for _, path := range p.paths() {
		if _, err := p.s.Watch(p.s.Lifetime(), path); errors.Is(err, zk.ErrNoNode) {
			g.placeGone(path, &deletion{bySomebody: errDeleted})
			return
		}
	}
}

// placeGone ends the grant, for that cause, after the place at path was deleted, unless the
// grant has another place by now.
func (g *grant) placeGone(path string, cause error) {
	g.awaitChange(g.s.Lifetime())
	if g.place().has(path) {
		g.end(lost(cause))
	}
}

// awaitChange waits for the end of the change that is under way, if any. It fails only
// if ctx ends first.
func (g *grant) awaitChange(ctx context.Context) error {
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
		return g.s.ContextErr(ctx)
	}
}

// end ends the grant for that cause, unless it has ended already.
func (g *grant) end(cause error) {
	if g.endHeld(cause) {
		g.leaveLater()
	}
}

// endHeld is like end but does not delete the place: the caller has to, if it returns true.
func (g *grant) endHeld(cause error) (leave bool) {
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

// endIdle is like end for a grant of a kept place, and does nothing once somebody has been
// given it.
func (g *grant) endIdle(cause error) {
	g.mu.Lock()
	var ok bool
	if g.idle {
		_, ok = g.markEnded(cause)
	}
	g.mu.Unlock()
	if ok {
		g.announceEnd(cause, nil)
		g.leaveLater()
	}
}

// leaveLater deletes the place of a grant that has ended, in the background. The
// successor gets a signal that it is next only if the place was held for certain until
// now, so not if the grant was lost.
func (g *grant) leaveLater() {
	d, why := g.departure(), (*deletion)(nil)
	if !errors.As(g.err, &why) {
		d.place.leaveLater(d.signal)
		return
	}
	g.line.c.background(g.line.path, func() { why.settle(g.s, d.place.leave(d.signal)) })
}

// departure is how the place of a grant that has ended is deleted.
func (g *grant) departure() departure { return departure{g.place(), !errors.Is(g.err, coreErrLost)} }

// markEnded marks the grant as ended, tells the Trace, and takes the handles. ok is false
// if it had ended before. g.mu must be held. A caller that gets true must call
// announceEnd.
func (g *grant) markEnded(cause error) (handles map[*handle]struct{}, ok bool) {
	if g.err != nil {
		return nil, false
	}
	g.err = cause
	g.noteEnd()
	handles, g.handles = g.handles, nil
	return handles, true
}

// noteEnd tells the Trace, once. g.mu must be held.
func (g *grant) noteEnd() {
	if tell := g.tellEnd; tell != nil {
		g.tellEnd = nil
		tell()
	}
}

// announceEnd tells the session and the holder that the grant has ended. The place is yet
// to be deleted.
func (g *grant) announceEnd(cause error, handles map[*handle]struct{}) {
	close(g.over)
	if g.kept != nil {
		g.kept.Ended(g, cause)
	}
	g.s.dropGrant(g)
	for l := range handles {
		l.end(cause)
	}
	if !g.idle {
		g.line.c.held.end()
	}
}

// enter adds a handle, which is exclusive or shared as k says. It returns ErrUpgrade if
// k is exclusive and the grant is not.
func (g *grant) enter(k kind) (*handle, error) {
	if err := g.checkHeld(); err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.err != nil:
		return nil, g.err
	case k.exclusive() && !g.exclusive():
		return nil, coreErrUpgrade
	}
	l := &handle{g: g, ends: map[<-chan struct{}]leaseEnd{}}
	g.handles[l] = struct{}{}
	return l, nil
}

// exclusive reports whether the grant is exclusive and stays so. g.mu must be held.
func (g *grant) exclusive() bool { return g.changing == nil && g.place().kind.exclusive() }

func (g *grant) holding() holding {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.exclusive() {
		return holdsAlone
	}
	return holdsShared
}

// release removes a handle. With the last one it deletes the place, unless that is kept.
func (g *grant) release(l *handle) error {
	// Close ends the grants that have not ended, and then waits for the tasks. So this
	// must be a task before the grant ends.
	c := g.line.c
	c.tasks.Add()
	defer c.tasks.Finish()
	last, err := g.removeHandle(l)
	if err != nil || !last {
		return err
	}
	if g.kept != nil {
		return g.kept.PassOn(g)
	}
	return g.leaveNow()
}

// quit ends a grant that nobody has, and deletes its place.
func (g *grant) quit() error {
	g.line.c.tasks.Add() // see release
	defer g.line.c.tasks.Finish()
	if g.checkHeld() != nil {
		return nil
	}
	g.mu.Lock()
	_, ok := g.markEnded(coreErrReleased)
	g.mu.Unlock()
	if !ok {
		return nil
	}
	g.announceEnd(coreErrReleased, nil)
	return g.leaveNow()
}

// leaveNow deletes the place of a grant that was released: in the background if there is
// no connection, or if it is lost before the reply. ErrLost: the grant had ended before.
func (g *grant) leaveNow() error {
	p := g.place()
	err := p.remove(true, p.s.Start)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, zk.ErrNoNode):
		return lost(errDeleted)
	}
	g.leaveLater()
	switch {
	case errors.Is(err, zkconn.ErrSessionOver):
		return lost(g.s.Cause())
	case errors.Is(err, zk.ErrSessionExpired): // a server says so
		return lost(err)
	case zkconn.Transient(err): // it was lost if a server learned of the end of the session first
		return nil
	}
	return err
}

// removeHandle removes a handle. The grant ends with the last one, under the same
// lock, so that a racing entry fails. If last is true, the caller must delete the
// place.
func (g *grant) removeHandle(l *handle) (last bool, err error) {
	if err := g.checkHeld(); err != nil {
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
		g.markEnded(coreErrReleased)
	}
	g.mu.Unlock()
	l.end(coreErrReleased)
	if last {
		g.announceEnd(coreErrReleased, nil)
	}
	return last && !changing, nil // else the change deletes the place
}

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
		case errors.Is(err, coreErrUncertain):
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
		return fmt.Errorf("%w: %w", coreErrUncertain, zkconn.ContextErr(ctx))
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
	var handles map[*handle]struct{}
	if done && !over {
		handles, _ = g.markEnded(coreErrReleased)
	}
	close(g.changing)
	g.changing = nil
	g.mu.Unlock()
	switch {
	case done && !over:
		g.announceEnd(coreErrReleased, handles)
	case !done && over:
		g.leaveLater()
	}
}
