package zkrecipes

import (
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"
)

// Auth is a credential, presented to the server on every connection and never
// logged. For the scheme "digest" Data is "user:password".
type Auth struct {
	Scheme string
	Data   []byte
}

// String shows the scheme only, as all other ways to print an Auth do.
func (a Auth) String() string { return a.Scheme + ":***" }

// GoString shows the scheme only.
func (a Auth) GoString() string { return "zkrecipes.Auth{" + a.String() + "}" }

// MarshalText shows the scheme only.
func (a Auth) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// newIdentity makes the digest identity that one session alone has. Places
// give WRITE to it and nobody else, so that no other can forge the signal
// with which a holder leaves.
func newIdentity() (auth Auth, id string) {
	auth = Auth{Scheme: "digest", Data: []byte("zkrecipes:" + rand.Text())}
	return auth, digestID(auth.Data)
}

// digestID is how the server names a digest credential in ACLs
// (org.apache.zookeeper.server.auth.DigestAuthenticationProvider).
func digestID(data []byte) string {
	user, _, _ := strings.Cut(string(data), ":")
	sum := sha1.Sum(data)
	return user + ":" + base64.StdEncoding.EncodeToString(sum[:])
}

// expandACL replaces entries of the scheme "auth" by the ids of auth. The
// server would put every identity of the connection in their place, the
// session's own random one too, and the next session could not use the znode.
func expandACL(acl []zk.ACL, auth []Auth) ([]zk.ACL, error) {
	var out []zk.ACL
	for _, a := range acl {
		if a.Scheme != "auth" {
			out = append(out, a)
			continue
		}
		if len(auth) == 0 {
			return nil, errors.New(`ACL of scheme "auth" without Options.Auth`)
		}
		for _, c := range auth {
			if c.Scheme != "digest" {
				return nil, fmt.Errorf(`ACL of scheme "auth": the id of a credential of scheme %q is not known; name it`, c.Scheme)
			}
			out = append(out, zk.ACL{Perms: a.Perms, Scheme: c.Scheme, ID: digestID(c.Data)})
		}
	}
	return out, nil
}

// placeACL lets those who may use the line read a place, and owner alone write
// it. (To delete it takes DELETE on the line.) Without an owner, where the
// server refuses digests, nobody may write: no signal is sent then.
func placeACL(line []zk.ACL, owner string) []zk.ACL {
	var out []zk.ACL
	if owner != "" {
		out = append(out, zk.ACL{Perms: zk.PermRead | zk.PermWrite, Scheme: "digest", ID: owner})
	}
	for _, a := range line {
		read := zk.ACL{Perms: zk.PermRead, Scheme: a.Scheme, ID: a.ID}
		if !slices.Contains(out, read) {
			out = append(out, read)
		}
	}
	return out
}
