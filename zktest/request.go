package zktest

import (
	"bytes"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// request is one request as it was read; which fields count depends on op. Its
// strings and data are copies, body is not.
type request struct {
	xid, op    int32
	body       []byte
	malformed  bool // the record does not hold what it should
	nullVector bool // of setWatches: a vector is null

	path    string
	data    []byte
	acl     []jute.ACL
	flags   int32
	version int32 // or kind of watcher, or mode of a watch
	ttl     int64
	watch   bool
	ops     []request // of multi and multiRead

	zxid  int64       // of setWatches: what the client has seen
	paths [5][]string // of setWatches: data, exist, child, persistent, recursive

	scheme string // of auth

	ids []identity // who asks
	txn *txn       // what comes of it, prepared
	err int32
}

// write tells whether the request takes a zxid, even if it fails.
func (q *request) takesZxid() bool {
	switch q.op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL,
		jute.OpDelete, jute.OpDeleteContainer, jute.OpSetData, jute.OpSetACL,
		jute.OpCheck, jute.OpMulti, jute.OpReconfig, jute.OpCreateSession, jute.OpClose:
		return true
	}
	return false
}

// decode reads the record that follows the header of a request.
func decode(body []byte) (*request, bool) {
	d := jute.NewDecoder(body)
	q := &request{xid: d.Int32(), op: d.Int32()}
	if d.Err != nil {
		return nil, false
	}
	q.body = body[8:]
	q.decodeFields(d)
	q.malformed = q.malformed || d.Err != nil
	return q, true
}

func (q *request) decodeFields(d *jute.Decoder) {
	switch q.op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		q.path, q.data, q.acl, q.flags = d.Text(), bytes.Clone(d.Buffer()), d.ACLs(), d.Int32()
		q.ttl = -1
		if q.op == jute.OpCreateTTL {
			q.ttl = d.Int64()
		}
	case jute.OpDelete, jute.OpCheck:
		q.path, q.version = d.Text(), d.Int32()
	case jute.OpSetData:
		q.path, q.data, q.version = d.Text(), bytes.Clone(d.Buffer()), d.Int32()
	case jute.OpSetACL:
		q.path, q.acl, q.version = d.Text(), d.ACLs(), d.Int32()
	case jute.OpExists, jute.OpGetData, jute.OpGetChildren, jute.OpGetChildren2:
		q.path, q.watch = d.Text(), d.Bool()
	case jute.OpGetACL, jute.OpGetAllChildrenNumber:
		q.path = d.Text()
	case jute.OpSync: // which says back what it was told, even nothing
		q.data = d.Buffer()
		q.path = string(q.data)
	case jute.OpCreateSession: // nobody's to ask for
		q.malformed = true
	case jute.OpGetEphemerals:
		q.path = d.String()
	case jute.OpCheckWatches, jute.OpRemoveWatches, jute.OpAddWatch:
		q.path, q.version = d.Text(), d.Int32()
	case jute.OpSetWatches, jute.OpSetWatches2:
		q.zxid = d.Int64()
		n := 3
		if q.op == jute.OpSetWatches2 {
			n = 5
		}
		for i := range n {
			paths := d.Strings()
			// An empty vector is fine, one that is null is not; those before it
			// have been worked off by then (DataTree.setWatches).
			q.nullVector = q.nullVector || d.Null
			if !q.nullVector {
				q.paths[i] = paths
			}
		}
	case jute.OpAuth:
		d.Int32() // type, which nobody looks at
		q.scheme, q.data = d.String(), bytes.Clone(d.Buffer())
	case jute.OpSasl:
		d.Buffer()
	case jute.OpMulti, jute.OpMultiRead:
		q.decodeOps(d)
	}
}

// operations reads those of a multi, each after a header, the last header
// saying that it was the last (MultiOperationRecord).
func (q *request) decodeOps(d *jute.Decoder) {
	for d.Err == nil {
		op, done := d.Int32(), d.Bool()
		d.Int32() // err, which only counts in a result
		if done || d.Err != nil {
			return
		}
		sub := request{op: op}
		switch op {
		case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL,
			jute.OpDelete, jute.OpSetData, jute.OpCheck, jute.OpGetChildren, jute.OpGetData:
			sub.decodeFields(d)
		default:
			q.malformed = true
			return
		}
		switch op {
		case jute.OpCreateTTL:
			if sub.flags == jute.FlagTTL || sub.flags == jute.FlagSequentialTTL {
				break
			}
			fallthrough
		case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer:
			// What is created is the flags' to say here, and there is a Stat
			// for containers only (Op.Create, until ZOOKEEPER-4026).
			sub.op = jute.OpCreate
			if sub.flags == jute.FlagContainer {
				sub.op = jute.OpCreateContainer
			}
		}
		// Reads and writes do not mix, and no create but createTTL may have a
		// time to live (Op.Create).
		mixed := len(q.ops) > 0 && q.ops[0].isRead() != sub.isRead()
		ttl := op != jute.OpCreateTTL && (sub.flags == jute.FlagTTL || sub.flags == jute.FlagSequentialTTL)
		if mixed || ttl || q.op == jute.OpMulti && sub.isRead() {
			q.malformed = true
			return
		}
		q.ops = append(q.ops, sub)
	}
}

func (q *request) isRead() bool { return q.op == jute.OpGetChildren || q.op == jute.OpGetData }

// name is what the request is counted as.
func (q *request) name() string {
	if q.op != jute.OpMulti && q.op != jute.OpMultiRead {
		return jute.OpName(q.op)
	}
	b := []byte(jute.OpName(q.op) + "(")
	for i := range q.ops {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, jute.OpName(q.ops[i].op)...)
	}
	return string(append(b, ')'))
}
