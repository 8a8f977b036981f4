package zktest

import (
	"slices"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// serve serves a batch of requests. It reports whether the connection stays open.
//
// The plan decides about every request twice: before the request is applied, and
// again before its reply is queued. A delayed request splits the batch, and the
// requests before it are served without delay. So does one after which the connection
// may end: a request that is not served uses up no fault.
func (c *conn) serve(batch []*request) bool {
	if c.server.opt.plan.exhausted() {
		return c.processBatch(batch, nil)
	}
	for len(batch) > 0 {
		var verdicts []verdict
		n := 0
		for last := false; n < len(batch) && !last; n++ {
			v := c.server.opt.plan.before(requestInfoOf(batch[n]), n)
			if v.delay > 0 {
				if n > 0 && !c.processBatch(batch[:n], verdicts) {
					return false
				}
				batch, verdicts, n = batch[n:], nil, 0
				if !c.sleep(v.delay) {
					return false
				}
			}
			verdicts, last = append(verdicts, v), v.last
		}
		if !c.processBatch(batch[:n], verdicts) {
			return false
		}
		batch = batch[n:]
	}
	return true
}

// requestInfoOf describes a request to a plan.
func requestInfoOf(q *request) requestInfo {
	e := requestInfo{op: q.name(), paths: []string{q.path}}
	for i := range q.ops {
		e.paths = append(e.paths, q.ops[i].path)
	}
	return e
}

// processBatch prepares all requests and then applies them in order. verdicts has
// the plan's verdict for each request, or is nil. processBatch reports whether the
// connection stays open.
func (c *conn) processBatch(batch []*request, verdicts []verdict) bool {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.detached {
		return false
	}
	now := time.Now()
	s.touch(c.session, now)
	p := s.newPreparer()
	for i, q := range batch {
		s.counts.Requests[q.name()]++
		var v verdict
		if verdicts != nil {
			v = verdicts[i]
		}
		if v.expire || v.drop || v.withhold {
			c.applyBatch(batch[:i])
			c.cutOff(v)
			return false
		}
		if v.err != 0 {
			q.txn, q.err = nil, v.err
			continue
		}
		q.ids, p.miscounts = c.ids, v.miscounts
		switch {
		case q.op == jute.OpAuth:
			c.authenticate(q)
		case q.op == jute.OpSasl:
			c.stepSASL(q)
		case c.mustLogIn():
			q.txn, q.err = nil, jute.ErrSASL
		case q.takesZxid():
			p.prepare(c.session, q, now)
		case c.session.closing:
			q.err = jute.ErrSessionExpired
		}
	}
	c.applyBatch(batch)
	return !c.detached
}

// cutOff carries out a verdict that ends the service of the connection before a
// request is applied.
func (c *conn) cutOff(v verdict) {
	switch {
	case v.expire:
		c.server.expire(c.session)
	case v.drop:
		c.closeAfterFlush()
	default: // withhold
		c.silent = true
		c.out.mute()
	}
}

// authenticate adds the identities that an auth packet grants to the connection.
func (c *conn) authenticate(q *request) {
	if q.malformed {
		return
	}
	ids, ok := c.server.authenticate(q.scheme, q.data, c.ids[0].id)
	if !ok {
		q.err = jute.ErrAuthFailed
		return
	}
	c.grant(ids...)
}

// grant adds identities to the connection. Earlier requests of the batch keep theirs.
func (c *conn) grant(ids ...identity) {
	known := c.ids
	c.ids = slices.Clone(known)
	for _, id := range ids {
		if !slices.Contains(known, id) {
			c.ids = append(c.ids, id)
		}
	}
}

// applyBatch applies prepared requests in order and queues their replies.
func (c *conn) applyBatch(batch []*request) {
	for _, q := range batch {
		if c.detached {
			return
		}
		if q.malformed && (q.op == jute.OpAuth || q.op == jute.OpSasl) {
			c.closeAfterFlush()
			return
		}
		body, noReply := c.apply(q)
		if plan := c.server.opt.plan; !plan.exhausted() {
			e := requestInfoOf(q)
			e.sessionless = c.server.sessions[c.session.id] == nil
			v := plan.after(e)
			c.applyVerdict(v)
			if v.drop {
				c.closeAfterFlush()
				return
			}
			if v.err != 0 {
				q.err, body = v.err, nil
			}
		}
		if !noReply {
			c.queueReply(q, body)
		}
		if q.endsConnection() {
			c.closeAfterFlush()
		}
	}
}

// endsConnection reports whether the server closes the connection after its reply.
func (q *request) endsConnection() bool {
	switch q.op {
	case jute.OpAuth, jute.OpSasl:
		return q.err != 0
	case jute.OpClose:
		return q.txn != nil || q.err == jute.ErrSASL
	}
	return q.err == errUnknownOp || q.err == jute.ErrSASL
}

// apply applies a request and returns the body of its reply. noReply is as in
// serveWrite.
func (c *conn) apply(q *request) (body []byte, noReply bool) {
	c.scratch = c.scratch[:0]
	switch {
	case q.op == jute.OpAuth:
	case q.op == jute.OpSasl:
		body = jute.AppendNullableBuffer(nil, q.answer)
	case q.txn != nil:
		body, noReply = c.serveWrite(q)
	case q.err == 0:
		body = c.serveRead(q)
	}
	if q.err != 0 && q.op != jute.OpMultiRead && q.op != jute.OpSasl {
		body = nil
	}
	return body, noReply
}

// queueReply queues the reply to a request that has been applied.
func (c *conn) queueReply(q *request, body []byte) {
	xid := q.xid
	if q.op == jute.OpPing && q.err != jute.ErrSASL {
		xid = jute.XidPing
	}
	switch {
	case q.op == jute.OpAuth || q.op == jute.OpSasl || q.err == jute.ErrSASL:
		// A real server replies before the request reaches the processors that
		// know the zxid.
		c.countOut(c.out.reply(xid, 0, q.err, body))
	case q.err == errUnknownOp:
		// Not even prepared, so there is no zxid (UnimplementedRequestProcessor).
		c.countOut(c.out.reply(xid, -1, jute.ErrUnimplemented, nil))
	default:
		c.reply(xid, q.err, body)
	}
}

// errUnknownOp marks a request with an unknown operation. The code itself is never sent.
const errUnknownOp int32 = -1 << 30

// applyVerdict carries out the plan's verdict after a request was applied. The
// caller handles drop and err.
func (c *conn) applyVerdict(v verdict) {
	if v.expire && c.session != nil {
		c.server.expire(c.session)
	}
	if v.withhold {
		c.out.mute()
	}
	if v.delay > 0 {
		c.out.delay(v.delay)
	}
}
