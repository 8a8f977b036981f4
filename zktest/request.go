package zktest

import (
	"bytes"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// request is a decoded request. Which fields are used depends on op. Strings and
// data are copies, so that the tree can keep them.
type request struct {
	xid, op    int32
	malformed  bool // the record cannot be decoded
	nullVector bool // of setWatches: a list of paths is null

	path    string
	data    []byte
	acl     []jute.ACL
	flags   int32
	version int32 // or the type of a watcher, or the mode of a watch
	ttl     int64
	watch   bool
	ops     []request // of multi and multiRead

	zxid  int64       // of setWatches: the last zxid that the client saw
	paths [5][]string // of setWatches: data, exist, child, persistent, recursive

	scheme string // of auth

	ids []identity // of the connection when the request arrived
	txn *txn       // of a write, once it is prepared
	err int32
}

// takesZxid reports whether the request is a write. Writes take a zxid even if
// they fail.
func (q *request) takesZxid() bool {
	switch q.op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL,
		jute.OpDelete, jute.OpDeleteContainer, jute.OpSetData, jute.OpSetACL,
		jute.OpCheck, jute.OpMulti, jute.OpReconfig, jute.OpCreateSession, jute.OpClose:
		return true
	}
	return false
}

// decode decodes a request. It returns false if the header is incomplete. A
// record that cannot be decoded makes the request malformed.
func decode(body []byte) (*request, bool) {
	d := jute.NewDecoder(body)
	q := &request{xid: d.Int32(), op: d.Int32()}
	if d.Err != nil {
		return nil, false
	}
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
	case jute.OpSync: // its reply repeats the path, even if that is null
		q.data = d.Buffer()
		q.path = string(q.data)
	case jute.OpCreateSession: // no client may send it
		q.malformed = true
	case jute.OpGetEphemerals:
		q.path = d.String()
	case jute.OpCheckWatches, jute.OpRemoveWatches, jute.OpAddWatch:
		q.path, q.version = d.Text(), d.Int32()
	case jute.OpSetWatches, jute.OpSetWatches2:
		q.decodeSetWatches(d)
	case jute.OpAuth:
		d.Int32() // type, which the server ignores
		q.scheme, q.data = d.String(), bytes.Clone(d.Buffer())
	case jute.OpSasl:
		d.Buffer()
	case jute.OpMulti, jute.OpMultiRead:
		q.decodeOps(d)
	}
}

// decodeSetWatches decodes the lists of paths of a setWatches. An empty list is
// valid. A null list is an error, but the server has served the lists before it
// when it finds out (DataTree.setWatches).
func (q *request) decodeSetWatches(d *jute.Decoder) {
	q.zxid = d.Int64()
	n := 3
	if q.op == jute.OpSetWatches2 {
		n = 5
	}
	for i := range n {
		paths := d.Strings()
		q.nullVector = q.nullVector || d.Null
		if !q.nullVector {
			q.paths[i] = paths
		}
	}
}

// decodeOps decodes the operations of a multi. A header precedes each of them,
// and a header with the done flag ends the list (MultiOperationRecord).
func (q *request) decodeOps(d *jute.Decoder) {
	for d.Err == nil {
		op, done := d.Int32(), d.Bool()
		d.Int32() // err, which is for results only
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
			// In a multi the flags decide what is created, not the operation,
			// and only containers get a Stat (Op.Create, until ZOOKEEPER-4026).
			sub.op = jute.OpCreate
			if sub.flags == jute.FlagContainer {
				sub.op = jute.OpCreateContainer
			}
		}
		// Reads and writes cannot be mixed, and only createTTL may have a time to
		// live (Op.Create).
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

// name returns the name under which the request is counted, see Counts.
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
