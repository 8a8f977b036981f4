package zktest

import (
	"bytes"
	"encoding/binary"
	"io"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// connectRequest is the first message of a client (proto.ConnectRequest).
type connectRequest struct {
	size     int           // of its frame, without the length
	seen     int64         // the highest zxid that the client has seen
	timeout  time.Duration // requested
	id       int64         // of the session, 0 for a new one
	password []byte        // valid until the next frame is read

	// readOnly is set if the request has the byte that says whether the session
	// may be read-only. Clients before 3.4 neither send that byte nor expect it
	// in the reply. go-zookeeper is one of them.
	readOnly bool
}

// handshakeTimeout is how long a connection may take to send its ConnectRequest.
// A real server closes such a connection between one and two times
// zookeeper.nio.sessionlessCnxnTimeout after it was opened, which is 10 s.
const handshakeTimeout = 10 * time.Second

// handshake reads the ConnectRequest and replies to it, or to a four-letter
// word. It reports whether requests follow
// (ZooKeeperServer.processConnectRequest).
func (c *conn) handshake() bool {
	s := c.server
	var head [4]byte
	c.nc.SetReadDeadline(time.Now().Add(handshakeTimeout))
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return false
	}
	if reply, ok := s.fourLetterWord(c, string(head[:])); ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		c.out.raw([]byte(reply))
		c.closeAfterFlush()
		return false
	}
	q, ok := c.readConnectRequest(int(int32(binary.BigEndian.Uint32(head[:]))))
	if !ok {
		return false
	}
	c.nc.SetReadDeadline(time.Time{})
	v := s.opt.plan.before(requestInfo{op: "connect", sessionless: !s.hasSession(q.id)}, 0)
	if v.delay > 0 && !c.sleep(v.delay) {
		return false
	}
	return c.connect(q, v)
}

// connect replies to a ConnectRequest. It reports whether requests follow.
func (c *conn) connect(q connectRequest, v verdict) bool {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.Requests["connect"]++
	c.countIn(1, 4+q.size)
	if s.closed || c.detached || v.drop {
		return false
	}
	if v.withhold {
		c.silent = true
		return false
	}
	now := time.Now()
	if old := s.sessions[q.id]; q.id != 0 && v.expire && old != nil {
		s.expire(old)
	}
	if lag := s.opt.plan.replicaLag(); lag.maxBehind > 0 && s.keepLog {
		s.startLagging(c, lag, now)
	}
	if q.seen > c.replica.zxid {
		return false // without a reply: the client must try another server
	}
	ss := s.openSession(c, q, now)
	reply := s.connectResponse(ss, q.readOnly)
	after := s.opt.plan.after(requestInfo{op: "connect", sessionless: ss == nil})
	c.applyVerdict(after)
	if !after.drop {
		c.out.raw(reply)
		c.countOut(len(reply))
	}
	if ss == nil || after.drop {
		c.closeAfterFlush()
		return false
	}
	return !c.detached
}

// readConnectRequest reads the rest of a ConnectRequest of n bytes. It returns
// false if the request is malformed.
func (c *conn) readConnectRequest(n int) (connectRequest, bool) {
	if n < 0 || n > c.server.opt.maxFrame || !c.readBody(n) {
		return connectRequest{}, false
	}
	d := jute.NewDecoder(c.frames)
	d.Int32() // protocol version, always 0
	q := connectRequest{size: n, seen: d.Int64()}
	q.timeout = time.Duration(d.Int32()) * time.Millisecond
	q.id, q.password = d.Int64(), d.Buffer()
	q.readOnly = d.Len() > 0
	return q, d.Err == nil
}

// connectResponse returns the frame of the reply to a ConnectRequest. ss is nil
// if the session has expired or is unknown, or if the password is wrong. The
// reply has a zero timeout, ID and password then.
func (s *Server) connectResponse(ss *session, readOnly bool) []byte {
	b := jute.AppendInt32(make([]byte, 4, 64), 0)
	if ss == nil {
		b = jute.AppendInt64(jute.AppendInt32(b, 0), 0)
		b = jute.AppendBuffer(b, make([]byte, 16))
	} else {
		b = jute.AppendInt64(jute.AppendInt32(b, int32(ss.timeout.Milliseconds())), ss.id)
		b = jute.AppendBuffer(b, s.password(ss.id))
	}
	if readOnly {
		b = jute.AppendBool(b, false)
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// openSession gives the connection its session: a new one if the request has ID
// 0, or the live session with that ID, which moves to this connection. The
// session's old connection is closed even if the password is wrong. openSession
// returns nil if there is no such session, or if the password is wrong.
func (s *Server) openSession(c *conn, q connectRequest, now time.Time) *session {
	timeout := min(max(q.timeout, s.opt.minTimeout), s.opt.maxTimeout)
	if q.id == 0 {
		c.session = s.newSession(timeout, now)
		c.session.conn = c
		s.catchUp(c.replica)
		return c.session
	}
	ss := s.sessions[q.id]
	if ss == nil {
		return nil
	}
	if ss.conn != nil {
		ss.conn.drop()
	}
	if !bytes.Equal(q.password, s.password(q.id)) {
		return nil
	}
	// A close that the old connection prepared and did not apply is lost with it.
	ss.conn, ss.timeout, ss.closing = c, timeout, false
	c.session = ss
	s.touch(ss, now)
	return ss
}
