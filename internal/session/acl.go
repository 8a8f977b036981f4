package session

import (
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"
)

// SetACL sets the ACL of what a Client with these credentials creates: acl or, if that is empty, the
// default for them.
func (c *Config) SetACL(acl []zk.ACL) (err error) {
	if len(acl) == 0 {
		if acl, err = c.defaultACL(); err != nil {
			return err
		}
	}
	if c.ACL, err = c.ExpandACL(acl); err == nil {
		err = checkWriters(c.ACL)
	}
	if err != nil {
		return fmt.Errorf("Options.ACL: %w", err)
	}
	return nil
}

// isAnonymous reports whether there are no credentials.
func (c *Config) isAnonymous() bool { return len(c.Auth()) == 0 && c.SASL == nil }

// ids returns the ids of the credentials, with all rights, and what has an id that is not known.
func (c *Config) ids() (ids []zk.ACL, unknown string) {
	if m := c.SASL; m != nil && m.Principal != "" {
		ids = append(ids, zk.ACL{Perms: zk.PermAll, Scheme: "sasl", ID: m.Principal})
	} else if m != nil {
		unknown = "the principal of SASL " + m.Mechanism
	}
	for _, a := range c.Auth() {
		if a.Scheme == "digest" {
			ids = append(ids, zk.ACL{Perms: zk.PermAll, Scheme: a.Scheme, ID: digestID(a.Auth)})
		} else {
			unknown = fmt.Sprintf("the id of a credential of scheme %q", a.Scheme)
		}
	}
	return ids, unknown
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

// defaultACL gives all rights to the ids of the credentials, or to the world where there are none.
func (c *Config) defaultACL() ([]zk.ACL, error) {
	if c.isAnonymous() {
		return zk.WorldACL(zk.PermAll), nil
	}
	ids, unknown := c.ids()
	if len(ids) == 0 {
		return nil, fmt.Errorf("Options.ACL is needed: %s is not known", unknown)
	}
	return ids, nil
}

// ExpandACL replaces entries of the scheme "auth" with the ids of the credentials. The server would
// replace them with every identity of the connection, so that the list would differ from what the
// Client knows, and from one client to another.
func (c *Config) ExpandACL(acl []zk.ACL) ([]zk.ACL, error) {
	var out []zk.ACL
	for _, a := range acl {
		if a.Scheme != "auth" {
			out = append(out, a)
			continue
		}
		ids, unknown := c.ids()
		switch {
		case c.isAnonymous():
			return nil, errors.New(`ACL of scheme "auth" without Options.Auth and Options.SASL`)
		case unknown != "":
			return nil, fmt.Errorf(`ACL of scheme "auth": %s is not known; list it explicitly`, unknown)
		}
		for _, id := range ids {
			id.Perms = a.Perms
			out = append(out, id)
		}
	}
	return out, nil
}

// digestID returns the id by which ACLs name a digest credential
// (org.apache.zookeeper.server.auth.DigestAuthenticationProvider, with its default algorithm).
func digestID(credential []byte) string {
	user, _, _ := strings.Cut(string(credential), ":")
	sum := sha1.Sum(credential)
	return user + ":" + base64.StdEncoding.EncodeToString(sum[:])
}
