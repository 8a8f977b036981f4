package zktest

// What the tests use of the package's inside. They are in a package of their own, because they
// share a client with package conformance, which imports this one.

const (
	HandshakeTimeout = handshakeTimeout
	FlushTimeout     = flushTimeout
)

var (
	ErrClosed  = errClosed
	ErrStopped = errStopped
	ErrRunning = errRunning
)

// Decode decodes a request like a server of version v.
func Decode(body []byte, v Version) {
	if q, ok := decode(body, v); ok {
		_ = q.name()
	}
}

// Leftovers counts what a server keeps for its clients.
type Leftovers struct{ Connections, Replicas, Ephemerals, Watched, Recursive int }

func (s *Server) Leftovers() Leftovers {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, children := &s.leader.dataWatches, &s.leader.childWatches
	return Leftovers{
		Connections: len(s.conns), Replicas: len(s.lagging), Ephemerals: len(s.leader.tree.ephemerals),
		Watched: len(data.table) + len(children.table), Recursive: data.recursive + children.recursive,
	}
}
