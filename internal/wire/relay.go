package wire

import (
	"fmt"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// What go-zookeeper sends and is shown: requests that set watches, pings, and the close.

// Write sends a frame of go-zookeeper's, or holds it at the gate (W1). It never fails: if
// go-zookeeper's sending side learned first that a connection is lost, its two sides could wait for
// each other, and callers would get raw socket errors (W8).
func (c *Conn) Write(b []byte) (int, error) {
	if c.connectSent.IsZero() {
		if len(b) < 4 {
			c.closeWith(jute.ErrShort)
			return len(b), nil
		}
		if err := c.rewriteConnectRequest(b[4:]); err != nil {
			c.closeWith(err)
			return len(b), nil
		}
		c.connectSent = time.Now()
		if _, err := c.Conn.Write(b); err != nil {
			c.closeWith(err)
		}
		return len(b), nil
	}
	if len(b) < 12 {
		c.closeWith(jute.ErrShort)
		return len(b), nil
	}
	o := c.parse(append([]byte(nil), b...)) // go-zookeeper reuses b
	c.mu.Lock()
	if c.gateClosed && o.op != jute.OpSetWatches && o.op != jute.OpPing && o.op != jute.OpClose {
		c.held = append(c.held, o)
		c.mu.Unlock()
		return len(b), nil
	}
	write := c.enqueue(o)
	c.mu.Unlock()
	if write {
		c.flush(true)
	}
	return len(b), nil
}

// parse returns what to remember of a frame that go-zookeeper or the Conn itself sends. It writes the
// zxid of the last reply into a setWatches, because go-zookeeper is shown none (see prepareReply).
func (c *Conn) parse(frame []byte) outgoing {
	d := jute.NewDecoder(frame[4:])
	o := outgoing{frame: frame, xid: d.Int32()}
	switch o.op = d.Int32(); o.op {
	case jute.OpGetData, jute.OpExists, jute.OpGetChildren, jute.OpGetChildren2:
		o.path, o.watch = d.String(), d.Bool()
	case jute.OpSetWatches:
		jute.AppendInt64(frame[12:12], c.session.armedFrom()) // in place
		d.Int64()
		o.paths = map[watch]struct{}{}
		for _, kind := range []watchKind{watchData, watchExist, watchChild} {
			for _, path := range d.Strings() {
				o.paths[watch{path, kind}] = struct{}{}
			}
		}
	}
	return o
}

// prepareReply edits a reply for go-zookeeper and sets its effects.
func (c *Conn) prepareReply(frame []byte, r request, zxid int64, code int32) {
	// W6: Hide the zxid; the Conn fills in its own where one is sent. go-zookeeper
	// keeps the zxid of the last reply, without a lock, even if the reply
	// answers a setWatches. If the connection is lost between two setWatches,
	// go-zookeeper would arm the remaining watches relative to a zxid at which
	// they were not armed.
	clear(frame[8:16])
	switch code {
	case jute.ErrConnectionLoss, jute.ErrOperationTimeout, jute.ErrThrottled:
		// go-zookeeper has no names for these and would report "unknown error".
		// All three mean that the outcome is unknown: ask again later.
		jute.AppendInt32(frame[16:16], jute.ErrNothing)
	}
	if r.op == jute.OpSetWatches {
		c.onDelivered = func() {
			if code != 0 {
				c.closeWith(fmt.Errorf("arming watches again: %s", jute.ErrorName(code)))
				return
			}
			c.armedAgain(r.paths)
		}
		return
	}
	c.onDelivered = func() {
		c.session.sawReply(zxid)
		if r.op == jute.OpClose && code == 0 {
			c.session.markOver()
		}
		if !r.watch {
			return
		}
		switch {
		case code == 0 && (r.op == jute.OpGetChildren || r.op == jute.OpGetChildren2):
			c.session.arm(r.path, watchChild)
			c.session.cfg.Armed(r.path, true, c.number)
		case code == 0:
			c.session.arm(r.path, watchData)
			c.session.cfg.Armed(r.path, false, c.number)
		case code == jute.ErrNoNode && r.op == jute.OpExists:
			c.session.arm(r.path, watchExist)
		}
	}
}

// pingAnswered matches an answer with its ping. All pings have the same xid, and
// they are answered in order. Pings are checked like other requests (PrepRequestProcessor).
func (c *Conn) pingAnswered(code int32) error {
	c.mu.Lock()
	var sent time.Time
	if len(c.pings) > 0 {
		sent, c.pings = c.pings[0], c.pings[1:]
	}
	c.mu.Unlock()
	switch {
	case code == jute.ErrSASL: // nobody else would report it
		return errRequiresSASL
	case provesAlive(code):
		c.proveAlive(sent, false)
	}
	return nil
}

// go-zookeeper decodes replies with reflection and trusts their lengths: it
// allocates a vector of as many elements as its count says, panics where a
// boolean is missing, and reads the fields of a short record from what an earlier
// frame has left in its buffer. So it is shown no record that was not checked.

// checkRecord returns an error unless record begins with what a successful reply
// to op consists of. Bytes that follow are ignored, as by other clients.
func checkRecord(op int32, record []byte) error {
	d := jute.NewDecoder(record)
	switch op {
	case jute.OpGetData:
		d.Buffer()
		d.Stat()
	case jute.OpExists, jute.OpSetData:
		d.Stat()
	case jute.OpGetChildren, jute.OpGetChildren2:
		for n := d.Count(); n > 0 && d.Err == nil; n-- {
			d.Bytes()
		}
		if op == jute.OpGetChildren2 {
			d.Stat()
		}
	case jute.OpCreate, jute.OpCreateContainer:
		d.Bytes()
	case jute.OpDelete, jute.OpSetWatches, jute.OpClose:
	default:
		return fmt.Errorf("reply to %s, which this client does not send", jute.OpName(op))
	}
	if d.Err != nil {
		return fmt.Errorf("malformed reply to %s: %w", jute.OpName(op), d.Err)
	}
	return nil
}

type watchKind uint8

const (
	watchData watchKind = iota
	watchExist
	watchChild
)

type watch struct {
	path string
	kind watchKind
}

// arm adds a watch that an answered request has set.
func (s *Session) arm(path string, kind watchKind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches[watch{path, kind}] = struct{}{}
}

// disarm removes the watches that go-zookeeper removes on such an event.
func (s *Session) disarm(event int32, path string) {
	var kinds []watchKind
	switch event {
	case jute.EventCreated:
		kinds = []watchKind{watchExist}
	case jute.EventDataChanged:
		kinds = []watchKind{watchExist, watchData}
	case jute.EventChildrenChanged:
		kinds = []watchKind{watchChild}
	case jute.EventDeleted:
		kinds = []watchKind{watchExist, watchData, watchChild}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, kind := range kinds {
		delete(s.watches, watch{path, kind})
	}
}
