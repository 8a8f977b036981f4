package zktest

import (
	"slices"
	"strings"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// serveRead serves a request that changes no data from the connection's replica,
// and sets its watches. It returns the body of the reply, or sets q.err.
func (c *conn) serveRead(q *request) []byte {
	if q.malformed {
		q.err = jute.ErrMarshalling
		return nil
	}
	b := c.scratch
	switch q.op {
	case jute.OpPing:
	case jute.OpSync:
		c.server.catchUp(c.replica)
		b = jute.AppendNullableBuffer(b, q.data)
	case jute.OpExists, jute.OpGetData, jute.OpGetChildren, jute.OpGetChildren2:
		b = c.readZnode(q, b)
	case jute.OpGetACL:
		b = c.getACL(q, b)
	case jute.OpMultiRead:
		b = c.multiRead(q, b)
	case jute.OpSetWatches, jute.OpSetWatches2:
		c.setWatches(q)
		if q.nullVector {
			q.err = jute.ErrMarshalling
		}
	case jute.OpAddWatch, jute.OpCheckWatches, jute.OpRemoveWatches:
		b = c.changeWatches(q, b)
	case jute.OpGetEphemerals:
		b = c.getEphemerals(q, b)
	case jute.OpGetAllChildrenNumber:
		b = c.countDescendants(q, b)
	case jute.OpWhoAmI:
		b = c.whoAmI(q, b)
	default:
		q.err = errUnknownOp
	}
	c.scratch = b
	return b
}

// multiRead appends a result for each operation. If an operation is not a read,
// multiRead sets q.err and stops, but the reply still contains the results before
// it.
func (c *conn) multiRead(q *request, b []byte) []byte {
	for i := range q.ops {
		sub := &q.ops[i]
		if !sub.isRead() {
			q.err = jute.ErrMarshalling
			break
		}
		sub.watch, sub.ids = false, q.ids
		at := len(b)
		b = c.readZnode(sub, appendHeader(b, sub.op, false, 0))
		if sub.err != 0 {
			b = jute.AppendInt32(appendHeader(b[:at], jute.OpError, false, sub.err), sub.err)
		}
	}
	return appendHeader(b, jute.OpError, true, -1)
}

// readZnode serves the four requests that read a znode and may set a watch:
// exists, getData, getChildren and getChildren2.
func (c *conn) readZnode(q *request, b []byte) []byte {
	r := c.replica
	if q.op == jute.OpExists && strings.Contains(q.path, "\x00") {
		q.err = jute.ErrBadArguments
		return b
	}
	perms := jute.PermRead
	if q.op == jute.OpExists && c.server.opt.version < ZooKeeper39 {
		perms = 0
	}
	n := c.nodeFor(q, perms)
	if n == nil {
		if q.err == jute.ErrNoNode && q.op == jute.OpExists && q.watch {
			r.dataWatches.add(q.path, c, oneShot)
		}
		return b
	}
	if q.watch {
		if q.op == jute.OpExists || q.op == jute.OpGetData {
			r.dataWatches.add(q.path, c, oneShot)
		} else {
			r.childWatches.add(q.path, c, oneShot)
		}
	}
	switch q.op {
	case jute.OpGetData:
		b = jute.AppendNullableBuffer(b, n.data)
	case jute.OpGetChildren, jute.OpGetChildren2:
		b = jute.AppendStrings(b, n.children.list())
	}
	if q.op != jute.OpGetChildren {
		stat := n.stat()
		b = jute.AppendStat(b, &stat)
	}
	return b
}

// nodeFor returns the znode of a read that needs one of perms, or nil if it fails. 0 means that
// any client may read it.
func (c *conn) nodeFor(q *request, perms int32) *node {
	n := c.replica.tree.node(q.path)
	switch {
	case n == nil:
		q.err = jute.ErrNoNode
	case perms != 0 && !c.server.allowed(q.ids, n.acl, perms):
		q.err = jute.ErrNoAuth
		return nil
	}
	return n
}

func (c *conn) getACL(q *request, b []byte) []byte {
	n := c.nodeFor(q, jute.PermRead|jute.PermAdmin)
	if n == nil {
		return b
	}
	acl := n.acl
	if !c.server.allowed(q.ids, n.acl, jute.PermAdmin) {
		acl = redactDigests(acl)
	}
	stat := n.stat()
	return jute.AppendStat(jute.AppendACLs(b, acl), &stat)
}

// setWatches sets a client's watches again after it has reconnected. It fires
// those whose znode has changed since the last zxid that the client saw
// (DataTree.setWatches). It does not check ACLs.
func (c *conn) setWatches(q *request) {
	r := c.replica
	for _, path := range q.paths[0] { // data
		switch n := r.tree.node(path); {
		case n == nil:
			c.event(jute.EventDeleted, path, noZxid)
		case n.mzxid > q.zxid:
			c.event(jute.EventDataChanged, path, noZxid)
		default:
			r.dataWatches.add(path, c, oneShot)
		}
	}
	for _, path := range q.paths[1] { // of exists, when there was no znode
		if r.tree.node(path) != nil {
			c.event(jute.EventCreated, path, noZxid)
		} else {
			r.dataWatches.add(path, c, oneShot)
		}
	}
	for _, path := range q.paths[2] { // children
		switch n := r.tree.node(path); {
		case n == nil:
			c.event(jute.EventDeleted, path, noZxid)
		case n.pzxid > q.zxid:
			c.event(jute.EventChildrenChanged, path, noZxid)
		default:
			r.childWatches.add(path, c, oneShot)
		}
	}
	for i, m := range []watchMode{persistent, recursive} {
		for _, path := range q.paths[3+i] {
			r.addPersistent(path, c, m)
		}
	}
}

// changeWatches serves addWatch, checkWatches and removeWatches, which came later
// to the protocol. None of them checks paths or ACLs.
func (c *conn) changeWatches(q *request, b []byte) []byte {
	r := c.replica
	kind := q.version
	if q.op == jute.OpAddWatch {
		if kind != jute.WatchPersistent && kind != jute.WatchPersistentRecursive {
			q.err = jute.ErrMarshalling
			return b
		}
		m := persistent
		if kind == jute.WatchPersistentRecursive {
			m = recursive
		}
		r.addPersistent(q.path, c, m)
		return jute.AppendInt32(b, 0) // an ErrorResult
	}
	child, data, ok := r.watchesOfKind(kind)
	if !ok {
		q.err = jute.ErrMarshalling
		return b
	}
	do := (*watches).contains
	if q.op == jute.OpRemoveWatches {
		do = (*watches).remove
	}
	inChild, inData := do(&r.childWatches, q.path, c, child), do(&r.dataWatches, q.path, c, data)
	if !inChild && !inData {
		q.err = jute.ErrNoWatcher
	}
	return b
}

// getEphemerals lists the session's ephemerals whose paths begin with a prefix.
func (c *conn) getEphemerals(q *request, b []byte) []byte {
	prefix := q.path
	switch strings.TrimSpace(prefix) {
	case "", "/":
		prefix = ""
	}
	var paths []string
	for _, path := range c.replica.tree.ephemeralsOf(c.session.id) {
		if strings.HasPrefix(path, prefix) {
			paths = append(paths, path)
		}
	}
	return jute.AppendStrings(b, paths)
}

// countDescendants serves getAllChildrenNumber.
func (c *conn) countDescendants(q *request, b []byte) []byte {
	if c.nodeFor(q, jute.PermRead) == nil {
		return b
	}
	below := 0
	for path := range c.replica.tree.nodes {
		if strings.HasPrefix(path, strings.TrimSuffix(q.path, "/")+"/") && path != "/" {
			below++
		}
	}
	return jute.AppendInt32(b, int32(below))
}

func (c *conn) whoAmI(q *request, b []byte) []byte {
	b = jute.AppendInt32(b, int32(len(q.ids)))
	for _, id := range slices.SortedFunc(slices.Values(q.ids), func(x, y identity) int {
		return strings.Compare(x.scheme, y.scheme)
	}) {
		user := id.id
		if id.scheme == "digest" {
			user, _, _ = strings.Cut(user, ":")
		}
		b = jute.AppendString(jute.AppendString(b, id.scheme), user)
	}
	return b
}
