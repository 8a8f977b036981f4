package zktest

import (
	"slices"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// changeRecord is the state of a znode after all prepared transactions have been
// applied (ZooKeeperServer.ChangeRecord).
type changeRecord struct {
	meta
	acl      []jute.ACL
	children int
	deleted  bool
}

// preparer turns requests into transactions. It sees the changes that it has
// already prepared, so creates in flight together get different numbers and a
// multi sees its own changes (PrepRequestProcessor.outstandingChanges).
type preparer struct {
	server  *Server
	pending map[string]changeRecord
	undo    []undoEntry // used only while a multi is prepared
	multi   bool        // a multi is being prepared

	miscounts []*plannedFault // by which the request's deletions find a child too many
}

type undoEntry struct {
	path string
	old  changeRecord
	had  bool
}

func (p *preparer) get(path string) (changeRecord, bool) {
	if path == "" {
		path = "/"
	}
	if r, ok := p.pending[path]; ok {
		return r, !r.deleted
	}
	n := p.server.leader.tree.nodes[path]
	if n == nil {
		return changeRecord{}, false
	}
	return changeRecord{meta: n.meta, acl: n.acl, children: n.children.len()}, true
}

func (p *preparer) put(path string, r changeRecord) {
	if path == "" {
		path = "/"
	}
	if p.multi {
		old, had := p.pending[path]
		p.undo = append(p.undo, undoEntry{path, old, had})
	}
	p.pending[path] = r
}

// prepare sets q.txn, and q.err if the request fails. The transaction of a failed
// request has no changes, but takes a zxid.
func (p *preparer) prepare(s *session, q *request, now time.Time) {
	p.server.zxid++
	t := &txn{zxid: p.server.zxid, at: now}
	q.txn = t
	switch {
	case q.malformed: // includes createSession, which no client may send
		q.err = jute.ErrMarshalling
	case q.op == jute.OpMulti:
		p.prepareMulti(s, q, t)
	case q.op == jute.OpClose:
		t.changes = []change{p.closeSession(s)}
	default:
		var c change
		if c, q.err = p.change(s, q, q.ids, t); q.err == 0 {
			t.changes = []change{c}
		}
	}
}

// prepareMulti prepares all operations or none. If an operation fails, it gets
// its error code, operations before it get 0, and operations after it get
// RuntimeInconsistency. The multi itself has no error.
func (p *preparer) prepareMulti(s *session, q *request, t *txn) {
	p.multi, p.undo = true, p.undo[:0]
	defer func() { p.multi = false }()
	t.changes = make([]change, 0, len(q.ops))
	for i := range q.ops {
		sub := &q.ops[i]
		var c change
		c, sub.err = p.change(s, sub, q.ids, t)
		if sub.err == 0 {
			t.changes = append(t.changes, c)
			continue
		}
		for _, u := range slices.Backward(p.undo) {
			if u.had {
				p.pending[u.path] = u.old
			} else {
				delete(p.pending, u.path)
			}
		}
		t.changes = nil
		for j := i + 1; j < len(q.ops); j++ {
			q.ops[j].err = jute.ErrRuntimeInconsistency
		}
		return
	}
}

// change checks an operation. It returns the change that the operation makes, or
// an error code.
func (p *preparer) change(s *session, q *request, ids []identity, t *txn) (change, int32) {
	switch q.op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		return p.create(s, q, ids, t)
	case jute.OpDelete:
		return p.delete(s, q, ids, t)
	case jute.OpReconfig: // reconfigEnabled=false
		return change{}, jute.ErrReconfigDisabled
	case jute.OpDeleteContainer: // for the server's internal use
		if p.server.opt.version >= ZooKeeper39 {
			return p.deleteContainer(q, t)
		}
		// If a client sends it, the server takes the whole request as the path,
		// and the zeros of its header are invalid in a path.
		return change{}, jute.ErrBadArguments
	}
	return p.modify(s, q, ids, t)
}

// modify checks a setData, setACL or check.
func (p *preparer) modify(s *session, q *request, ids []identity, t *txn) (change, int32) {
	if s.closing {
		return change{}, jute.ErrSessionExpired
	}
	if !validPath(q.path) {
		return change{}, jute.ErrBadArguments
	}
	var acl []jute.ACL
	if q.op == jute.OpSetACL {
		ok := false
		if acl, ok = p.server.resolveACL(q.acl, ids); !ok {
			return change{}, jute.ErrInvalidACL
		}
	}
	r, ok := p.get(q.path)
	if !ok {
		return change{}, jute.ErrNoNode
	}
	perm, version := jute.PermRead, &r.version // of a check
	switch q.op {
	case jute.OpSetData:
		perm = jute.PermWrite
	case jute.OpSetACL:
		perm, version = jute.PermAdmin, &r.aversion
	}
	if !p.server.allowed(ids, r.acl, perm) {
		return change{}, jute.ErrNoAuth
	}
	if q.version != -1 && q.version != *version {
		return change{}, jute.ErrBadVersion
	}
	c := change{op: q.op, path: q.path, data: q.data, acl: acl, version: *version + 1}
	switch q.op {
	case jute.OpSetData:
		r.version++
		r.mzxid, r.mtime = t.zxid, t.at.UnixMilli()
		p.put(q.path, r)
	case jute.OpSetACL:
		// The record keeps the old ACL, so requests in flight with a setACL do
		// not see the new ACL until it is applied.
		r.aversion++
		p.put(q.path, r)
	}
	return c, 0
}

// closeSession prepares the end of a session. One transaction deletes all its
// ephemerals, including those whose creation is in flight.
func (p *preparer) closeSession(s *session) change {
	s.closing = true
	paths := map[string]struct{}{}
	for path := range p.server.leader.tree.ephemerals[s.id] {
		paths[path] = struct{}{}
	}
	for path, r := range p.pending {
		switch {
		case r.deleted:
			delete(paths, path)
		case r.owner == s.id:
			paths[path] = struct{}{}
		}
	}
	c := change{op: jute.OpClose}
	for path := range paths {
		c.paths = append(c.paths, path)
		p.put(path, changeRecord{deleted: true})
	}
	slices.Sort(c.paths)
	return c
}
