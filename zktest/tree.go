package zktest

import (
	"maps"
	"slices"
	"strings"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// openACL is the ACL of the root and of /zookeeper (ZooDefs.Ids.OPEN_ACL_UNSAFE).
var openACL = []jute.ACL{{Perms: jute.PermAll, Scheme: "world", ID: "anyone"}}

// readACL is the ACL of /zookeeper/config (ZooDefs.Ids.READ_ACL_UNSAFE).
var readACL = []jute.ACL{{Perms: jute.PermRead, Scheme: "world", ID: "anyone"}}

// meta is the metadata that the server stores with a znode (StatPersisted). It
// differs from the Stat that clients see: creates counts the children ever
// created, and the cversion of a Stat is computed from it and from the current
// number of children (DataNode.copyStat).
type meta struct {
	czxid, mzxid, pzxid int64
	ctime, mtime        int64
	version, aversion   int32
	creates             int32
	owner               int64 // the session of an ephemeral, else 0
	container           bool
	ttl                 int64 // in milliseconds, 0 if there is none
}

type node struct {
	meta
	data     []byte
	acl      []jute.ACL
	knownACL *knownACL // acl in the tree's aclCache
	children childSet
	bereft   bool // a child has ended with its session, see Miscount
}

func (n *node) stat() jute.Stat {
	children := int32(n.children.len())
	return jute.Stat{
		Czxid: n.czxid, Mzxid: n.mzxid, Pzxid: n.pzxid,
		Ctime: n.ctime, Mtime: n.mtime,
		Version: n.version, Aversion: n.aversion,
		Cversion:       n.creates*2 - children,
		EphemeralOwner: n.owner,
		DataLength:     int32(len(n.data)),
		NumChildren:    children,
	}
}

// tree holds the znodes (DataTree).
type tree struct {
	nodes      map[string]*node
	ephemerals map[int64]map[string]struct{} // paths by session
	reapable   map[string]struct{}           // containers and znodes with a time to live
	acls       aclCache
}

func newTree() *tree {
	t := &tree{
		nodes:      map[string]*node{},
		ephemerals: map[int64]map[string]struct{}{},
		reapable:   map[string]struct{}{},
		acls:       aclCache{known: map[string]*knownACL{}},
	}
	add := func(path string, acl []jute.ACL, children ...string) *node {
		n := &node{data: []byte{}, acl: acl}
		for _, child := range children {
			n.children.add(child)
		}
		t.nodes[path] = n
		return n
	}
	// These have no zxid and are not counted as creates, so the root of an empty
	// server has cversion -1.
	add("/", openACL, "zookeeper")
	add("/zookeeper", openACL, "config", "quota")
	add("/zookeeper/quota", openACL)
	config := add("/zookeeper/config", nil)
	t.setACL(config, readACL, -1) // DataTree.addConfigNode
	return t
}

// node returns the znode at path, or nil if there is none. The empty path is an
// alias of the root.
func (t *tree) node(path string) *node {
	if path == "" {
		path = "/"
	}
	return t.nodes[path]
}

// splitPath returns the parent and the name of a path that contains a slash.
func splitPath(path string) (parent, name string) {
	i := strings.LastIndexByte(path, '/')
	if i == 0 {
		return "/", path[1:]
	}
	return path[:i], path[i+1:]
}

// create adds the znode of a prepared create.
func (t *tree) create(c *change, zxid, now int64) *node {
	parentPath, name := splitPath(c.path)
	parent := t.nodes[parentPath]
	// Beyond 2147483647 the count has wrapped around in the preparation. It is
	// not stored then, so the parent's count and its pzxid both stick.
	if c.creates > parent.creates {
		parent.creates = c.creates
		parent.pzxid = zxid
	}
	n := &node{data: c.data, acl: c.acl, knownACL: t.acls.add(c.acl)}
	n.czxid, n.mzxid, n.pzxid = zxid, zxid, zxid
	n.ctime, n.mtime = now, now
	n.owner = c.owner
	parent.children.add(name)
	t.nodes[c.path] = n
	switch {
	case c.op == jute.OpCreateContainer || c.ttl > 0:
		n.container, n.ttl = c.ttl == 0, c.ttl
		t.reapable[c.path] = struct{}{}
	case c.owner != 0:
		if t.ephemerals[c.owner] == nil {
			t.ephemerals[c.owner] = map[string]struct{}{}
		}
		t.ephemerals[c.owner][c.path] = struct{}{}
	}
	return n
}

// remove deletes a znode without children. It returns the znode and its parent.
func (t *tree) remove(path string, zxid int64) (n, parent *node) {
	parentPath, name := splitPath(path)
	n, parent = t.nodes[path], t.nodes[parentPath]
	parent.children.remove(name)
	parent.pzxid = max(parent.pzxid, zxid)
	t.acls.remove(n.knownACL)
	delete(t.nodes, path)
	delete(t.reapable, path)
	if n.owner != 0 {
		delete(t.ephemerals[n.owner], path)
		if len(t.ephemerals[n.owner]) == 0 {
			delete(t.ephemerals, n.owner)
		}
	}
	return n, parent
}

// setACL sets the ACL of a znode. The znode loses its old list before it gets the new one.
// If both are the same, and no other znode has it, the list still gets a new number
// (DataTree.setACL).
func (t *tree) setACL(n *node, acl []jute.ACL, version int32) {
	t.acls.remove(n.knownACL)
	n.acl, n.knownACL, n.aversion = acl, t.acls.add(acl), version
}

func (t *tree) ephemeralsOf(session int64) []string {
	return slices.Sorted(maps.Keys(t.ephemerals[session]))
}
