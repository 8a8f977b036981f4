package session

import (
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/wire"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// SetACL sets the credentials of a Client, and the ACL of what it creates: acl or, if that is empty,
// the default for these credentials.
func (c *Config) SetACL(acl []zk.ACL, auth []wire.Credential) (err error) {
	c.Auth = func() []wire.Credential { return auth }
	if len(acl) == 0 {
		if acl, err = defaultACL(auth); err != nil {
			return err
		}
	}
	if c.ACL, err = ExpandACL(acl, auth); err == nil {
		err = checkWriters(c.ACL)
	}
	if err != nil {
		return fmt.Errorf("Options.ACL: %w", err)
	}
	return nil
}

// checkWriters refuses a list with an id that may create places and not write lines.
func checkWriters(acl []zk.ACL) error {
	for _, a := range acl {
		if a.Perms&zk.PermCreate != 0 && a.Perms&zk.PermWrite == 0 {
			return fmt.Errorf("%s:%s may create and not write: clients of a recipe write the znodes of each other", a.Scheme, a.ID)
		}
	}
	return nil
}

// defaultACL gives all rights to the digest ids of auth, or to the world where there
// are no credentials.
func defaultACL(auth []wire.Credential) ([]zk.ACL, error) {
	if len(auth) == 0 {
		return zk.WorldACL(zk.PermAll), nil
	}
	var acl []zk.ACL
	for _, a := range auth {
		if a.Scheme == "digest" {
			acl = append(acl, zk.ACL{Perms: zk.PermAll, Scheme: a.Scheme, ID: zkconn.DigestID(a.Auth)})
		}
	}
	if len(acl) == 0 {
		return nil, errors.New("Options.ACL is needed: the ids of Options.Auth are not known")
	}
	return acl, nil
}

// ExpandACL replaces entries of the scheme "auth" with the ids of auth. The server would replace
// them with every identity of the connection, so that the list would differ from what the Client
// knows, and from one client to another.
func ExpandACL(acl []zk.ACL, auth []wire.Credential) ([]zk.ACL, error) {
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
			out = append(out, zk.ACL{Perms: a.Perms, Scheme: c.Scheme, ID: zkconn.DigestID(c.Auth)})
		}
	}
	return out, nil
}
