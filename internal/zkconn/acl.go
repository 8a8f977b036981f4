package zkconn

import (
	"cmp"
	"crypto"
	"crypto/hmac"
	_ "crypto/sha1"
	"crypto/sha256"
	_ "crypto/sha3"
	_ "crypto/sha512"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Everything that a session creates has one list, see Session.ACL. Servers give each
// distinct list a number, and free it with the last znode that has the list (class
// ReferenceCountedACLCache). A list of one session's own would come and go with its places.
// Up to ZooKeeper 3.9.5, a server that is killed then may never start again
// (ZOOKEEPER-4799, ZOOKEEPER-4846, ZOOKEEPER-4689).

// identityUser is the user of the library's own digest identities.
const identityUser = "zkrecipes"

// Identity returns the credential of an identity of the library's own, which alone may write
// what the library creates. It is derived from a user's credential, so it is the same in all
// sessions, and cannot be computed without the secret. That of the zero credential is a
// constant, which anybody can compute.
func Identity(of wire.Credential) wire.Credential {
	h := hmac.New(sha256.New, []byte("zkrecipes: the identity that writes, 1"))
	h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(of.Scheme))))
	h.Write([]byte(of.Scheme))
	h.Write(of.Auth)
	return wire.Credential{Scheme: "digest", Auth: []byte(identityUser + ":" + hex.EncodeToString(h.Sum(nil))), Optional: true}
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

// IsOwner reports whether the server knows the session by the library's identities. It
// does not where it refuses digests, or computes their ids by another algorithm.
func (s *Session) IsOwner() bool { return s.owned != nil && !s.unknown.Load() && !s.refusesOwn() }

// refusesOwn reports whether the server has refused one of the library's identities.
func (s *Session) refusesOwn() bool {
	for i := range s.cfg.Identities {
		if s.wire.Refused(len(s.cfg.Credentials) + i) {
			return true
		}
	}
	return false
}

// OwnWriteFailed notes with what error the server refused a write to a znode that only
// the library may write. NoAuth: the server computes digests by another algorithm, or
// somebody has changed the ACL. The session does without the identities from then on.
func (s *Session) OwnWriteFailed(err error) {
	if errors.Is(err, zk.ErrNoAuth) {
		s.unknown.Store(true)
	}
}

// ACL returns the list of everything that the session creates. It gives the ids in
// Config.ACL the rights that it says, except to write: only the library may. So nobody
// else forges the signal with which a holder leaves. (Deleting a znode takes DELETE on its
// parent.) If those may write as well, it is Config.ACL.
func (s *Session) ACL() []zk.ACL {
	acl, _ := s.OwnACL()
	return acl
}

// OwnACL is like ACL, and reports whether nobody but the library may write.
func (s *Session) OwnACL() (acl []zk.ACL, owned bool) {
	if s.IsOwner() {
		return s.owned, true
	}
	return s.cfg.ACL, false
}

// OwnedACL returns the list that ACL returns where the server knows the session by those
// identities.
func OwnedACL(acl []zk.ACL, algorithm crypto.Hash, identities []wire.Credential) []zk.ACL {
	var out []zk.ACL
	for _, a := range acl {
		if a.Perms &^= zk.PermWrite; a.Perms != 0 {
			out = append(out, a)
		}
	}
	for _, i := range identities {
		out = append(out, zk.ACL{Perms: zk.PermWrite, Scheme: i.Scheme, ID: DigestID(algorithm, i.Auth)})
	}
	slices.SortFunc(out, func(a, b zk.ACL) int { // servers tell lists apart by their order, too
		return cmp.Or(strings.Compare(a.Scheme, b.Scheme), strings.Compare(a.ID, b.ID), cmp.Compare(a.Perms, b.Perms))
	})
	return slices.Compact(out)
}
