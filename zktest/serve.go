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
	if c.server.opt.plan.idle() {
		return c.process(batch, nil)
	}
	for len(batch) > 0 {
		var verdicts []verdict
		n := 0
		for n < len(batch) {
			v := c.server.opt.plan.before(describe(batch[n]))
			if v.delay > 0 {
				if n > 0 && !c.process(batch[:n], verdicts) {
					return false
				}
				batch, verdicts, n = batch[n:], nil, 0
				if !c.pause(v.delay) {
					return false
				}
			}
			verdicts = append(verdicts, v)
			n++
		}
		if !c.process(batch[:n], verdicts) {
			return false
		}
		batch = batch[n:]
	}
	return true
}

// describe says of a request what a plan wants to know.
func describe(q *request) event {
	e := event{op: q.name(), paths: []string{q.path}}
	for i := range q.ops {
		e.paths = append(e.paths, q.ops[i].path)
	}
	return e
}

// process prepares all requests and then applies them in order. verdicts is
// what the plan says of each, or nil.
func (c *conn) process(batch []*request, verdicts []verdict) bool {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.gone {
		return false
	}
	now := time.Now()
	s.touch(c.session, now)
	p := s.preparer()
	for i, q := range batch {
		s.counts.Requests[q.name()]++
		var v verdict
		if verdicts != nil {
			v = verdicts[i]
		}
		if v.expire || v.drop || v.withhold {
			c.answer(batch[:i]) // what follows never gets here
			switch {
			case v.expire:
				s.expire(c.session)
			case v.drop:
				c.finish()
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
		case q.write():
			p.prepare(c.session, q, now)
		case c.session.closing:
			q.err = jute.ErrSessionExpired
		}
	}
	c.answer(batch)
	return !c.gone
}

// authenticate adds what the connection has presented to what it is.
func (c *conn) authenticate(q *request) {
	if q.bad {
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
func (c *conn) answer(batch []*request) {
	s := c.server
	for _, q := range batch {
		if c.gone {
			return
		}
		c.scratch = c.scratch[:0]
		xid := q.xid
		var body []byte
		silent := false
		switch {
		case q.op == jute.OpAuth || q.op == jute.OpSasl:
			if q.bad {
				c.finish()
				return
			}
			if q.op == jute.OpSasl { // which is not set up: an empty token
				body = jute.AppendInt32(nil, -1)
			}
		case q.txn != nil:
			body, silent = c.write(q)
		case q.err == 0:
			body = c.query(q)
		}
		if q.op == jute.OpPing {
			xid = jute.XidPing
		}
		if q.err != 0 && q.op != jute.OpMultiRead {
			body = nil
		}
		if !s.opt.plan.idle() {
			v := s.opt.plan.after(describe(q))
			c.punish(v)
			if v.drop {
				c.finish()
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
		case q.err == errUnknown:
			// Not even prepared, so it knows no zxid (UnimplementedRequestProcessor).
			s.counts.BytesOut += int64(c.out.reply(xid, -1, jute.ErrUnimplemented, nil))
		default:
			c.reply(xid, q.err, body)
		}
		if q.op == jute.OpClose && q.txn != nil || q.err == errUnknown || q.op == jute.OpAuth && q.err != 0 {
			c.finish()
		}
	}
}

// errUnknown marks a request whose operation there is not.
const errUnknown int32 = -1 << 30

// punish does to the connection what the plan says is to happen after a request
// was applied, save for dropping it.
func (c *conn) punish(v verdict) {
	if v.expire && c.session != nil {
		c.server.expire(c.session)
	}
	if v.withhold {
		c.out.mute()
	}
	if v.delay > 0 {
		c.out.hold(v.delay)
	}
}
