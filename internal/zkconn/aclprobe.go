package zkconn

import (
	"context"
	"crypto/rand"
	"math"
	"strings"

	"github.com/go-zookeeper/zk"
)

// aclProbe finds out, once a session, whether the server enforces ACLs.
type aclProbe struct {
	done     chan struct{}
	enforces bool // set before done is closed
}

// EnforcesACLs reports whether the server refuses writes that an ACL does not
// allow, so that data written to a znode can be believed to come from its
// owner. It blocks for one request, once a session, and reports false where it
// cannot find out. dir is a znode in which the session may create others.
func (s *Session) EnforcesACLs(ctx context.Context, dir string) bool {
	if !s.IsOwner() {
		return false
	}
	s.mu.Lock()
	p := s.probe
	if p == nil {
		p = &aclProbe{done: make(chan struct{})}
		s.probe = p
		s.cfg.Tasks.Start(func() { s.runProbe(p, dir) })
	}
	s.mu.Unlock()
	select {
	case <-p.done:
		return p.enforces
	case <-ctx.Done():
		return false
	}
}

// runProbe sends a transaction that is never carried out: it creates a znode that nobody
// may write, and writes it in a version that it cannot have. The ACL of the new znode
// counts already (PrepRequestProcessor), so the answer is NoAuth, unless ACLs are not
// enforced (skipACL) or the client is a super user.
func (s *Session) runProbe(p *aclProbe, dir string) {
	defer close(p.done)
	create := &zk.CreateRequest{Path: strings.TrimSuffix(dir, "/") + "/zkrecipes-" + rand.Text(), Acl: zk.WorldACL(zk.PermRead)}
	o := s.Multi(s.Lifetime(),
		&zk.CheckVersionRequest{Path: dir, Version: -1}, // tells the request from a join, for those who count them
		create, &zk.SetDataRequest{Path: create.Path, Version: math.MaxInt32})
	p.enforces = o.Is(zk.ErrNoAuth)
	if !p.enforces && !o.Is(zk.ErrBadVersion) {
		s.mu.Lock()
		s.probe = nil // the next caller asks again
		s.mu.Unlock()
	}
}
