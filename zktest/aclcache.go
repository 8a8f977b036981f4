package zktest

import "github.com/zkrecipes/zkrecipes/internal/jute"

// aclCache knows the distinct ACLs of the znodes (ReferenceCountedACLCache). A server
// stores a list once, under a number, and each znode that has the list stores the
// number. The server forgets both with the last such znode.
type aclCache struct {
	known map[string]*knownACL // by encoded list
	given int                  // numbers since the start
}

// knownACL is an ACL that some znodes have.
type knownACL struct {
	key    string
	znodes int
}

// add counts a znode that gets an ACL. Two lists are the same if they have the same
// entries in the same order.
func (c *aclCache) add(acl []jute.ACL) *knownACL {
	var small [128]byte
	key := jute.AppendACLs(small[:0], acl)
	k := c.known[string(key)]
	if k == nil {
		k = &knownACL{key: string(key)}
		c.known[k.key] = k
		c.given++
	}
	k.znodes++
	return k
}

// remove counts a znode that loses its ACL. It does nothing if k is nil, as it is for
// the znodes that are made with the server and have the open ACL without a number.
func (c *aclCache) remove(k *knownACL) {
	if k == nil {
		return
	}
	if k.znodes--; k.znodes == 0 {
		delete(c.known, k.key)
	}
}
