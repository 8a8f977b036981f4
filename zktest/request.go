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
	refused    bool // so early that it takes no zxid
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
	answer []byte // to sasl: the server's token

	ids []identity // of the connection when the request arrived
	txn *txn       // of a write, once it is prepared
	err int32
}

// takesZxid reports whether the request is a write. Writes take a zxid even if
// they fail.
func (q *request) takesZxid() bool {
	return !q.refused && isWrite(q.op)
}

func isWrite(op int32) bool {
	switch op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL,
		jute.OpDelete, jute.OpDeleteContainer, jute.OpSetData, jute.OpSetACL,
		jute.OpCheck, jute.OpMulti, jute.OpReconfig, jute.OpCreateSession, jute.OpClose:
		return true
	}
	return false
}

// decode decodes a request to a server of version v. It returns false if the
// header is incomplete. A record that cannot be decoded makes the request
// malformed.
func decode(body []byte, v Version) (*request, bool) {
	d := jute.NewDecoder(body)
	q := &request{xid: d.Int32(), op: d.Int32()}
	if d.Err != nil {
		return nil, false
	}
	if q.op == jute.OpCheck && v >= ZooKeeper39 { // outside a multi
		q.refused = true
		return q, true
	}
	q.decodeFields(d, v)
	// Since 3.9 the server decodes most writes before they get a zxid
	// (PrepRequestProcessor.pRequestHelper).
	q.refused = q.refused || d.Err != nil && q.op != jute.OpMulti && v >= ZooKeeper39
	q.malformed = q.malformed || q.refused || d.Err != nil
	return q, true
}

func (q *request) decodeFields(d *jute.Decoder, v Version) {
	switch q.op {
	case jute.OpCreateSession: // no client may send it
		q.malformed = true
	case jute.OpSetWatches, jute.OpSetWatches2:
		q.decodeSetWatches(d)
	case jute.OpAuth:
		d.Int32() // type, which the server ignores
		q.scheme, q.data = d.String(), bytes.Clone(d.Buffer())
	case jute.OpSasl:
		q.data = bytes.Clone(d.Buffer())
	case jute.OpMulti, jute.OpMultiRead:
		q.decodeOps(d, v)
	default:
		q.decodeOfPath(d, v)
	}
}

// decodeOfPath decodes the fields of a request that has one path, alone or in a multi.
func (q *request) decodeOfPath(d *jute.Decoder, v Version) {
	switch q.op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		q.path, q.data, q.acl, q.flags = d.Text(), bytes.Clone(d.Buffer()), d.ACLs(), d.Int32()
		q.ttl = -1
		if q.op == jute.OpCreateTTL {
			q.ttl = d.Int64()
		}
	case jute.OpDelete, jute.OpCheck:
		q.path, q.version = d.Text(), d.Int32()
	case jute.OpDeleteContainer:
		if v >= ZooKeeper39 {
			q.path = d.Text()
		}
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
	case jute.OpGetEphemerals:
		q.path = d.String()
	case jute.OpCheckWatches, jute.OpRemoveWatches, jute.OpAddWatch:
		q.path, q.version = d.Text(), d.Int32()
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
func (q *request) decodeOps(d *jute.Decoder, v Version) {
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
			sub.decodeOfPath(d, v)
		default:
			q.malformed = true
			return
		}
		if isCreate(op) && d.Err == nil {
			q.decodeCreateMode(&sub, d.Null, v)
		}
		// Reads and writes cannot be mixed.
		mixed := len(q.ops) > 0 && q.ops[0].isRead() != sub.isRead()
		if mixed || q.op == jute.OpMulti && sub.isRead() {
			q.malformed = true
		}
		if q.malformed {
			return
		}
		q.ops = append(q.ops, sub)
	}
}

func isCreate(op int32) bool {
	switch op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		return true
	}
	return false
}

// decodeCreateMode checks the flags of a create in a multi, and finds out what it
// creates (Op.Create). Only createTTL may have a time to live.
func (q *request) decodeCreateMode(sub *request, nullACL bool, v Version) {
	ttl := sub.flags == jute.FlagTTL || sub.flags == jute.FlagSequentialTTL
	if !ttl {
		sub.ttl = -1
	}
	switch {
	case v >= ZooKeeper39 && (sub.flags < 0 || sub.flags > jute.FlagSequentialTTL):
		q.malformed = true
	case v >= ZooKeeper39 && nullACL: // a NullPointerException, where the others are IOExceptions
		q.malformed, q.refused = true, true
	case ttl && sub.op != jute.OpCreateTTL:
		q.malformed = true
	case ttl:
	case sub.flags == jute.FlagContainer:
		sub.op = jute.OpCreateContainer
	case v < ZooKeeper39 || sub.op == jute.OpCreateTTL:
		// Before 3.9 the flags decide alone, and the result has no Stat
		// (ZOOKEEPER-4026).
		sub.op = jute.OpCreate
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
