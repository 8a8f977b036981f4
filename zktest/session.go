package zktest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// session is a ZooKeeper session, which may have no connection at the moment.
type session struct {
	id      int64
	timeout time.Duration // negotiated by its latest connection
	expires time.Time
	closing bool // closeSession is prepared
	conn    *conn
}

// Session describes a session for Server.Sessions.
type Session struct {
	ID         int64
	Timeout    time.Duration
	Connected  bool
	Ephemerals []string // paths, sorted
	Watches    []string // paths that its connection watches, sorted
}

// Sessions returns the live sessions, oldest first.
func (s *Server) Sessions() []Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Session
	for _, id := range slices.Sorted(maps.Keys(s.sessions)) {
		ss := s.sessions[id]
		one := Session{ID: id, Timeout: ss.timeout, Connected: ss.conn != nil, Ephemerals: s.leader.tree.ephemeralsOf(id)}
		if ss.conn != nil {
			one.Watches = slices.Sorted(maps.Keys(ss.conn.watched))
		}
		all = append(all, one)
	}
	return all
}

func (s *Server) hasSession(id int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[id] != nil
}

// Expire expires a session at once, as if its timeout had passed without a
// heartbeat: its ephemeral znodes are deleted and its connection is closed. It
// reports whether the session existed.
func (s *Server) Expire(id int64) bool { return s.expireID(id, (*conn).drop) }

// ExpireWithEvents is like Expire, but the session's client gets the events of its
// watches on the ephemeral znodes that are deleted, before its connection is closed. Real
// servers send them, and then close the connection: which of the two a client learns of
// first is a matter of time.
func (s *Server) ExpireWithEvents(id int64) bool { return s.expireID(id, (*conn).closeAfterFlush) }

func (s *Server) expireID(id int64, closeConn func(*conn)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ss := s.sessions[id]
	if ss != nil {
		s.expireBy(ss, closeConn)
	}
	return ss != nil
}

// Disconnect closes the connection of a session. The session lives on until it
// expires. Disconnect reports whether the session had a connection.
func (s *Server) Disconnect(id int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ss := s.sessions[id]
	if ss == nil || ss.conn == nil {
		return false
	}
	ss.conn.drop()
	return true
}

// password returns the password that a client must present to reconnect to its
// session.
func (s *Server) password(id int64) []byte {
	mac := hmac.New(sha256.New, s.secret[:])
	mac.Write(binary.BigEndian.AppendUint64(nil, uint64(id)))
	return mac.Sum(nil)[:16]
}

// newSession opens a session, which takes a zxid.
func (s *Server) newSession(timeout time.Duration, now time.Time) *session {
	ss := &session{id: s.nextID, timeout: timeout}
	s.nextID++
	s.sessions[ss.id] = ss
	s.touch(ss, now)
	s.zxid++
	s.commit(&txn{zxid: s.zxid, at: now, changes: []change{{op: jute.OpCreateSession}}})
	return ss
}

// touch postpones a session's expiry to a whole tick after its timeout
// (ExpiryQueue).
func (s *Server) touch(ss *session, now time.Time) {
	tick := s.opt.tick
	ss.expires = s.started.Add((now.Add(ss.timeout).Sub(s.started)/tick + 1) * tick)
	s.wakeBefore(ss.expires)
}

// expire expires a session and closes its connection. The caller holds the
// server's mu.
func (s *Server) expire(ss *session) { s.expireBy(ss, (*conn).drop) }

func (s *Server) expireBy(ss *session, closeConn func(*conn)) {
	if s.sessions[ss.id] != ss {
		return
	}
	p := s.newPreparer()
	s.zxid++
	t := &txn{zxid: s.zxid, at: time.Now(), changes: []change{p.closeSession(ss)}}
	s.commit(t)
	delete(s.sessions, ss.id)
	if ss.conn != nil {
		closeConn(ss.conn)
	}
}
