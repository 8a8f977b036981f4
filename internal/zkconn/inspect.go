package zkconn

import (
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Inspection is what tests look at inside a Session.
type Inspection struct {
	Conn     *zk.Conn
	Calls    int       // under way
	UpSince  time.Time // requests pass since then, or did last
	Draining bool      // Close has begun
	Parked   bool      // go-zookeeper's loop is held in the dialer
	Watches  []InspectedWatch
}

// InspectedWatch is a watch that has not fired.
type InspectedWatch struct {
	*Watch   // nil for a PredecessorWatch
	Path     string
	Answered bool // of ofData and of a PredecessorWatch
	Notifies int  // how many channels
}

// Inspect is for tests.
func (s *Session) Inspect() Inspection {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calling.mu.Lock()
	defer s.calling.mu.Unlock()
	in := Inspection{
		Conn: s.conn, Calls: s.calling.n, UpSince: s.upSince,
		Draining: s.draining, Parked: isClosed(s.parked),
	}
	for key, w := range s.watches {
		w.mu.Lock()
		in.Watches = append(in.Watches, InspectedWatch{w, key.path, w.confirmed != 0, len(w.notify)})
		w.mu.Unlock()
	}
	for path, w := range s.predecessors {
		in.Watches = append(in.Watches, InspectedWatch{nil, path, w.answered, 0})
	}
	return in
}

// Call is for tests: it runs f as requests that set watches are run, through
// go-zookeeper.
func (s *Session) Call(f func(*zk.Conn) error) error { return s.call(f) }

// Deliver is for tests: an event arrives, whatever has happened on the server.
func (s *Session) Deliver(e wire.Event) { s.onEvent(e) }

// BreakConnection is for tests: it closes the connection.
func (s *Session) BreakConnection() {
	s.mu.Lock()
	nc := s.nc
	s.mu.Unlock()
	nc.Close()
}
