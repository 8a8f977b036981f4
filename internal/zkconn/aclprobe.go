package zkconn

import (
	"context"
	"math"

	"github.com/go-zookeeper/zk"
)

// aclProbe finds out, once a session, whether the server enforces ACLs.
type aclProbe struct {
	done     chan struct{}
	enforces bool // set before done is closed
}

// EnforcesACLs reports whether the server refuses writes that an ACL does not
// allow, so that data written to an owned znode can be believed to come from its
// owner. It blocks for one request, once a session, and reports false where it
// cannot find out.
//
// The probe is a write that changes nothing: /zookeeper/config gives WRITE to the
// super user alone, so any answer but NoAuth means skipACL or a super user.
func (s *Session) EnforcesACLs(ctx context.Context) bool {
	if s.OwnerID() == "" {
		return false
	}
	s.mu.Lock()
	p := s.probe
	if p == nil {
		p = &aclProbe{done: make(chan struct{})}
		s.probe = p
		s.cfg.Tasks.Start(func() { s.runProbe(p) })
	}
	s.mu.Unlock()
	select {
	case <-p.done:
		return p.enforces
	case <-ctx.Done():
		return false
	}
}

func (s *Session) runProbe(p *aclProbe) {
	defer close(p.done)
	_, err := call(s, func(conn *zk.Conn) (struct{}, error) {
		_, err := conn.Set("/zookeeper/config", nil, math.MaxInt32)
		return struct{}{}, err
	})
	p.enforces = err == zk.ErrNoAuth
	if Transient(err) {
		s.mu.Lock()
		s.probe = nil // the next caller asks again
		s.mu.Unlock()
	}
}
