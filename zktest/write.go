package zktest

import "github.com/zkrecipes/zkrecipes/internal/jute"

// serveWrite applies a prepared transaction and returns the body of its reply.
// noReply is true for requests to which a real server fails to reply.
func (c *conn) serveWrite(q *request) (body []byte, noReply bool) {
	s := c.server
	results := s.commit(q.txn)
	if c.replica != s.leader {
		// A follower replies to a write once it has applied the write itself,
		// and so everything before it.
		s.catchUp(c.replica)
	}
	if q.err != 0 {
		return nil, false
	}
	b := c.scratch
	switch q.op {
	case jute.OpCheck:
		// Outside a multi, a check that succeeds has no Stat for its reply.
		// FinalRequestProcessor fails on that and sends nothing.
		return nil, true
	case jute.OpMulti:
		b = appendResults(b, q.ops, results)
	case jute.OpClose:
		delete(s.sessions, c.session.id)
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL, jute.OpSetData, jute.OpSetACL:
		b = appendResult(b, q.op, &results[0])
	}
	c.scratch = b
	return b, false
}

// appendResult appends the record of an operation that has succeeded.
func appendResult(b []byte, op int32, r *result) []byte {
	switch op {
	case jute.OpCreate:
		return jute.AppendString(b, r.path)
	case jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		return jute.AppendStat(jute.AppendString(b, r.path), &r.stat)
	case jute.OpSetData, jute.OpSetACL:
		return jute.AppendStat(b, &r.stat)
	}
	return b
}

// appendResults appends the results of a multi. If an operation failed, each
// operation gets an error result instead, with code 0 for those before the
// failed one (MultiResponse).
func appendResults(b []byte, ops []request, results []result) []byte {
	failed := len(results) < len(ops)
	for i := range ops {
		if failed {
			b = appendHeader(b, jute.OpError, false, ops[i].err)
			b = jute.AppendInt32(b, ops[i].err)
			continue
		}
		op := ops[i].op
		if op == jute.OpCreateContainer || op == jute.OpCreateTTL {
			op = jute.OpCreate2
		}
		b = appendResult(appendHeader(b, op, false, 0), op, &results[i])
	}
	return appendHeader(b, jute.OpError, true, -1)
}

func appendHeader(b []byte, op int32, done bool, err int32) []byte {
	return jute.AppendInt32(jute.AppendBool(jute.AppendInt32(b, op), done), err)
}
