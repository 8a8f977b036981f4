package wire

import (
	"fmt"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// maxReply bounds a frame from the server. Listings can be long, so it only
// tells a length from garbage. A frame takes no memory before its bytes come.
const maxReply = 1 << 30

// maxReusedBuffer bounds the buffer that a Conn keeps for the next frame.
const maxReusedBuffer = 64 << 10

// watchdogReader reads the raw connection under a deadline: a server that sends
// nothing for half the session timeout is taken to be gone. go-zookeeper would
// wait for two thirds.
type watchdogReader struct{ c *Conn }

func (r watchdogReader) Read(p []byte) (int, error) {
	if r.c.established {
		if by, stale := r.c.session.ioDeadline(r.c.readDeadline, time.Now()); stale {
			r.c.readDeadline = by
			r.c.Conn.SetReadDeadline(by)
		}
	}
	return r.c.Conn.Read(p)
}

// ioDeadline returns the deadline for a read or a write that begins now: half
// the session timeout away. stale reports whether the deadline that is set is
// noticeably earlier. Otherwise leave it, because setting a deadline wakes the
// runtime's poller, which is too expensive for every frame.
func (s *Session) ioDeadline(set, now time.Time) (by time.Time, stale bool) {
	timeout := s.Timeout()
	by = now.Add(timeout / 2)
	return by, by.Sub(set) > timeout/32
}

// Read delivers one frame after the other to go-zookeeper: the ConnectResponse, and the answers to its
// pings and its close. What has to come after these takes place when go-zookeeper has asked for the last
// byte (W2). All other frames are dealt with here, in between.
func (c *Conn) Read(p []byte) (int, error) {
	for c.off == len(c.frame) {
		if err := c.nextFrame(); err != nil {
			c.closeWith(err)
			return 0, c.closedBy()
		}
	}
	n := copy(p, c.frame[c.off:])
	c.off += n
	if done := c.onDelivered; c.off == len(c.frame) && done != nil {
		c.onDelivered = nil
		done()
	}
	return n, nil
}

// nextFrame reads a frame. It sets c.frame if the frame is for go-zookeeper,
// and leaves it empty otherwise.
func (c *Conn) nextFrame() error {
	c.frame, c.off, c.onDelivered = nil, 0, nil
	if !c.established {
		return c.finishHandshake()
	}
	frame, err := jute.ReadFrameInto(c.r, c.buf, maxReply)
	if err != nil {
		return err
	}
	if cap(frame) <= maxReusedBuffer {
		c.buf = frame
	}
	return c.dispatch(frame)
}

// dispatch deals with a frame, or passes it to go-zookeeper.
func (c *Conn) dispatch(frame []byte) error {
	d := jute.NewDecoder(frame[4:])
	xid, zxid, code := d.Int32(), d.Int64(), d.Int32()
	if d.Err != nil {
		return fmt.Errorf("malformed reply: %w", d.Err)
	}
	switch xid {
	case jute.XidEvent:
		event := Event{Type: d.Int32(), Conn: c.number, Zxid: zxid, Rearmed: c.isGateClosed()}
		d.Int32() // state
		event.Path = d.Text()
		if d.Err != nil {
			return fmt.Errorf("malformed event: %w", d.Err)
		}
		c.session.sawEvent(zxid)
		c.session.cfg.Event(event)
		return nil
	case jute.XidPing:
		c.sawEpoch(zxid)
		if err := c.pingAnswered(code); err != nil {
			return err
		}
	default:
		r, ok := c.removePending(xid, code, frame[20:])
		c.sawEpoch(zxid) // it may send, and close the connection: the reply is no longer pending then
		if xid <= xidEphemerals {
			if !ok { // closeWith has failed it, or nobody made it
				return nil
			}
			if r.op != jute.OpSetWatches && xid != xidEphemerals { // W6
				c.session.sawReply(zxid)
			}
			r.call.complete(zxid, code, frame[20:])
			return nil
		}
		if !ok {
			return fmt.Errorf("reply to request %d, which was not sent", xid)
		}
		c.onDelivered = func() { // to go-zookeeper's close
			if code == 0 {
				c.session.markOver()
			}
		}
	}
	c.frame = frame
	return nil
}

// removePending removes and returns the request that a reply belongs to. The reply may prove that
// the session was alive when the request was sent. The header of the reply to a failed transaction
// has no error: the error is in the record.
func (c *Conn) removePending(xid, code int32, record []byte) (r request, ok bool) {
	c.mu.Lock()
	r, ok = c.pending[xid]
	delete(c.pending, xid)
	c.pendingBytes -= r.size
	c.mu.Unlock()
	if ok {
		c.session.noteAnswered(r.size)
	}
	if ok && code == 0 && r.op == jute.OpMulti {
		code = firstError(record)
	}
	if ok && provesAlive(code) {
		c.proveAlive(r.sent, true)
	}
	return r, ok
}

// provesAlive reports whether an answer with that error proves that the session was alive: not if it
// says that the session is gone, or that the server requires SASL and has not looked at the session.
func provesAlive(code int32) bool {
	return code != jute.ErrSessionExpired && code != jute.ErrSessionMoved && code != jute.ErrSASL
}

// proveAlive notes that something was answered which was sent at this time. It counts
// when requests pass.
func (c *Conn) proveAlive(sent time.Time, request bool) {
	c.mu.Lock()
	closed := c.gateClosed
	if closed && sent.After(c.alive) { // W4
		c.alive = sent
	}
	c.served = c.served || request && !closed
	c.mu.Unlock()
	if !closed {
		c.session.markAlive(sent)
	}
}

// firstError returns the first error among the results of a transaction, or 0.
func firstError(record []byte) int32 {
	for d := jute.NewDecoder(record); ; {
		op, done := d.Int32(), d.Bool()
		d.Int32()
		if op != -1 || done || d.Err != nil {
			return 0
		}
		if code := d.Int32(); code != 0 {
			return code
		}
	}
}

// Timeout returns the negotiated session timeout, or the requested one before
// the first handshake. Each server may negotiate a different one.
func (s *Session) Timeout() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.timeout
}

// ValidUntil returns the time until which the servers keep the session if they
// receive nothing more. The session was alive when a server answered, and its
// timeout counts from some moment after the request was sent. One per cent of
// the timeout is subtracted for clock drift. The value carries a monotonic clock
// reading. It is zero before the first handshake.
//
// What is answered before a connection lets requests through counts once it does:
// until then the session lives, but nobody can use or release what it holds.
//
// It is wrong if a follower answers a request and then dies, or is cut off,
// before it has reported the request to the leader (a process that was paused asks the
// leader, see maxSilence); and if a server grants a shorter
// timeout in a ConnectResponse that is lost.
func (s *Session) ValidUntil() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.validUntil
}

// validFrom returns ValidUntil for a request that was sent at this time and
// answered.
func validFrom(sent time.Time, timeout time.Duration) time.Time {
	return sent.Add(timeout - timeout/100)
}

// markAlive notes that a request was answered which was sent at this time.
func (s *Session) markAlive(sent time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if until := validFrom(sent, s.timeout); until.After(s.validUntil) {
		s.validUntil = until
	}
}

// sawReply notes the zxid of a reply.
func (s *Session) sawReply(zxid int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replyZxid = max(s.replyZxid, zxid)
	s.seenZxid = max(s.seenZxid, zxid)
}

// sawEpoch notes the epoch of a reply, and asks for the session's ephemeral znodes if it is a
// new one.
func (c *Conn) sawEpoch(zxid int64) {
	if c.session.mayHaveLost(zxid) {
		c.askEphemerals()
	}
}

// mayHaveLost notes the epoch of a reply. It reports whether the servers may have lost
// transactions since the znodes were asked for.
func (s *Session) mayHaveLost(zxid int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &s.history
	if epoch := zxid >> 32; epoch > h.epoch {
		if h.epoch >= 0 {
			h.times++
		}
		h.epoch = epoch
	}
	return h.times > h.compared
}

// noteAnswered notes that a request of that size was answered.
func (s *Session) noteAnswered(size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.largest = max(s.largest, size)
}
