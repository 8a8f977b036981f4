package zkconn

import (
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// newIdentity makes a digest credential that this session alone has, and the id
// under which servers know it.
func newIdentity() (cred wire.Credential, id string) {
	cred = wire.Credential{Scheme: "digest", Auth: []byte("zkrecipes:" + rand.Text()), Optional: true}
	return cred, DigestID(cred.Auth)
}

// DigestID returns the id by which ACLs name a digest credential
// (org.apache.zookeeper.server.auth.DigestAuthenticationProvider).
func DigestID(credential []byte) string {
	user, _, _ := strings.Cut(string(credential), ":")
	sum := sha1.Sum(credential)
	return user + ":" + base64.StdEncoding.EncodeToString(sum[:])
}

// OwnerID returns the id of the session's own digest identity. It is empty where
// the server refuses digests.
func (s *Session) OwnerID() string {
	if s.wire.Refused(s.ownCredential()) {
		return ""
	}
	return s.owner
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
	var out []zk.ACL
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
