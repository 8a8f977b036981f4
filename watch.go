package zkrecipes

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// watch is the one data watch that a session has on a path. All who wait for
// the path share it: go-zookeeper cannot remove a watch, so one for each
// caller would pile up.
//
// Its events come from internal/wire, in the order in which they came over the
// connection, and before go-zookeeper passes them on: whoever sees done closed
// sees every watch fired whose event came earlier.
type watch struct {
	armed chan struct{} // closed when the request that sets it has ended
	// Set before armed is closed.
	stat zk.Stat
	err  error

	done chan struct{} // closed when it fires
	// Set before done is closed. confirmed is the number of the connection on
	// which the request was answered, 0 if it was not before the event.
	event     wire.Event
	confirmed uint64
}

// fired reports whether the watch has fired.
func (w *watch) fired() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

func (w *watch) deleted() bool { return w.event.Type == jute.EventDeleted }

// watch returns the session's watch on path, setting it with one getData
// request if there is none; zk.ErrNoNode if there is no znode. A session's
// watches are few and go when their znodes do, which is when they fire.
func (s *session) watch(ctx context.Context, path string) (*watch, error) {
	for {
		s.mu.Lock()
		w, ok := s.watches[path]
		if !ok {
			w = &watch{armed: make(chan struct{}), done: make(chan struct{})}
			s.watches[path] = w
			s.c.tasks.start(func() { s.arm(path, w) })
		}
		s.mu.Unlock()
		select {
		case <-w.armed:
		case <-ctx.Done():
			return nil, ended(ctx)
		}
		if !unsettled(w.err) {
			return w, w.err
		}
	}
}

func (s *session) arm(path string, w *watch) {
	defer close(w.armed)
	_, stat, err := call2(s, func(conn *zk.Conn) ([]byte, *zk.Stat, error) {
		data, stat, _, err := conn.GetW(path)
		return data, stat, err
	})
	if err == nil {
		w.stat = *stat
		return
	}
	w.err = err
	s.mu.Lock()
	if s.watches[path] == w {
		delete(s.watches, path)
	}
	s.mu.Unlock()
}

// onArmed and onEvent are called by internal/wire.

func (s *session) onArmed(path string, conn uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.watches[path]; w != nil {
		w.confirmed = conn
	}
}

func (s *session) onEvent(e wire.Event) {
	if e.Type != jute.EventDeleted && e.Type != jute.EventDataChanged {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.watches[e.Path]; w != nil {
		delete(s.watches, e.Path)
		w.event = e
		close(w.done)
	}
	if g := s.grants[e.Path]; g != nil {
		if e.Type == jute.EventDeleted {
			s.c.tasks.start(func() { g.deleted(e.Path) })
		} else {
			s.c.tasks.start(g.guard)
		}
	}
}
