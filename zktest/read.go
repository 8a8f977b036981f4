package zktest

import (
	"slices"
	"strings"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// query answers a request that changes nothing, from the connection's replica,
// and sets its watches. It returns the body, or sets the request's error.
func (c *conn) serveRead(q *request) []byte {
	if q.malformed {
		q.err = jute.ErrMarshalling
		return nil
	}
	r, b := c.replica, c.scratch
	switch q.op {
	case jute.OpPing:
	case jute.OpSync:
		c.server.catchUp(r)
		b = jute.AppendNullableBuffer(b, q.data)
	case jute.OpExists, jute.OpGetData, jute.OpGetChildren, jute.OpGetChildren2:
		b = c.readZnode(q, b)
	case jute.OpGetACL:
		b = c.getACL(q, b)
	case jute.OpMultiRead:
		for i := range q.ops {
			sub := &q.ops[i]
			if !sub.isRead() { // it is answered with the error and what there was before
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
		b = appendHeader(b, jute.OpError, true, -1)
	case jute.OpSetWatches, jute.OpSetWatches2:
		c.setWatches(q)
		if q.nullVector {
			q.err = jute.ErrMarshalling
		}
	case jute.OpAddWatch, jute.OpCheckWatches, jute.OpRemoveWatches:
		b = c.changeWatches(q, b)
	case jute.OpGetEphemerals:
		var paths []string
		for _, path := range r.tree.ephemeralsOf(c.session.id) {
			if strings.HasPrefix(path, strings.TrimSpace(q.path)) {
				paths = append(paths, path)
			}
		}
		b = jute.AppendStrings(b, paths)
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

// look answers the four requests that read a znode and may leave a watch.
func (c *conn) readZnode(q *request, b []byte) []byte {
	r := c.replica
	if q.op == jute.OpExists && strings.Contains(q.path, "\x00") {
		q.err = jute.ErrBadArguments
		return b
	}
	n := r.tree.node(q.path)
	if n == nil {
		if q.op == jute.OpExists && q.watch {
			r.dataWatches.add(q.path, c, oneShot)
		}
		q.err = jute.ErrNoNode
		return b
	}
	free := q.op == jute.OpExists && !c.server.opt.existsNeedsRead
	if !free && !c.server.allowed(q.ids, n.acl, jute.PermRead) {
		q.err = jute.ErrNoAuth
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
		// In no order, as on the real server, whose order is of hashes.
		b = jute.AppendInt32(b, int32(len(n.children)))
		for child := range n.children {
			b = jute.AppendString(b, child)
		}
	}
	if q.op != jute.OpGetChildren {
		stat := n.stat()
		b = jute.AppendStat(b, &stat)
	}
	return b
}

func (c *conn) getACL(q *request, b []byte) []byte {
	n := c.replica.tree.node(q.path)
	if n == nil {
		q.err = jute.ErrNoNode
		return b
	}
	if !c.server.allowed(q.ids, n.acl, jute.PermRead|jute.PermAdmin) {
		q.err = jute.ErrNoAuth
		return b
	}
	acl := n.acl
	if !c.server.allowed(q.ids, n.acl, jute.PermAdmin) {
		acl = redactDigests(acl)
	}
	stat := n.stat()
	return jute.AppendStat(jute.AppendACLs(b, acl), &stat)
}

// setWatches sets watches again after a reconnect, and fires those for which
// something has happened since the zxid that the client saw last
// (DataTree.setWatches). There is no check of ACLs.
func (c *conn) setWatches(q *request) {
	r := c.replica
	for _, path := range q.paths[0] { // data
		switch n := r.tree.node(path); {
		case n == nil:
			c.event(jute.EventDeleted, path)
		case n.mzxid > q.zxid:
			c.event(jute.EventDataChanged, path)
		default:
			r.dataWatches.add(path, c, oneShot)
		}
	}
	for _, path := range q.paths[1] { // that did not exist
		if r.tree.node(path) != nil {
			c.event(jute.EventCreated, path)
		} else {
			r.dataWatches.add(path, c, oneShot)
		}
	}
	for _, path := range q.paths[2] { // children
		switch n := r.tree.node(path); {
		case n == nil:
			c.event(jute.EventDeleted, path)
		case n.pzxid > q.zxid:
			c.event(jute.EventChildrenChanged, path)
		default:
			r.childWatches.add(path, c, oneShot)
		}
	}
	for i, m := range []watchMode{persistent, recursive} {
		for _, path := range q.paths[3+i] {
			r.childWatches.add(path, c, m)
			r.dataWatches.add(path, c, m)
		}
	}
}

// changeWatches adds, checks and removes watches of the later protocol, none of
// which looks at paths or ACLs.
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
		r.dataWatches.add(q.path, c, m)
		r.childWatches.add(q.path, c, m)
		return jute.AppendInt32(b, 0) // an ErrorResult
	}
	if kind < jute.WatcherChildren || kind > jute.WatcherAny {
		q.err = jute.ErrMarshalling
		return b
	}
	do := (*watches).contains
	if q.op == jute.OpRemoveWatches {
		do = (*watches).remove
	}
	child := kind != jute.WatcherData && do(&r.childWatches, q.path, c)
	data := kind != jute.WatcherChildren && do(&r.dataWatches, q.path, c)
	if !child && !data {
		q.err = jute.ErrNoWatcher
	}
	return b
}

func (c *conn) countDescendants(q *request, b []byte) []byte {
	r := c.replica
	n := r.tree.node(q.path)
	switch {
	case n == nil:
		q.err = jute.ErrNoNode
		return b
	case !c.server.allowed(q.ids, n.acl, jute.PermRead):
		q.err = jute.ErrNoAuth
		return b
	}
	below := 0
	for path := range r.tree.nodes {
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
