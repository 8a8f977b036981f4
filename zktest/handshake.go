package zktest

import (
	"bytes"
	"encoding/binary"
	"io"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// handshake reads the ConnectRequest and answers it, or answers a four-letter
// word. It tells whether requests follow
// (ZooKeeperServer.processConnectRequest).
func (c *conn) handshake() bool {
	s := c.server
	var head [4]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return false
	}
	if answer, ok := s.fourLetterWord(string(head[:])); ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		c.out.raw([]byte(answer))
		c.closeAfterFlush()
		return false
	}
	n := int(int32(binary.BigEndian.Uint32(head[:])))
	if n < 0 || n > s.opt.maxFrame || !c.readBody(n) {
		return false
	}
	d := jute.NewDecoder(c.frames)
	d.Int32() // protocol version, always 0
	seen, timeout, id, password := d.Int64(), d.Int32(), d.Int64(), d.Buffer()
	if d.Err != nil {
		return false
	}
	// Clients before 3.4 neither send nor expect the byte that says whether
	// the session may be read-only. go-zookeeper is one of them.
	withReadOnly := d.Len() > 0

	verdict := s.opt.plan.before(requestInfo{op: "connect"})
	if verdict.delay > 0 && !c.sleep(verdict.delay) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.Requests["connect"]++
	s.counts.BytesIn += int64(4 + n)
	if s.closed || c.detached || verdict.drop {
		return false
	}
	if verdict.withhold {
		c.silent = true
		return false
	}
	now := time.Now()
	if old := s.sessions[id]; id != 0 && verdict.expire && old != nil {
		s.expire(old)
	}
	if lag := s.opt.plan.replicaLag(); lag.maxBehind > 0 && s.keepLog {
		s.startLagging(c, lag, now)
	}
	if seen > c.replica.zxid {
		return false // with no answer: the client must try another server
	}
	d2 := min(max(time.Duration(timeout)*time.Millisecond, s.opt.minTimeout), s.opt.maxTimeout)
	ss := s.openSession(c, id, password, d2, now)
	b := jute.AppendInt32(make([]byte, 4, 64), 0)
	if ss == nil {
		// Expired, unknown or not its password: id and password are zero.
		b = jute.AppendInt64(jute.AppendInt32(b, 0), 0)
		b = jute.AppendBuffer(b, make([]byte, 16))
	} else {
		b = jute.AppendInt64(jute.AppendInt32(b, int32(ss.timeout.Milliseconds())), ss.id)
		b = jute.AppendBuffer(b, s.password(ss.id))
	}
	if withReadOnly {
		b = jute.AppendBool(b, false)
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	after := s.opt.plan.after(requestInfo{op: "connect"})
	c.applyVerdict(after)
	if !after.drop {
		c.out.raw(b)
		s.counts.BytesOut += int64(len(b))
	}
	if ss == nil || after.drop {
		c.closeAfterFlush()
		return false
	}
	return !c.detached
}

// join gives the connection its session: a new one for id 0, or one that lives,
// which moves here. The old connection is closed in any case, even if the
// password is wrong.
func (s *Server) openSession(c *conn, id int64, password []byte, timeout time.Duration, now time.Time) *session {
	if id == 0 {
		c.session = s.newSession(timeout, now)
		c.session.conn = c
		s.catchUp(c.replica)
		return c.session
	}
	ss := s.sessions[id]
	if ss == nil {
		return nil
	}
	if ss.conn != nil {
		ss.conn.drop()
	}
	if !bytes.Equal(password, s.password(id)) {
		return nil
	}
	ss.conn, ss.timeout = c, timeout
	c.session = ss
	s.touch(ss, now)
	return ss
}
