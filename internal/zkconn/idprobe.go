package zkconn

import (
	"context"
	"crypto/rand"
	"errors"
	"math"
	"slices"

	"github.com/go-zookeeper/zk"
)

// ErrUnknownIDs is the error of a request that would create a znode for ids by which
// the server does not know this client.
var ErrUnknownIDs = errors.New("Options.DigestAlgorithm: the server computes the ids of digest credentials by another algorithm (zookeeper.DigestAuthenticationProvider.digestAlg)")

// idProbe finds out, once a session, whether the server knows the client by the digest
// ids that it computes.
type idProbe struct {
	done chan struct{}
	err  error // set before done is closed
}

// digestIDs returns the ids of the digest credentials.
func (cfg *Config) digestIDs() (ids []string) {
	for _, c := range cfg.Credentials {
		if c.Scheme == "digest" {
			ids = append(ids, DigestID(cfg.Digest, c.Auth))
		}
	}
	return ids
}

// CheckIDs returns ErrUnknownIDs if acl names the client by a digest id that the server
// does not compute. Nobody could use a znode with that ACL. It blocks for one request,
// once a session, and for none if acl does not rest on such ids.
func (s *Session) CheckIDs(ctx context.Context, acl []zk.ACL) error {
	if !slices.ContainsFunc(acl, func(a zk.ACL) bool { return a.Scheme == "digest" && slices.Contains(s.ids, a.ID) }) {
		return nil
	}
	s.mu.Lock()
	p := s.idProbe
	if p == nil {
		p = &idProbe{done: make(chan struct{})}
		s.idProbe = p
		s.cfg.Tasks.Start(func() {
			p.err = s.runIDProbe()
			close(p.done)
		})
	}
	s.mu.Unlock()
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return ContextErr(ctx)
	}
}

// runIDProbe sends a transaction that leaves nothing: it creates a znode and then checks
// it for a version that it cannot have. The ACL of the new znode counts already, so the
// check fails with BadVersion if the server knows one of the ids, and with NoAuth
// otherwise (PrepRequestProcessor). If the client may not create the znode, the probe
// finds out nothing.
func (s *Session) runIDProbe() error {
	create := &zk.CreateRequest{Path: "/zookeeper/zkrecipes-" + rand.Text()}
	for _, id := range s.ids {
		create.Acl = append(create.Acl, zk.ACL{Perms: zk.PermAll, Scheme: "digest", ID: id})
	}
	check := &zk.CheckVersionRequest{Path: create.Path, Version: math.MaxInt32}
	for {
		t, err := s.begin(s.Lifetime(), s.Start, create, check)
		if err != nil {
			return err
		}
		switch o := t.Wait(s.Lifetime()); {
		case o.Transient():
		case o.SessionOver():
			return o.Err()
		case o.RefusedAt(check, zk.ErrNoAuth):
			return ErrUnknownIDs
		default:
			return nil
		}
	}
}
