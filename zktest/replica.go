package zktest

import (
	"time"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// change is one resolved change of a transaction: names are complete, versions
// and counts are the new ones, and nothing can fail any more.
type change struct {
	op      int32
	path    string
	data    []byte
	acl     []jute.ACL
	owner   int64    // of an ephemeral that is created
	creates int32    // of the parent of what is created
	version int32    // of data or ACL
	ttl     int64    // of what is created, in milliseconds
	paths   []string // ephemerals of a session that ends
}

// txn is a transaction. One that failed changes nothing but takes a zxid too.
type txn struct {
	zxid    int64
	at      time.Time
	changes []change
}

// result is what a change gave.
type result struct {
	path string
	stat jute.Stat
}

// replica is a copy of the data as far as it has heard of transactions, with
// the watches of the connections that read it.
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

// apply makes the changes and fires watches change by change, as one
// transaction at the granularity that clients can see (DataTree.processTxn).
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
		case jute.OpSetACL: // which no watch hears of
			n := r.tree.node(c.path)
			n.acl, n.aversion = c.acl, c.version
			res.stat = n.stat()
		case jute.OpClose:
			for _, path := range c.paths {
				r.remove(path, t.zxid)
			}
		case opSetCounter:
			r.tree.node(c.path).creates = c.creates
		}
		results = append(results, res)
	}
	return results
}

// opSetCounter is Server.SetCounter's change; it is not on the wire.
const opSetCounter int32 = -1000

func (r *replica) remove(path string, zxid int64) {
	n, parent := r.tree.remove(path, zxid)
	parentPath, _ := splitPath(path)
	// Who watches both data and children hears of the deletion once.
	told := r.dataWatches.fire(path, jute.EventDeleted, n.acl, nil)
	r.childWatches.fire(path, jute.EventDeleted, n.acl, told)
	r.childWatches.fire(parentPath, jute.EventChildrenChanged, parent.acl, nil)
}
