package zktest

import (
	"slices"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// serve answers a batch of requests, and tells whether the connection goes on.
//
// Here is where faults come in: every request passes the plan before it is
// applied, and once more before its reply is queued. A request that is to be
// delayed splits the batch, those before it are answered first.
func (c *conn) serve(batch []*request) bool {
	if c.server.opt.plan.exhausted() {
		return c.processBatch(batch, nil)
	}
	for len(batch) > 0 {
		var verdicts []verdict
		n := 0
		for n < len(batch) {
			v := c.server.opt.plan.before(requestInfoOf(batch[n]))
			if v.delay > 0 {
				if n > 0 && !c.processBatch(batch[:n], verdicts) {
					return false
				}
				batch, verdicts, n = batch[n:], nil, 0
				if !c.sleep(v.delay) {
					return false
				}
			}
			verdicts = append(verdicts, v)
			n++
		}
		if !c.processBatch(batch[:n], verdicts) {
			return false
		}
		batch = batch[n:]
	}
	return true
}

// describe says of a request what a plan wants to know.
func requestInfoOf(q *request) requestInfo {
	e := requestInfo{op: q.name(), paths: []string{q.path}}
	for i := range q.ops {
		e.paths = append(e.paths, q.ops[i].path)
	}
	return e
}

// process prepares all requests and then applies them in order. verdicts is
// what the plan says of each, or nil.
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
			c.applyBatch(batch[:i]) // what follows never gets here
			switch {
			case v.expire:
				s.expire(c.session)
			case v.drop:
				c.closeAfterFlush()
			default:
				c.silent = true
				c.out.mute()
			}
			return false
		}
		if v.err != 0 {
			q.txn, q.err = nil, v.err
			continue
		}
		q.ids = c.ids
		switch {
		case q.op == jute.OpAuth:
			c.authenticate(q)
		case q.takesZxid():
			p.prepare(c.session, q, now)
		case c.session.closing:
			q.err = jute.ErrSessionExpired
		}
	}
	c.applyBatch(batch)
	return !c.detached
}

// authenticate adds what the connection has presented to what it is.
func (c *conn) authenticate(q *request) {
	if q.malformed {
		return
	}
	ids, ok := c.server.authenticate(q.scheme, q.data, c.ids[0].id)
	if !ok {
		q.err = jute.ErrAuthFailed
		return
	}
	known := c.ids
	c.ids = slices.Clone(known) // requests before this one keep theirs
	for _, id := range ids {
		if !slices.Contains(known, id) {
			c.ids = append(c.ids, id)
		}
	}
}

// answer applies prepared requests one after the other and queues the replies.
func (c *conn) applyBatch(batch []*request) {
	s := c.server
	for _, q := range batch {
		if c.detached {
			return
		}
		c.scratch = c.scratch[:0]
		xid := q.xid
		var body []byte
		silent := false
		switch {
		case q.op == jute.OpAuth || q.op == jute.OpSasl:
			if q.malformed {
				c.closeAfterFlush()
				return
			}
			if q.op == jute.OpSasl { // which is not set up: an empty token
				body = jute.AppendInt32(nil, -1)
			}
		case q.txn != nil:
			body, silent = c.serveWrite(q)
		case q.err == 0:
			body = c.serveRead(q)
		}
		if q.op == jute.OpPing {
			xid = jute.XidPing
		}
		if q.err != 0 && q.op != jute.OpMultiRead {
			body = nil
		}
		if !s.opt.plan.exhausted() {
			v := s.opt.plan.after(requestInfoOf(q))
			c.applyVerdict(v)
			if v.drop {
				c.closeAfterFlush()
				return
			}
			if v.err != 0 {
				q.err, body = v.err, nil
			}
		}
		switch {
		case silent:
		case q.op == jute.OpAuth || q.op == jute.OpSasl:
			// Answered before it gets to where zxids are known.
			s.counts.BytesOut += int64(c.out.reply(xid, 0, q.err, body))
		case q.err == errUnknownOp:
			// Not even prepared, so it knows no zxid (UnimplementedRequestProcessor).
			s.counts.BytesOut += int64(c.out.reply(xid, -1, jute.ErrUnimplemented, nil))
		default:
			c.reply(xid, q.err, body)
		}
		if q.op == jute.OpClose && q.txn != nil || q.err == errUnknownOp || q.op == jute.OpAuth && q.err != 0 {
			c.closeAfterFlush()
		}
	}
}

// errUnknown marks a request whose operation there is not.
const errUnknownOp int32 = -1 << 30

// punish does to the connection what the plan says is to happen after a request
// was applied, save for dropping it.
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
