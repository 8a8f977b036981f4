package zkconn

import (
	"context"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Watch is the one watch of its kind that a session has on a path. All callers
// that wait for the path share it: go-zookeeper cannot remove a watch, so one for
// each caller would pile up.
//
// Events come from internal/wire in the order in which they came over the
// connection, before go-zookeeper passes them on. So a caller that sees Fired closed
// sees every watch fired whose event came earlier. The exported fields are what
// the server answered. They hold until the watch fires, as far as this session can
// know.
type Watch struct {
	Stat     zk.Stat
	Data     []byte   // ofData
	Children []string // ofChildren, in no order
	Absent   bool     // ofExistence: there is no znode

	key   watchKey
	armed chan struct{} // closed when the request that sets the watch has ended
	err   error         // of that request, set before armed is closed

	firing
	// event and confirmed are set before it fires. confirmed is the connection on
	// which a watch on data or children was answered, 0 if the event came first.
	event     wire.Event
	confirmed uint64
	volatile  atomic.Bool // see FireInNewHistory
	sets      []*WatchSet // firing.mu guards it
}

// watchKind says which changes fire a watch.
type watchKind int

// The kinds of watches.
const (
	ofData      watchKind = iota // data changed, or znode deleted; the znode must exist
	ofChildren                   // a child created or deleted, or znode deleted
	ofExistence                  // znode created, changed or deleted
)

type watchKey struct {
	path string
	kind watchKind
}

// firedBy lists the kinds of watches that an event fires.
var firedBy = map[int32][]watchKind{
	jute.EventCreated:         {ofExistence},
	jute.EventDataChanged:     {ofData, ofExistence},
	jute.EventChildrenChanged: {ofChildren},
	jute.EventDeleted:         {ofData, ofChildren, ofExistence},
}

// Fired returns a channel that is closed when the watch fires. It is nil for a nil
// Watch.
func (w *Watch) Fired() <-chan struct{} {
	if w == nil {
		return nil
	}
	return w.fired
}

func (w *Watch) fire(e wire.Event) {
	w.firing.fire(func() {
		w.event = e
		for _, set := range w.sets {
			set.put(w)
		}
		w.sets = nil
	})
}

// Deleted reports whether the znode was deleted. It is valid for a watch that has
// fired.
func (w *Watch) Deleted() bool { return w.event.Type == jute.EventDeleted }

// Changed reports whether the znode's data was changed, and the connection that
// the event came over. It is valid for a watch that has fired.
func (w *Watch) Changed() (conn uint64, ok bool) {
	return w.event.Conn, w.event.Type == jute.EventDataChanged
}

// ChildrenChanged is like Changed for the znode's children.
func (w *Watch) ChildrenChanged() (conn uint64, ok bool) {
	return w.event.Conn, w.event.Type == jute.EventChildrenChanged
}

// ConfirmedOn reports whether a watch on data or children that was answered, whether it
// has fired or not, was answered on that connection. After a reconnect go-zookeeper arms
// watches in any order and in chunks, and no answer confirms a single one of them.
func (w *Watch) ConfirmedOn(conn uint64) bool { return w.confirmed == conn }

// Watch returns the session's watch on path's data, or zk.ErrNoNode. It costs one
// request if the session has none. A session's watches are few and fire when their
// znodes are deleted.
func (s *Session) Watch(ctx context.Context, path string) (*Watch, error) {
	return s.watchOf(ctx, watchKey{path, ofData})
}

// StartWatch starts to set the watch that Watch returns, if the session has none. It
// does not block. The server may answer later requests first.
func (s *Session) StartWatch(path string) *Watch { return s.startWatch(watchKey{path, ofData}) }

// WatchChildren is like Watch for the znode's children.
func (s *Session) WatchChildren(ctx context.Context, path string) (*Watch, error) {
	return s.watchOf(ctx, watchKey{path, ofChildren})
}

// WatchExistence is like Watch, but it is no error that there is no znode.
func (s *Session) WatchExistence(ctx context.Context, path string) (*Watch, error) {
	return s.watchOf(ctx, watchKey{path, ofExistence})
}

func (s *Session) watchOf(ctx context.Context, key watchKey) (*Watch, error) {
	return s.Await(ctx, s.startWatch(key))
}

func (s *Session) startWatch(key watchKey) *Watch {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, ok := s.watches[key]
	if !ok {
		w = &Watch{key: key, armed: make(chan struct{}), firing: newFiring()}
		s.watches[key] = w // Z4
		s.loseTreesAt(key.path)
		s.cfg.Tasks.Start(func() { s.arm(w) })
	}
	return w
}

// Await returns a watch that was started, or the one that took its place where a
// connection was lost, once the server has answered. It returns zk.ErrNoNode where Watch
// does.
func (s *Session) Await(ctx context.Context, w *Watch) (*Watch, error) {
	for {
		if err := s.await(ctx, w.armed); err != nil {
			return nil, err
		}
		if !Transient(w.err) {
			return w, w.err
		}
		w = s.startWatch(w.key)
	}
}

func (s *Session) arm(w *Watch) {
	defer close(w.armed)
	key := w.key
	var stat *zk.Stat
	err := s.call(func(conn *zk.Conn) (err error) {
		switch key.kind {
		case ofData:
			w.Data, stat, _, err = conn.GetW(key.path)
		case ofChildren:
			w.Children, stat, _, err = conn.ChildrenW(key.path)
		case ofExistence:
			var exists bool
			exists, stat, _, err = conn.ExistsW(key.path)
			w.Absent = !exists
		}
		return err
	})
	if err == nil {
		w.Stat = *stat
		return
	}
	w.err = err
	s.mu.Lock()
	if s.watches[key] == w {
		delete(s.watches, key)
	}
	s.mu.Unlock()
}

// call runs f, which sets a watch, with the session's Conn, and returns when f does: when the request
// is answered, its connection is lost, or the session ends. While disconnected that can take as long
// as the session lives. go-zookeeper sets the watch again after a reconnect.
func (s *Session) call(f func(*zk.Conn) error) error {
	s.mu.Lock()
	if s.cause != nil || s.draining {
		s.mu.Unlock()
		return ErrSessionOver
	}
	s.calling.Add()
	s.mu.Unlock()
	defer s.calling.End()
	err := f(s.conn)
	if Transient(err) && s.IsOver() {
		err = ErrSessionOver
	}
	s.backOff(s.UntilAnswered(), opWatch, err)
	return err
}

// onArmed is called by internal/wire.
func (s *Session) onArmed(path string, children bool, conn uint64) {
	kind := ofData
	if children {
		kind = ofChildren
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.watches[watchKey{path, kind}]; w != nil {
		w.confirmed = conn
	}
}

// onEvent is called by internal/wire. It fires the watches before it passes the event on (Z4). So
// a caller that first registers for a path's events, and then finds its watch not fired,
// receives the event.
func (s *Session) onEvent(e wire.Event) {
	if e.Type == jute.EventDeleted {
		if e.Rearmed {
			s.noteRearmed(e.Path)
		}
		s.account.deleted(e.Path)
	}
	s.mu.Lock()
	for _, kind := range firedBy[e.Type] {
		key := watchKey{e.Path, kind}
		if w := s.watches[key]; w != nil {
			delete(s.watches, key)
			w.fire(e)
		}
	}
	s.notePredecessor(e)
	s.noteTrees(e)
	s.mu.Unlock()
	s.cfg.Event(e)
}
