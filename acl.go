package zkrecipes

import (
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
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
			out = append(out, zk.ACL{Perms: a.Perms, Scheme: c.Scheme, ID: zkconn.DigestID(c.Data)})
		}
	}
	return out, nil
}
