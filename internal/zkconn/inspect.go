package zkconn

import (
	"time"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Inspection is what tests look at inside a Session.
type Inspection struct {
	UpSince time.Time // requests pass since then, or did last
	Watches []InspectedWatch
}

// InspectedWatch is a watch that has not fired.
type InspectedWatch struct {
	*Watch   // nil for a PredecessorWatch
	Path     string
	Answered bool
	Notifies int // how many channels
}

// Inspect is for tests.
func (s *Session) Inspect() Inspection {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := Inspection{UpSince: s.upSince}
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

// Deliver is for tests: an event arrives, whatever has happened on the server.
func (s *Session) Deliver(e wire.Event) { s.onEvent(e) }

// BreakConnection is for tests: it closes the connection.
func (s *Session) BreakConnection() {
	s.mu.Lock()
	nc := s.nc
	s.mu.Unlock()
	nc.Close()
}
