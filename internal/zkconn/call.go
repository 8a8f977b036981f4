package zkconn

import "github.com/go-zookeeper/zk"

// Calls go through go-zookeeper: requests that set watches, because
// go-zookeeper re-arms them after a reconnect.
// Everything else is sent directly, see send.

// call runs f with the session's Conn and returns when f does: when the request
// is answered, its connection is lost, or the session ends. While disconnected
// that can take as long as the session lives.
func call[A any](s *Session, f func(*zk.Conn) (A, error)) (a A, err error) {
	s.mu.Lock()
	if s.cause != nil || s.draining {
		s.mu.Unlock()
		return a, ErrSessionOver
	}
	s.calling.Add()
	s.mu.Unlock()
	defer s.calling.End()
	a, err = f(s.conn)
	if Transient(err) && s.IsOver() {
		err = ErrSessionOver
	}
	s.backOff(s.Lifetime(), opWatch, err)
	return a, err
}
