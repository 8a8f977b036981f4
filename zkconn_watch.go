package zkrecipes

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// watch is the one watch of its kind that a session has on a path. All who wait
// for the path share it: go-zookeeper cannot remove a watch, so one for each
// caller would pile up.
//
// Its events come from internal/wire, in the order in which they came over the
// connection, and before go-zookeeper passes them on: whoever sees done closed
// sees every watch fired whose event came earlier. What it was answered with
// holds until it fires, as far as this session can know.
type watch struct {
	armed chan struct{} // closed when the request that sets it has ended
	// Set before armed is closed.
	stat     zk.Stat
	data     []byte   // of a watch on data
	children []string // of a watch on children, in no order
	absent   bool     // of a watch on existence: there is no znode
	err      error

	done chan struct{} // closed when it fires
	// Set before done is closed. confirmed is the number of the connection on
	// which the request of a watch on data was answered, 0 if it was not before
	// the event.
	event     wire.Event
	confirmed uint64
}

// watchKind is what a watch hears of.
type watchKind int

const (
	ofData      watchKind = iota // changed, or the znode deleted; there must be one
	ofChildren                   // one more or one less, or the znode deleted
	ofExistence                  // created, changed or deleted
)

type watchKey struct {
	path string
	kind watchKind
}

// hears lists which kinds of watch an event fires.
var hears = map[int32][]watchKind{
	jute.EventCreated:         {ofExistence},
	jute.EventDataChanged:     {ofData, ofExistence},
	jute.EventChildrenChanged: {ofChildren},
	jute.EventDeleted:         {ofData, ofChildren, ofExistence},
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

// fires returns the channel that is closed when it does, nil for a watch that is
// not set.
func (w *watch) fires() <-chan struct{} {
	if w == nil {
		return nil
	}
	return w.done
}

func (w *watch) deleted() bool { return w.event.Type == jute.EventDeleted }

// watch returns the session's watch on path's data, setting it with one getData
// request if there is none; zk.ErrNoNode if there is no znode. A session's
// watches are few and go when their znodes do, which is when they fire.
func (s *session) watch(ctx context.Context, path string) (*watch, error) {
	return s.watchOf(ctx, watchKey{path, ofData})
}

// watchOf is watch for any kind. On existence it is no error that there is no
// znode.
func (s *session) watchOf(ctx context.Context, key watchKey) (*watch, error) {
	for {
		s.mu.Lock()
		w, ok := s.watches[key]
		if !ok {
			w = &watch{armed: make(chan struct{}), done: make(chan struct{})}
			s.watches[key] = w
			s.c.tasks.start(func() { s.arm(key, w) })
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

func (s *session) arm(key watchKey, w *watch) {
	defer close(w.armed)
	_, stat, err := call2(s, func(conn *zk.Conn) (_ struct{}, stat *zk.Stat, err error) {
		switch key.kind {
		case ofData:
			w.data, stat, _, err = conn.GetW(key.path)
		case ofChildren:
			w.children, stat, _, err = conn.ChildrenW(key.path)
		case ofExistence:
			var exists bool
			exists, stat, _, err = conn.ExistsW(key.path)
			w.absent = !exists
		}
		return struct{}{}, stat, err
	})
	if err == nil {
		w.stat = *stat
		return
	}
	w.err = err
	s.mu.Lock()
	if s.watches[key] == w {
		delete(s.watches, key)
	}
	s.mu.Unlock()
}

// onArmed and onEvent are called by internal/wire.

func (s *session) onArmed(path string, conn uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.watches[watchKey{path, ofData}]; w != nil {
		w.confirmed = conn
	}
}

func (s *session) onEvent(e wire.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, kind := range hears[e.Type] {
		key := watchKey{e.Path, kind}
		if w := s.watches[key]; w != nil {
			delete(s.watches, key)
			w.event = e
			close(w.done)
		}
	}
	if g := s.grants[e.Path]; g != nil {
		switch e.Type {
		case jute.EventDeleted:
			s.c.tasks.start(func() { g.deleted(e.Path) })
		case jute.EventDataChanged:
			s.c.tasks.start(g.guard)
		}
	}
}
