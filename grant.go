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

// grant is a place that holds. The leases of its holder, one for each entry,
// are handles of it.
type grant struct {
	line  *line
	s     *session
	token Token
	at    atomic.Pointer[place] // a downgrade moves it
	over  chan struct{}         // closed when it has ended

	mu      sync.Mutex
	handles map[*Lease]struct{} // not released
	err     error               // why it has ended, nil while held
	moving  chan struct{}       // non-nil while a downgrade is under way, closed at its end

	since   time.Time
	watched bool // its place is watched; s.mu guards it
}

func (g *grant) place() *place { return g.at.Load() }

// newGrant hands out the place. From here on the session's end, its clock and
// the deletion of the znode end the grant.
func newGrant(p *place) (*grant, error) {
	g := &grant{
		line: p.line, s: p.s, token: p.token,
		over: make(chan struct{}), handles: map[*Lease]struct{}{},
		since: time.Now(), watched: p.own != nil,
	}
	g.at.Store(p)
	if err := p.s.addGrant(g); err != nil {
		return nil, err
	}
	if p.own != nil && p.own.HasFired() { // before the session knew whose it is
		p.line.c.tasks.Start(g.watchPlace)
	}
	h := &p.line.c.hooks
	h.tell(h.trace.Granted, p.event(TraceEvent{}))
	return g, nil
}

// check ends a grant that can no longer be trusted, and returns why it has
// ended.
func (g *grant) check() error {
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
	return g.check()
}

var (
	errSilent  = errors.New("no answer from the servers for as long as the session is known to live")
	errDeleted = errors.New("its znode was deleted by somebody else")
)

func lost(cause error) error {
	if errors.Is(cause, ErrClosed) {
		return ErrClosed
	}
	return fmt.Errorf("%w: %w", ErrLost, cause)
}

// watchPlace sets the watch on the own place of a grant that has none.
func (g *grant) watchPlace() {
	select {
	case <-g.over:
		return
	default:
	}
	p := g.place()
	_, err := p.s.Watch(p.s.Lifetime(), p.path)
	if errors.Is(err, zk.ErrNoNode) {
		g.placeDeleted(p.path)
	}
}

// placeDeleted ends a grant whose place is gone, if that is still its place.
func (g *grant) placeDeleted(path string) {
	g.settled(g.s.Lifetime())
	if g.place().path == path {
		g.end(lost(errDeleted))
	}
}

// settled waits until no downgrade is under way; the error is that ctx has
// ended before.
func (g *grant) settled(ctx context.Context) error {
	g.mu.Lock()
	moving := g.moving
	g.mu.Unlock()
	if moving == nil {
		return nil
	}
	select {
	case <-moving:
		return nil
	case <-ctx.Done():
		return zkconn.ContextErr(ctx)
	}
}

// end ends the grant, once.
func (g *grant) end(cause error) {
	g.mu.Lock()
	handles, ok := g.seal(cause)
	moving := g.moving != nil
	g.mu.Unlock()
	if !ok {
		return
	}
	g.finish(cause, handles)
	if !moving { // else the downgrade does it: it knows which place there is
		g.leave()
	}
}

// leave has the place of a grant that has ended deleted by the background. A
// lost one is deleted plainly: the one behind is told that it is next only where
// it was held for certain until now.
func (g *grant) leave() {
	p, signal := g.place(), !errors.Is(g.err, ErrLost)
	p.leaveLater(signal)
}

// seal makes g ended; g.mu is held. Whoever gets true calls finish.
func (g *grant) seal(cause error) (handles map[*Lease]struct{}, ok bool) {
	if g.err != nil {
		return nil, false
	}
	g.err = cause
	handles, g.handles = g.handles, nil
	return handles, true
}

// finish tells the holder. The place is yet to be deleted.
func (g *grant) finish(cause error, handles map[*Lease]struct{}) {
	close(g.over)
	g.s.dropGrant(g)
	for l := range handles {
		l.end(cause)
	}
	h := &g.line.c.hooks
	if errors.Is(cause, ErrLost) {
		h.tell(h.trace.Lost, g.place().event(TraceEvent{Err: cause}))
	} else {
		h.tell(h.trace.Released, g.place().event(TraceEvent{}))
	}
}

// enter adds a handle, for an exclusive holder or one that shares.
func (g *grant) enter(k kind) (*Lease, error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.err != nil:
		return nil, g.err
	case k.exclusive() && !g.exclusive():
		return nil, ErrUpgrade
	}
	l := &Lease{g: g, cancels: map[*context.CancelCauseFunc]struct{}{}}
	g.handles[l] = struct{}{}
	return l, nil
}

// exclusive reports whether the grant is, and stays so; g.mu is held.
func (g *grant) exclusive() bool { return g.moving == nil && g.place().kind.exclusive() }

func (g *grant) holding() holding {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.exclusive() {
		return holdsAlone
	}
	return holdsShared
}

// exit takes a handle away, and with the last one deletes the place: in the
// background where there is no connection or it is lost before the answer.
func (g *grant) exit(l *Lease) error {
	// Close ends what has not ended, and then waits for the tasks: so from before
	// the end on this is one.
	c := g.line.c
	c.tasks.Add()
	defer c.tasks.Finish()
	last, err := g.drop(l)
	if err != nil || !last {
		return err
	}
	p := g.place()
	err = p.remove(true, p.s.Start)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, zk.ErrNoNode):
		return lost(errDeleted)
	}
	g.leave()
	if zkconn.Transient(err) || errors.Is(err, zkconn.ErrSessionOver) {
		return nil
	}
	return err
}

// drop takes a handle away. The grant ends with the last one, under the same
// lock, so that a racing entry fails; last: its place is for the caller to delete.
func (g *grant) drop(l *Lease) (last bool, err error) {
	if err := g.check(); err != nil {
		return false, err
	}
	g.mu.Lock()
	if g.err != nil {
		g.mu.Unlock()
		return false, g.err
	}
	delete(g.handles, l)
	last, moving := len(g.handles) == 0, g.moving != nil
	if last {
		g.seal(ErrReleased)
	}
	g.mu.Unlock()
	l.end(ErrReleased)
	if last {
		g.finish(ErrReleased, nil)
	}
	return last && !moving, nil // else the downgrade does it
}
