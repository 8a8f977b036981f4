package zkconn

import (
	"cmp"
	"crypto"
	"crypto/rand"
	_ "crypto/sha1"
	_ "crypto/sha256"
	_ "crypto/sha3"
	_ "crypto/sha512"
	"encoding/base64"
	"errors"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// newIdentity makes a digest credential that this session alone has, and the id
// under which servers know it.
func newIdentity(algorithm crypto.Hash) (cred wire.Credential, id string) {
	cred = wire.Credential{Scheme: "digest", Auth: []byte("zkrecipes:" + rand.Text()), Optional: true}
	return cred, DigestID(algorithm, cred.Auth)
}

// DigestID returns the id by which ACLs name a digest credential on servers with this
// digest algorithm; 0 is SHA-1
// (org.apache.zookeeper.server.auth.DigestAuthenticationProvider).
func DigestID(algorithm crypto.Hash, credential []byte) string {
	user, _, _ := strings.Cut(string(credential), ":")
	h := cmp.Or(algorithm, crypto.SHA1).New()
	h.Write(credential)
	return user + ":" + base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// OwnerID returns the id of the session's own digest identity. It is empty where
// the server refuses digests, or does not know the session by it.
func (s *Session) OwnerID() string {
	if s.unknown.Load() || s.wire.Refused(s.ownCredential()) {
		return ""
	}
	return s.owner
}

// OwnWriteFailed notes with what error the server refused a write to a znode that only
// this session may write. NoAuth: the server computes digests by another algorithm, or
// somebody has changed the ACL. The session does without an identity from then on.
func (s *Session) OwnWriteFailed(err error) {
	if errors.Is(err, zk.ErrNoAuth) {
		s.unknown.Store(true)
	}
}

// ownCredential is the index of the session's own identity in what is presented.
func (s *Session) ownCredential() int { return len(s.cfg.Credentials) }

// OwnedACL returns the ACL of a znode that everybody named in acl may read and
// only this session may write, so that nobody else can forge the signal with
// which a holder leaves. (Deleting a znode takes DELETE on its parent.) Where the
// server refuses digests nobody may write: no signal is sent then.
func (s *Session) OwnedACL(acl []zk.ACL) []zk.ACL { return ownedACL(acl, s.OwnerID()) }

// OwnedIfPossible is like OwnedACL, but returns acl where the server refuses digests.
func (s *Session) OwnedIfPossible(acl []zk.ACL) []zk.ACL {
	if owner := s.OwnerID(); owner != "" {
		return ownedACL(acl, owner)
	}
	return acl
}

func ownedACL(acl []zk.ACL, owner string) []zk.ACL {
	out := make([]zk.ACL, 0, 1+len(acl))
	if owner != "" {
		out = append(out, zk.ACL{Perms: zk.PermRead | zk.PermWrite, Scheme: "digest", ID: owner})
	}
	for _, a := range acl {
		read := zk.ACL{Perms: zk.PermRead, Scheme: a.Scheme, ID: a.ID}
		if !slices.Contains(out, read) {
			out = append(out, read)
		}
	}
	return out
}
