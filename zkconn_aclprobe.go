package zkrecipes

import (
	"context"
	"math"

	"github.com/go-zookeeper/zk"
)

// probe is the question, asked once a session, whether the server enforces
// ACLs.
type probe struct {
	done     chan struct{}
	enforced bool // set before done is closed
}

// enforced reports whether a signal on a place can be believed, because nobody
// but its owner could have sent it. It asks with a write that changes nothing:
// /zookeeper/config gives WRITE to nobody but the super user, so any answer but
// NoAuth means skipACL or a super user.
func (s *session) enforced(ctx context.Context) bool {
	if s.ownerID() == "" {
		return false
	}
	s.mu.Lock()
	p := s.probe
	if p == nil {
		p = &probe{done: make(chan struct{})}
		s.probe = p
		s.c.tasks.start(func() { s.ask(p) })
	}
	s.mu.Unlock()
	select {
	case <-p.done:
		return p.enforced
	case <-ctx.Done():
		return false
	}
}

func (s *session) ask(p *probe) {
	defer close(p.done)
	_, _, err := call2(s, func(conn *zk.Conn) (*zk.Stat, struct{}, error) {
		stat, err := conn.Set("/zookeeper/config", nil, math.MaxInt32)
		return stat, struct{}{}, err
	})
	p.enforced = err == zk.ErrNoAuth
	if unsettled(err) {
		s.mu.Lock()
		s.probe = nil // ask again next time
		s.mu.Unlock()
	}
}
