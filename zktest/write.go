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
	case jute.OpCreate:
		b = jute.AppendString(b, results[0].path)
	case jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		b = jute.AppendStat(jute.AppendString(b, results[0].path), &results[0].stat)
	case jute.OpSetData, jute.OpSetACL:
		b = jute.AppendStat(b, &results[0].stat)
	case jute.OpCheck:
		// Outside a multi, a check that succeeds has no Stat for its reply.
		// FinalRequestProcessor fails on that and sends nothing.
		return nil, true
	case jute.OpMulti:
		b = appendResults(b, q.ops, results)
	case jute.OpClose:
		s.removeSession(c.session)
	}
	c.scratch = b
	return b, false
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
		r := &results[i]
		switch ops[i].op {
		case jute.OpCreate:
			b = appendHeader(b, jute.OpCreate, false, 0)
			b = jute.AppendString(b, r.path)
		case jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
			b = appendHeader(b, jute.OpCreate2, false, 0)
			b = jute.AppendStat(jute.AppendString(b, r.path), &r.stat)
		case jute.OpSetData:
			b = appendHeader(b, jute.OpSetData, false, 0)
			b = jute.AppendStat(b, &r.stat)
		default:
			b = appendHeader(b, ops[i].op, false, 0)
		}
	}
	return appendHeader(b, jute.OpError, true, -1)
}

func appendHeader(b []byte, op int32, done bool, err int32) []byte {
	return jute.AppendInt32(jute.AppendBool(jute.AppendInt32(b, op), done), err)
}
