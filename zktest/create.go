package zktest

import (
	"fmt"
	"strings"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// maxTTL is the longest time to live, in milliseconds. It has 40 bits
// (EphemeralType.TTL).
const maxTTL = 1<<40 - 1

// create checks a create and resolves the path of the new znode. The number of
// a sequential znode is the number of children ever created in its parent,
// including those in flight (PrepRequestProcessor.pRequest2TxnCreate).
func (p *preparer) create(s *session, q *request, ids []identity, t *txn) (change, int32) {
	if err := p.checkCreateMode(q); err != 0 {
		return change{}, err
	}
	if s.closing {
		return change{}, jute.ErrSessionExpired
	}
	path := q.path
	if !strings.Contains(path, "/") || strings.Contains(path, "\x00") {
		return change{}, jute.ErrBadArguments
	}
	acl, ok := p.server.resolveACL(q.acl, ids)
	if !ok {
		return change{}, jute.ErrInvalidACL
	}
	parentPath, _ := splitPath(path)
	parent, ok := p.get(parentPath)
	if !ok {
		return change{}, jute.ErrNoNode
	}
	if !p.server.allowed(ids, parent.acl, jute.PermCreate) {
		return change{}, jute.ErrNoAuth
	}
	switch q.flags {
	case jute.FlagSequential, jute.FlagEphemeralSequential, jute.FlagSequentialTTL:
		path += fmt.Sprintf("%010d", parent.creates)
	}
	if !validPath(path) {
		return change{}, jute.ErrBadArguments
	}
	if _, ok := p.get(path); ok {
		return change{}, jute.ErrNodeExists
	}
	if parent.owner != 0 {
		return change{}, jute.ErrNoChildrenForEphemerals
	}
	return p.putNew(s, q, path, acl, t), 0
}

// checkCreateMode checks the flags and the time to live of a create. It returns
// an error code, or 0.
func (p *preparer) checkCreateMode(q *request) int32 {
	if q.flags < 0 || q.flags > jute.FlagSequentialTTL {
		return jute.ErrBadArguments
	}
	ttl := q.flags == jute.FlagTTL || q.flags == jute.FlagSequentialTTL
	if ttl && !p.server.opt.ttl {
		return jute.ErrUnimplemented
	}
	// A createTTL with other flags and without a time to live stops a real 3.8
	// server.
	if ttl != (q.op == jute.OpCreateTTL) || ttl && (q.ttl <= 0 || q.ttl > maxTTL) {
		return jute.ErrBadArguments
	}
	return 0
}

// putNew records a new znode and the changes to its parent.
func (p *preparer) putNew(s *session, q *request, path string, acl []jute.ACL, t *txn) change {
	parentPath, _ := splitPath(path)
	parent, _ := p.get(parentPath)
	parent.creates++ // wraps around
	parent.children++
	parent.pzxid = t.zxid
	p.put(parentPath, parent)
	r := changeRecord{acl: acl, meta: meta{czxid: t.zxid, mzxid: t.zxid, pzxid: t.zxid}}
	if q.flags == jute.FlagEphemeral || q.flags == jute.FlagEphemeralSequential {
		r.owner = s.id
	}
	p.put(path, r)
	// The operation decides which kind of znode is stored, not the flags.
	if q.op == jute.OpCreateContainer {
		r.owner = 0
	}
	return change{
		op: q.op, path: path, data: q.data, acl: acl,
		owner: r.owner, creates: parent.creates, ttl: max(q.ttl, 0),
	}
}

// delete checks a delete. It needs the delete permission of the parent.
func (p *preparer) delete(s *session, q *request, ids []identity, t *txn) (change, int32) {
	if s.closing {
		return change{}, jute.ErrSessionExpired
	}
	if !strings.Contains(q.path, "/") || strings.Contains(q.path, "\x00") || undeletable(q.path) {
		return change{}, jute.ErrBadArguments
	}
	parentPath, _ := splitPath(q.path)
	parent, ok := p.get(parentPath)
	if !ok {
		return change{}, jute.ErrNoNode
	}
	if !p.server.allowed(ids, parent.acl, jute.PermDelete) {
		return change{}, jute.ErrNoAuth
	}
	r, ok := p.get(q.path)
	if !ok {
		return change{}, jute.ErrNoNode
	}
	if q.version != -1 && q.version != r.version {
		return change{}, jute.ErrBadVersion
	}
	if r.children > 0 || p.isMiscounted(q.path) {
		return change{}, jute.ErrNotEmpty
	}
	return p.putDeleted(q.path, t), 0
}

// isMiscounted reports whether a fault finds a child of the znode that has ended with
// its session.
func (p *preparer) isMiscounted(path string) bool {
	n := p.server.leader.tree.nodes[path]
	if len(p.miscounts) == 0 || n == nil || !n.bereft {
		return false
	}
	p.server.opt.plan.found(p.miscounts)
	return true
}

// deleteContainer checks a deleteContainer by a client. No permission is needed,
// and the znode need not be a container, only no ephemeral.
func (p *preparer) deleteContainer(q *request, t *txn) (change, int32) {
	if !strings.Contains(q.path, "/") || strings.Contains(q.path, "\x00") || undeletable(q.path) {
		return change{}, jute.ErrBadArguments
	}
	r, ok := p.get(q.path)
	switch {
	case !ok:
		return change{}, jute.ErrNoNode
	case r.children > 0:
		return change{}, jute.ErrNotEmpty
	case r.owner != 0:
		return change{}, jute.ErrBadVersion
	}
	return p.putDeleted(q.path, t), 0
}

// putDeleted records the end of a znode and the changes to its parent.
func (p *preparer) putDeleted(path string, t *txn) change {
	parentPath, _ := splitPath(path)
	parent, _ := p.get(parentPath)
	parent.children--
	parent.pzxid = t.zxid
	p.put(parentPath, parent)
	p.put(path, changeRecord{deleted: true})
	return change{op: jute.OpDelete, path: path}
}
