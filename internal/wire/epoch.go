package wire

import (
	"fmt"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// An ensemble that has lost transactions, because servers have lost their disks or a backup was
// restored, resumes sessions without some of their znodes, and with some that had been
// deleted. So a resumed connection first asks for the session's ephemeral znodes.
//
// A server that is behind what a client has seen refuses the client, so mostly one can tell
// whether transactions may be lost: the upper half of a zxid is the epoch of the leader, which
// is a new one then, as after every other change of the leader. Or the servers have refused the
// session: if they have also lost that there was an epoch, its number is given again.

// history counts the times at which the servers may have lost transactions.
type history struct {
	epoch    int64 // the newest of a reply; -1: there was none
	times    int64
	compared int64 // the times when the znodes were last asked for
}

// noteRefused notes that a server has closed a connection without an answer to the handshake.
func (s *Session) noteRefused() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history.times++
}

// NoteLoss notes that the znodes have shown that the servers have lost transactions.
func (s *Session) NoteLoss() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history.times++
	s.history.compared = s.history.times
}

// History returns a number that grows whenever the servers may have lost transactions, also from
// one session to the next, if it has had a reply. It is noted before a reply is passed on.
//
// The times come first: servers that were restored from a backup may be in an earlier epoch. They have
// refused the session by then.
func (s *Session) History() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.history.times<<31 | max(s.history.epoch, 0)
}

// Losses returns how often the servers may have lost transactions without a new epoch, for the
// Config of the next session.
func (s *Session) Losses() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.history.times
}

// askEphemerals asks for the session's ephemeral znodes, unless that is under way. If the reply
// is lost, the next connection asks again.
func (c *Conn) askEphemerals() {
	c.mu.Lock()
	underWay := c.asking
	c.asking, c.asked = true, true
	c.mu.Unlock()
	if underWay {
		return
	}
	o := c.newCall(jute.OpGetEphemerals, jute.AppendString(make([]byte, Headroom), "/"), c.ephemeralsAnswered)
	o.xid = xidEphemerals
	c.sendCalls(o)
}

// ephemeralsAnswered passes the znodes on. A server that does not want to answer is asked no
// more on this connection if nothing says that transactions may be lost.
func (c *Conn) ephemeralsAnswered(call *Call) {
	code, record, err := call.Result()
	if err != nil { // the connection is lost
		return
	}
	mayHaveLost := c.session.mayHaveLost(call.zxid)
	switch {
	case code == jute.ErrSASL: // nobody else would report it
		c.closeWith(errRequiresSASL)
		return
	case code != 0 && mayHaveLost:
		c.closeWith(fmt.Errorf("asking for the session's ephemeral znodes: %s", jute.ErrorName(code)))
		return
	case code == 0:
		d := jute.NewDecoder(record)
		paths := d.Strings()
		if d.Err != nil {
			c.closeWith(fmt.Errorf("malformed list of ephemeral znodes: %w", d.Err))
			return
		}
		c.session.compared()
		c.session.cfg.Ephemerals(paths, mayHaveLost)
		c.sawComparison(call.zxid)
	}
	c.mu.Lock()
	c.asking = false
	c.mu.Unlock()
	c.passGate()
}

// sawComparison notes the zxid of a comparison. Watches that are yet to be armed are armed from before
// it: no event has reported what has changed since.
func (c *Conn) sawComparison(zxid int64) {
	c.mu.Lock()
	saw := c.session.sawEvent
	if c.unarmed == 0 {
		saw = c.session.sawReply
	}
	c.mu.Unlock()
	saw(zxid)
}

// compared notes that the znodes were asked for.
func (s *Session) compared() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history.compared = s.history.times
}

// isGateClosed reports whether requests are held back.
func (c *Conn) isGateClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gateClosed
}
