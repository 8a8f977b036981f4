package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// grant is a place that holds. The leases of its holder, one for each entry,
// are handles of it.
type grant struct {
	p    *place
	over chan struct{} // closed when it has ended

	mu      sync.Mutex
	handles map[*Lease]struct{} // not released
	err     error               // why it has ended, nil while held

	since   time.Time
	guarded bool // its place is watched; s.mu guards it
}

// newGrant hands out the place. From here on the session's end, its clock and
// the deletion of the znode end the grant.
func newGrant(p *place) (*grant, error) {
	g := &grant{
		p: p, over: make(chan struct{}), handles: map[*Lease]struct{}{},
		since: time.Now(), guarded: p.own != nil,
	}
	if err := p.s.addGrant(g); err != nil {
		return nil, err
	}
	if p.own != nil && p.own.fired() { // before the session knew whose it is
		p.line.c.tasks.start(g.guard)
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
	s := g.p.s
	switch {
	case s.isOver():
		g.end(lost(s.cause))
	case !time.Now().Before(s.wire.ValidUntil()):
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

// guard sets the watch on the own place of a grant that has none.
func (g *grant) guard() {
	select {
	case <-g.over:
		return
	default:
	}
	_, err := g.p.s.watch(context.Background(), g.p.path) // ends with the session
	if errors.Is(err, zk.ErrNoNode) {
		g.end(lost(errDeleted))
	}
}

// end ends the grant, once.
func (g *grant) end(cause error) {
	g.mu.Lock()
	handles, ok := g.seal(cause)
	g.mu.Unlock()
	if !ok {
		return
	}
	g.finish(cause, handles)
	// A lost place is deleted plainly: the one behind is told that it is next only
	// where it was held for certain until now.
	g.p.line.c.tasks.start(func() { g.p.leave(!errors.Is(cause, ErrLost)) })
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
	g.p.s.dropGrant(g)
	for l := range handles {
		l.end(cause)
	}
	h := &g.p.line.c.hooks
	if errors.Is(cause, ErrLost) {
		h.tell(h.trace.Lost, g.p.event(TraceEvent{Err: cause}))
	} else {
		h.tell(h.trace.Released, g.p.event(TraceEvent{}))
	}
}

// enter adds a handle.
func (g *grant) enter() (*Lease, error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return nil, g.err
	}
	l := &Lease{g: g, cancels: map[*context.CancelCauseFunc]struct{}{}}
	g.handles[l] = struct{}{}
	return l, nil
}

// exit takes a handle away. The grant ends with the last one, under the same
// lock, so that a racing entry fails; then the place is deleted, in the
// background where there is no connection or it is lost before the answer.
func (g *grant) exit(l *Lease) error {
	if err := g.check(); err != nil {
		return err
	}
	g.mu.Lock()
	if g.err != nil {
		g.mu.Unlock()
		return g.err
	}
	delete(g.handles, l)
	last := len(g.handles) == 0
	if last {
		g.seal(ErrReleased)
	}
	g.mu.Unlock()
	l.end(ErrReleased)
	if !last {
		return nil
	}
	c := g.p.line.c
	c.tasks.add()
	defer c.tasks.finish()
	g.finish(ErrReleased, nil)
	err := g.p.remove(true, g.p.s.start)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, zk.ErrNoNode):
		return lost(errDeleted)
	}
	c.tasks.start(func() { g.p.leave(true) })
	if unsettled(err) || errors.Is(err, errSessionOver) {
		return nil
	}
	return err
}
