package zkconn

import (
	"context"
	"slices"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// PredecessorWatch waits for a znode to be deleted, and tells whether it was released: its data
// were set in the transaction that deleted it. Watches fire once: so a data watch tells of the
// set, and a child watch, which a set leaves alone, of the deletion. Since ZooKeeper 3.9 an event
// bears the zxid of its transaction (ZOOKEEPER-4655), and the two are equal. A set and a deletion in
// two transactions never bear one zxid.
//
// Both watches live on the connection on which they were set, and are never armed again: such
// events bear no zxid. If the connection is lost, so is the PredecessorWatch. It is also lost with a
// child of the znode, which uses up the child watch: places that somebody else makes to last can
// have children.
type PredecessorWatch struct {
	path  string
	conn  uint64
	armed chan struct{} // closed when the requests that set it have ended
	err   error         // of those, set before armed is closed
	firing
	// Session.mu guards what follows, until it fires.
	answered bool       // an event that came before is not believed
	changed  int64      // the zxid of the last event that said that the data were set; 0: none
	event    wire.Event // that of the deletion
	released bool
	lost     bool
}

// Fired returns a channel that is closed when the znode was deleted, or the watch is lost.
func (w *PredecessorWatch) Fired() <-chan struct{} { return w.fired }

// IsLost reports whether the watch, which has fired, did so because it was lost, see
// PredecessorWatch.
func (w *PredecessorWatch) IsLost() bool { return w.lost }

// IsReleased reports whether the watch, which has fired, did so because the znode was released.
func (w *PredecessorWatch) IsReleased() bool { return w.released }

// Event returns the event of the deletion, if the watch has fired and is not lost.
func (w *PredecessorWatch) Event() wire.Event { return w.event }

// TellsZxids reports whether events of the newest connection bear zxids, as far as is known. Those
// of servers before 3.9 do not.
func (s *Session) TellsZxids() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tellsZxids()
}

func (s *Session) tellsZxids() bool { return s.withoutZxids != s.number }

// WatchPredecessor sets a PredecessorWatch, which is shared by all that wait for the path, once
// requests pass. zk.ErrNoNode: there is no znode. It costs two requests in one write, one where
// events bear no zxids: then nobody can tell whether a znode was released.
func (s *Session) WatchPredecessor(ctx context.Context, path string) (w *PredecessorWatch, err error) {
	err = s.untilAnswered(ctx, opWatch, func() error {
		if w, err = s.startPredecessor(path); err == nil {
			err = s.await(ctx, w.armed)
		}
		if err == nil {
			err = w.err
		}
		return err
	})
	return w, err
}

// startPredecessor sends the requests, unless that was done on this connection. It does not block.
func (s *Session) startPredecessor(path string) (*PredecessorWatch, error) {
	data, children := watchFrame(path), watchFrame(path)
	nc, err := s.passing(data)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	if w := s.predecessors[path]; w != nil && w.conn == s.number {
		s.mu.Unlock()
		return w, nil
	}
	if s.nc != nc {
		s.mu.Unlock()
		return nil, ErrNotSent
	}
	w := &PredecessorWatch{path: path, conn: s.number, armed: make(chan struct{}), firing: newFiring()}
	s.predecessors[path] = w
	s.loseTreesAt(path)
	both := s.tellsZxids()
	s.mu.Unlock()
	// The children are asked for last, so the znode stood when both watches were set.
	if both {
		nc.CallBoth(jute.OpGetData, data, jute.OpGetChildren, children, func(first, second *wire.Call) { s.predecessorArmed(w, first, second) })
	} else {
		nc.CallThen(jute.OpGetChildren, children, func(only *wire.Call) { s.predecessorArmed(w, only) })
	}
	return w, nil
}

func watchFrame(path string) []byte {
	frame := readFrame(jute.OpGetData, path)
	frame[len(frame)-1] = 1
	return frame
}

// predecessorArmed is called when the requests have ended, in the order of the events.
func (s *Session) predecessorArmed(w *PredecessorWatch, calls ...*wire.Call) {
	defer close(w.armed)
	for _, call := range slices.Backward(calls) { // if the last has a reply, so has the first
		if w.err == nil {
			_, w.err = (&Reading{call: call}).record()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.answered = true
	if w.err != nil && s.predecessors[w.path] == w {
		delete(s.predecessors, w.path)
	}
}

// notePredecessor passes an event on to the path's PredecessorWatch. s.mu must be held.
func (s *Session) notePredecessor(e wire.Event) {
	w := s.predecessors[e.Path]
	if w == nil || w.conn != e.Conn {
		return
	}
	if e.Zxid <= 0 {
		s.withoutZxids = e.Conn
	}
	switch e.Type {
	case jute.EventDataChanged:
		if w.answered { // Z5
			w.changed = e.Zxid
		}
	case jute.EventChildrenChanged:
		delete(s.predecessors, e.Path)
		w.fire(func() { w.lost = true })
	case jute.EventDeleted:
		delete(s.predecessors, e.Path)
		w.fire(func() { w.event, w.released = e, e.Zxid > 0 && e.Zxid == w.changed }) // Z5
	}
}

// losePredecessors is called when that connection has ended. s.mu must be held.
func (s *Session) losePredecessors(conn uint64) {
	for path, w := range s.predecessors {
		if w.conn == conn {
			delete(s.predecessors, path)
			w.fire(func() { w.lost = true })
		}
	}
}
