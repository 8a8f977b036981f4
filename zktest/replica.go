package zktest

import (
	"time"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// change is one fully resolved change of a transaction: sequential names are
// complete, versions and counts are the new ones, and it cannot fail.
type change struct {
	op      int32
	path    string
	data    []byte
	acl     []jute.ACL
	owner   int64    // session of a new ephemeral
	creates int32    // new count of the parent of a new znode, see meta
	version int32    // of data or ACL
	ttl     int64    // of a new znode, in milliseconds
	paths   []string // ephemerals of a closing session
}

// txn is a transaction. A failed one has no changes, but takes a zxid too.
type txn struct {
	zxid    int64
	at      time.Time
	changes []change
}

// result is the outcome of a change, for the reply.
type result struct {
	path string
	stat jute.Stat
}

// replica is a copy of the data, together with the watches of the connections
// that read it. The leader's is always current; others may lag.
type replica struct {
	tree         *tree
	dataWatches  watches // data and existence
	childWatches watches
	zxid         int64
	lag          replicaLag
	applied      int // transactions of the log that it has applied; not the leader
}

func newReplica(s *Server) *replica {
	return &replica{
		tree:         newTree(),
		dataWatches:  watches{server: s, table: map[string]map[*conn]watchMode{}},
		childWatches: watches{server: s, table: map[string]map[*conn]watchMode{}},
	}
}

// apply applies a transaction and appends a result for each change. Like a real
// server, it fires the watches of each change before it makes the next one
// (DataTree.processTxn). To clients the transaction is atomic, because the
// caller holds the server's mu.
func (r *replica) apply(t *txn, results []result) []result {
	r.zxid = t.zxid
	now := t.at.UnixMilli()
	for i := range t.changes {
		c := &t.changes[i]
		res := result{path: c.path}
		switch c.op {
		case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
			parentPath, _ := splitPath(c.path)
			parent := r.tree.nodes[parentPath]
			n := r.tree.create(c, t.zxid, now)
			res.stat = n.stat()
			r.dataWatches.fire(c.path, jute.EventCreated, n.acl, nil)
			r.childWatches.fire(parentPath, jute.EventChildrenChanged, parent.acl, nil)
		case jute.OpDelete:
			r.remove(c.path, t.zxid)
		case jute.OpSetData:
			n := r.tree.node(c.path)
			n.data, n.version, n.mzxid, n.mtime = c.data, c.version, t.zxid, now
			res.stat = n.stat()
			r.dataWatches.fire(c.path, jute.EventDataChanged, n.acl, nil)
		case jute.OpSetACL: // fires no watch
			n := r.tree.node(c.path)
			r.tree.setACL(n, c.acl, c.version)
			res.stat = n.stat()
		case jute.OpClose:
			for _, path := range c.paths {
				r.remove(path, t.zxid)
				parent, _ := splitPath(path)
				r.tree.node(parent).bereft = true
			}
		case opSetCounter:
			r.tree.node(c.path).creates = c.creates
		}
		results = append(results, res)
	}
	return results
}

// opSetCounter is the operation of Server.SetCounter. It never appears on the
// wire.
const opSetCounter int32 = -1000

func (r *replica) remove(path string, zxid int64) {
	n, parent := r.tree.remove(path, zxid)
	parentPath, _ := splitPath(path)
	// A connection that watches both data and children gets one event.
	notified := r.dataWatches.fire(path, jute.EventDeleted, n.acl, nil)
	r.childWatches.fire(path, jute.EventDeleted, n.acl, notified)
	r.childWatches.fire(parentPath, jute.EventChildrenChanged, parent.acl, nil)
}
