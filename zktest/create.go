package zktest

import (
	"fmt"
	"strings"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// maxTTL is in milliseconds: 40 bits of them (EphemeralType.TTL).
const maxTTL = 1<<40 - 1

// create checks a create and names what it creates: the number of a sequential
// znode is how many children its parent has had, with those in flight
// (PrepRequestProcessor.pRequest2TxnCreate).
func (p *preparer) create(s *session, q *request, ids []identity, t *txn) (change, int32) {
	none := change{}
	if q.flags < 0 || q.flags > jute.FlagSequentialTTL {
		return none, jute.ErrBadArguments
	}
	ttl := q.flags == jute.FlagTTL || q.flags == jute.FlagSequentialTTL
	if ttl && !p.server.opt.ttl {
		return none, jute.ErrUnimplemented
	}
	// createTTL without such a flag and without a time stops a real 3.8 server.
	if ttl != (q.op == jute.OpCreateTTL) || ttl && (q.ttl <= 0 || q.ttl > maxTTL) {
		return none, jute.ErrBadArguments
	}
	if s.closing {
		return none, jute.ErrSessionExpired
	}
	path := q.path
	if !strings.Contains(path, "/") || strings.Contains(path, "\x00") {
		return none, jute.ErrBadArguments
	}
	acl, ok := p.server.resolveACL(q.acl, ids)
	if !ok {
		return none, jute.ErrInvalidACL
	}
	parentPath, _ := splitPath(path)
	parent, ok := p.get(parentPath)
	if !ok {
		return none, jute.ErrNoNode
	}
	if !p.server.allowed(ids, parent.acl, jute.PermCreate) {
		return none, jute.ErrNoAuth
	}
	switch q.flags {
	case jute.FlagSequential, jute.FlagEphemeralSequential, jute.FlagSequentialTTL:
		path += fmt.Sprintf("%010d", parent.creates)
	}
	if !validPath(path) {
		return none, jute.ErrBadArguments
	}
	if _, ok := p.get(path); ok {
		return none, jute.ErrNodeExists
	}
	if parent.owner != 0 {
		return none, jute.ErrNoChildrenForEphemerals
	}
	parent.creates++ // wraps around
	parent.children++
	parent.pzxid = t.zxid
	p.put(parentPath, parent)
	r := changeRecord{acl: acl, meta: meta{czxid: t.zxid, mzxid: t.zxid, pzxid: t.zxid}}
	if q.flags == jute.FlagEphemeral || q.flags == jute.FlagEphemeralSequential {
		r.owner = s.id
	}
	p.put(path, r)
	// What kind of znode it will be is the operation's to say, not the flags'.
	op := q.op
	if op == jute.OpCreateContainer {
		r.owner = 0
	}
	return change{
		op: op, path: path, data: q.data, acl: acl,
		owner: r.owner, creates: parent.creates, ttl: max(q.ttl, 0),
	}, 0
}

// delete checks a delete, for which the permission is the parent's to give.
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
	if r.children > 0 {
		return change{}, jute.ErrNotEmpty
	}
	parent.children--
	parent.pzxid = t.zxid
	p.put(parentPath, parent)
	p.put(q.path, changeRecord{deleted: true})
	return change{op: jute.OpDelete, path: q.path}, 0
}
