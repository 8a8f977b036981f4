package zkconn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Watch is the one watch of its kind that a session has on a path. All callers that wait for the path
// share it. The servers forget it with the connection, so it is set again on the next one (wire/gate.go).
//
// Events come from internal/wire in the order in which they came over the connection. So a caller that
// sees Fired closed sees every watch fired whose event came earlier. The exported fields are what the
// server answered. They hold until the watch fires, as far as this session can know.
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
	// which the watch was answered, 0 if the event came first.
	event     wire.Event
	confirmed uint64
	volatile  atomic.Bool // see FireInNewHistory
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

// armedBy has the reads that set watches.
var armedBy = [...]int32{ofData: jute.OpGetData, ofChildren: jute.OpGetChildren2, ofExistence: jute.OpExists}

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
	w.firing.fire(func() { w.event = e })
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

// ConfirmedOn reports whether a watch that was answered, whether it has fired or not, was answered on
// that connection. After a reconnect many are set again together, in any order, and no answer
// confirms a single one of them.
func (w *Watch) ConfirmedOn(conn uint64) bool { return w.confirmed == conn }

// Watch returns the session's watch on path's data, or zk.ErrNoNode. It costs one
// request if the session has none. A session's watches are few and fire when their
// znodes are deleted.
func (s *Session) Watch(ctx context.Context, path string) (*Watch, error) {
	return s.Await(ctx, s.startWatch(watchKey{path, ofData}))
}

// StartWatch sends the request that sets the watch which Watch returns, unless the session has it or
// requests do not pass. It does not block.
func (s *Session) StartWatch(path string) *Watch { return s.startWatch(watchKey{path, ofData}) }

// WatchChildren is like Watch for the znode's children.
func (s *Session) WatchChildren(ctx context.Context, path string) (*Watch, error) {
	return s.Await(ctx, s.startWatch(watchKey{path, ofChildren}))
}

// WatchExistence is like Watch, but it is no error that there is no znode.
func (s *Session) WatchExistence(ctx context.Context, path string) (*Watch, error) {
	return s.Await(ctx, s.startWatch(watchKey{path, ofExistence}))
}

func (s *Session) startWatch(key watchKey) *Watch {
	s.mu.Lock()
	w, ok := s.watches[key]
	if !ok {
		w = &Watch{key: key, armed: make(chan struct{}), firing: newFiring()}
		s.watches[key] = w // Z4
		s.loseTreesAt(key.path)
	}
	s.mu.Unlock()
	if !ok {
		s.arm(w)
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
		if err := s.Ready(ctx); err != nil {
			return nil, err
		}
		w = s.startWatch(w.key)
	}
}

// arm sends the request that sets the watch.
func (s *Session) arm(w *Watch) {
	frame := watchFrame(w.key.path)
	nc, err := s.passing(frame)
	if err != nil {
		s.armed(w, 0, err)
		return
	}
	nc.CallThen(armedBy[w.key.kind], frame, func(call *wire.Call) {
		err := w.answered(&Reading{call: call})
		if errors.Is(err, errMalformed) { // Z2
			call.Reject(err)
			err = fmt.Errorf("%w: %w", zk.ErrConnectionClosed, err)
		}
		end := func() {
			s.backOff(s.UntilAnswered(), opWatch, err)
			s.armed(w, call.Conn(), err)
		}
		if isForNow(err) { // then all who wait for the watch pause together
			s.cfg.Tasks.Start(end)
			return
		}
		end()
	})
}

// answered notes what the server answered.
func (w *Watch) answered(r *Reading) error {
	err := r.result(func(d *jute.Decoder) {
		switch w.key.kind {
		case ofData:
			w.Data = slices.Clip(d.Buffer()) // the Stat follows, and callers share it
		case ofChildren:
			w.Children = decodeNames(d)
		}
		w.Stat = *decodeStat(d)
	})
	if w.key.kind == ofExistence && errors.Is(err, zk.ErrNoNode) {
		w.Absent, err = true, nil
	}
	return err
}

// armed notes that the request has ended, in the order of the replies and the events, on that
// connection.
func (s *Session) armed(w *Watch, conn uint64, err error) {
	w.err = err
	s.mu.Lock()
	if s.watches[w.key] == w { // else it has fired
		if err == nil {
			w.confirmed = conn
		} else {
			delete(s.watches, w.key)
		}
	}
	s.mu.Unlock()
	close(w.armed)
}

// setWatches returns the watches that a server has answered and that have not fired. It is called by
// internal/wire.
func (s *Session) setWatches() (ws wire.Watches) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, w := range s.watches {
		switch {
		case w.confirmed == 0: // under way: its request fails with the connection
		case w.Absent:
			ws.Exist = append(ws.Exist, key.path)
		case key.kind == ofChildren:
			ws.Children = append(ws.Children, key.path)
		default:
			ws.Data = append(ws.Data, key.path)
		}
	}
	return ws
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
