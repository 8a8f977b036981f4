package zkconn

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// TreeWatch collects the events of a znode, which need not exist, and of all znodes below it. Its
// one watch on the servers is persistent and recursive (addWatch, since ZooKeeper 3.6). It lives on
// the connection on which it was set: if that is lost, so is the TreeWatch.
//
// Before 3.9 (ZOOKEEPER-4466) a server has one watch for a connection and a path, with the mode of
// the latest request. So there a session cannot have a TreeWatch and another watch on one path.
type TreeWatch struct {
	s    *Session
	path string
	conn uint64
	lost chan struct{}
	err  error // set before lost is closed; nil: the connection was lost

	mu     sync.Mutex
	events map[string]TreeEvents // by path
	some   chan struct{}         // has one if there are any
}

// TreeEvents is what a TreeWatch has seen of a znode.
type TreeEvents struct {
	Gone    bool // the last event was a deletion
	WasGone bool // one of them was
}

// ErrSharedWatch is the error of a TreeWatch on a path with another watch, before ZooKeeper 3.9.
var ErrSharedWatch = errors.New("servers before ZooKeeper 3.9 cannot watch a tree for a client that watches its root in another way")

// WatchTree sets a TreeWatch as soon as requests pass, and returns once it is set. Call Close in
// the end. It costs two requests.
func (s *Session) WatchTree(ctx context.Context, path string) (w *TreeWatch, err error) {
	err = s.untilAnswered(ctx, jute.OpAddWatch, func() error {
		w, err = s.startTree(ctx, path)
		return err
	})
	return w, err
}

func (s *Session) startTree(ctx context.Context, path string) (*TreeWatch, error) {
	nc, err := s.passing()
	if err != nil {
		return nil, err
	}
	// Servers that tell recursive watches from others keep them apart.
	code, err := s.answer(ctx, nc.Call(jute.OpCheckWatches, treeFrame(path, jute.WatcherPersistentRecursive)))
	if err != nil {
		return nil, err
	}
	apart := code == 0 || code == jute.ErrNoWatcher
	w := &TreeWatch{s: s, path: path, lost: make(chan struct{}), events: map[string]TreeEvents{}, some: make(chan struct{}, 1)}
	s.treeCalls.Lock()
	if err := s.register(w, nc, apart); err != nil {
		s.treeCalls.Unlock()
		return nil, err
	}
	add := nc.Call(jute.OpAddWatch, treeFrame(path, jute.WatchPersistentRecursive))
	s.treeCalls.Unlock()
	if isClosed(w.lost) {
		s.fireAt(path) // another watch may have been set first, whose place this request takes
	}
	if code, err = s.answer(ctx, add); err == nil {
		err = codeError(code)
	}
	if err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// register adds a TreeWatch on that connection. apart: the servers keep it apart from other watches.
func (s *Session) register(w *TreeWatch, nc *wire.Conn, apart bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nc != nc {
		return ErrNotSent
	}
	w.conn = s.number
	if apart {
		s.treesApart = w.conn
	} else if s.hasWatch(w.path) {
		return ErrSharedWatch
	}
	s.trees = append(s.trees, w)
	return nil
}

// hasWatch reports whether there is a watch on path that is no TreeWatch. s.mu must be held.
func (s *Session) hasWatch(path string) bool {
	for _, kind := range []watchKind{ofData, ofChildren, ofExistence} {
		if s.watches[watchKey{path, kind}] != nil {
			return true
		}
	}
	return s.predecessors[path] != nil
}

// fireAt has the watches on path that are no TreeWatches set again.
func (s *Session) fireAt(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, kind := range []watchKind{ofData, ofChildren, ofExistence} {
		if w := s.watches[watchKey{path, kind}]; w != nil {
			delete(s.watches, w.key)
			w.fire(wire.Event{Path: path})
		}
	}
	if w := s.predecessors[path]; w != nil {
		delete(s.predecessors, path)
		w.fire(func() { w.lost = true })
	}
}

func treeFrame(path string, kind int32) []byte {
	frame := jute.AppendString(make([]byte, wire.Headroom, wire.Headroom+8+len(path)), path)
	return jute.AppendInt32(frame, kind)
}

// answer returns the code of the answer to a request. If the outcome is not known, the error is
// transient.
func (s *Session) answer(ctx context.Context, call *wire.Call) (code int32, err error) {
	if err := s.await(ctx, call.Done()); err != nil {
		return 0, err
	}
	code, _, err = call.Result()
	if err != nil {
		return 0, ErrNotSent // with the connection, the server has forgotten the watch
	}
	if err := codeError(code); Transient(err) {
		return 0, err
	}
	return code, nil
}

// Lost returns a channel that is closed when the TreeWatch is lost.
func (w *TreeWatch) Lost() <-chan struct{} { return w.lost }

// Err returns why the TreeWatch, which is lost, cannot be set again. nil: it can be.
func (w *TreeWatch) Err() error { return w.err }

// Some returns a channel that has something if Take has.
func (w *TreeWatch) Some() <-chan struct{} { return w.some }

// Take returns the events that have come since it was called last, by the paths of their znodes. The
// server sends an event ahead of the reply to any read, on this connection, that shows the change.
func (w *TreeWatch) Take() map[string]TreeEvents {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.some:
	default:
	}
	if len(w.events) == 0 {
		return nil
	}
	events := w.events
	w.events = map[string]TreeEvents{}
	return events
}

func (w *TreeWatch) has(path string) bool {
	return w.path == "/" || strings.HasPrefix(path, w.path) && (len(path) == len(w.path) || path[len(w.path)] == '/')
}

// noteTrees passes an event on. s.mu must be held.
func (s *Session) noteTrees(e wire.Event) {
	for _, w := range s.trees {
		if w.conn != e.Conn || !w.has(e.Path) || e.Type == jute.EventChildrenChanged {
			continue // the child has an event of its own
		}
		w.mu.Lock()
		gone := e.Type == jute.EventDeleted
		w.events[e.Path] = TreeEvents{gone, gone || w.events[e.Path].WasGone}
		wake(w.some)
		w.mu.Unlock()
	}
}

// loseTreesAt is called when another watch on path is about to be set, which takes the place of
// TreeWatches before 3.9. s.mu must be held.
func (s *Session) loseTreesAt(path string) {
	s.loseTrees(ErrSharedWatch, func(w *TreeWatch) bool { return w.path == path && w.conn != s.treesApart })
}

// loseTrees loses the TreeWatches for which lost is true. s.mu must be held.
func (s *Session) loseTrees(why error, lost func(*TreeWatch) bool) {
	kept := s.trees[:0]
	for _, w := range s.trees {
		if !lost(w) {
			kept = append(kept, w)
			continue
		}
		w.err = why
		close(w.lost)
	}
	clear(s.trees[len(kept):])
	s.trees = kept
}

// Close takes the watch back, unless another TreeWatch has it, too. It does not wait for the answer.
func (w *TreeWatch) Close() {
	s := w.s
	s.treeCalls.Lock() // so that no watch is added meanwhile that this would remove
	defer s.treeCalls.Unlock()
	if nc, kind := s.unregister(w); nc != nil {
		nc.Call(jute.OpRemoveWatches, treeFrame(w.path, kind))
		if kind == jute.WatcherAny {
			s.fireAt(w.path) // another watch may have been set meanwhile, which this request removes, too
		}
	}
}

// unregister removes a TreeWatch. If its watch is to be removed, it returns the connection and the
// kind of the watch.
func (s *Session) unregister(w *TreeWatch) (nc *wire.Conn, kind int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stands, shared := false, false
	s.loseTrees(nil, func(o *TreeWatch) bool {
		stands = stands || o == w
		shared = shared || o != w && o.path == w.path
		return o == w
	})
	rest := w.err == ErrSharedWatch // the other watch has taken the place of a part of it
	switch {
	case !stands && !rest, shared, !s.up, s.nc == nil, s.number != w.conn:
		return nil, 0
	case s.treesApart == w.conn:
		return s.nc, jute.WatcherPersistentRecursive
	}
	return s.nc, jute.WatcherAny
}
