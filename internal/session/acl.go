package session

import (
	"crypto"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/wire"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// SetACL sets who may use what a Client with these credentials creates, and with which identities
// it writes.
func (c *Config) SetACL(acl []zk.ACL, auth []wire.Credential) (err error) {
	c.Auth = func() []wire.Credential { return auth }
	if c.ACL, err = clientACL(acl, auth, c.Digest); err != nil {
		return err
	}
	writers, owned := writersOf(c.ACL, auth, c.Digest)
	c.Writers, c.Owned = func() []wire.Credential { return writers }, owned
	if c.Created = c.ACL; owned {
		c.Created = zkconn.OwnedACL(c.ACL, c.Digest, writers)
	}
	return nil
}

// clientACL returns the ACL of what a Client creates: acl or, if that is empty, the
// default for these credentials.
func clientACL(acl []zk.ACL, auth []wire.Credential, algorithm crypto.Hash) ([]zk.ACL, error) {
	if len(acl) == 0 {
		var err error
		if acl, err = defaultACL(auth, algorithm); err != nil {
			return nil, err
		}
	}
	acl, err := ExpandACL(acl, auth, algorithm)
	if err != nil {
		return nil, fmt.Errorf("Options.ACL: %w", err)
	}
	return acl, nil
}

// writersOf returns the library's identities of a Client with that acl: one for each
// credential that acl names, because all clients of a recipe write the same znodes, and
// everybody's if acl lets everybody in, or if there are no credentials. If acl also lets in
// ids whose credentials are not known here, owned is false: then all ids in acl may write
// what the Client creates.
func writersOf(acl []zk.ACL, auth []wire.Credential, algorithm crypto.Hash) (ids []wire.Credential, owned bool) {
	everybody := []wire.Credential{zkconn.Identity(wire.Credential{})}
	if len(auth) == 0 {
		return everybody, true
	}
	others := false
	for _, a := range acl {
		if a.Perms&zk.PermCreate == 0 { // takes no part
			continue
		}
		if a.Scheme == "world" {
			return everybody, true
		}
		i := slices.IndexFunc(auth, func(c wire.Credential) bool {
			return a.Scheme == "digest" && c.Scheme == "digest" && a.ID == zkconn.DigestID(algorithm, c.Auth)
		})
		if i < 0 {
			others = true
			continue
		}
		ids = append(ids, zkconn.Identity(auth[i]))
	}
	return ids, len(ids) > 0 && !others
}

// defaultACL gives all rights to the digest ids of auth, or to the world where there
// are no credentials.
func defaultACL(auth []wire.Credential, algorithm crypto.Hash) ([]zk.ACL, error) {
	if len(auth) == 0 {
		return zk.WorldACL(zk.PermAll), nil
	}
	var acl []zk.ACL
	for _, a := range auth {
		if a.Scheme == "digest" {
			acl = append(acl, zk.ACL{Perms: zk.PermAll, Scheme: a.Scheme, ID: zkconn.DigestID(algorithm, a.Auth)})
		}
	}
	if len(acl) == 0 {
		return nil, errors.New("Options.ACL is needed: the ids of Options.Auth are not known")
	}
	return acl, nil
}

// ExpandACL replaces entries of the scheme "auth" with the ids of auth. The server
// would replace them with every identity of the connection, among them the library's
// own, by which nobody but the library could use the znode.
func ExpandACL(acl []zk.ACL, auth []wire.Credential, algorithm crypto.Hash) ([]zk.ACL, error) {
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
				return nil, fmt.Errorf(`ACL of scheme "auth": the id of a credential of scheme %q is not known; list it explicitly`, c.Scheme)
			}
			out = append(out, zk.ACL{Perms: a.Perms, Scheme: c.Scheme, ID: zkconn.DigestID(algorithm, c.Auth)})
		}
	}
	return out, nil
}
