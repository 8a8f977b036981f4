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

// session is one ZooKeeper session, with a connection or waiting for one.
type session struct {
	id      int64
	timeout time.Duration // of the connection that it had last
	expires time.Time
	closing bool // its end is prepared
	conn    *conn
}

// Session is what Server.Sessions shows of a session.
type Session struct {
	ID         int64
	Timeout    time.Duration
	Connected  bool
	Ephemerals []string // paths, sorted
}

// Sessions returns the live sessions, the oldest first.
func (s *Server) Sessions() []Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Session
	for _, id := range slices.Sorted(maps.Keys(s.sessions)) {
		ss := s.sessions[id]
		all = append(all, Session{
			ID: id, Timeout: ss.timeout, Connected: ss.conn != nil,
			Ephemerals: s.leader.tree.ephemeralsOf(id),
		})
	}
	return all
}

// Expire ends a session as if it had not been heard of for its timeout: its
// ephemerals are deleted and its connection is closed. It tells whether there
// was such a session.
func (s *Server) Expire(id int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ss := s.sessions[id]
	if ss != nil {
		s.expire(ss)
	}
	return ss != nil
}

// Disconnect closes the connection of a session, which lives on until it
// expires. It tells whether there was a connection.
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

// password is what a client must show to get back to its session.
func (s *Server) password(id int64) []byte {
	mac := hmac.New(sha256.New, s.secret[:])
	mac.Write(binary.BigEndian.AppendUint64(nil, uint64(id)))
	return mac.Sum(nil)[:16]
}

// begin makes a new session, which takes a zxid.
func (s *Server) newSession(timeout time.Duration, now time.Time) *session {
	ss := &session{id: s.nextID, timeout: timeout}
	s.nextID++
	s.sessions[ss.id] = ss
	s.touch(ss, now)
	s.zxid++
	s.commit(&txn{zxid: s.zxid, at: now, changes: []change{{op: jute.OpCreateSession}}})
	return ss
}

// touch puts off a session's expiry, to a multiple of the tick time
// (ExpiryQueue).
func (s *Server) touch(ss *session, now time.Time) {
	tick := s.opt.tick
	ss.expires = s.started.Add((now.Add(ss.timeout).Sub(s.started)/tick + 1) * tick)
	s.wakeBefore(ss.expires)
}

// expire ends a session that did not end itself.
func (s *Server) expire(ss *session) {
	if s.sessions[ss.id] != ss {
		return
	}
	p := s.newPreparer()
	s.zxid++
	t := &txn{zxid: s.zxid, at: time.Now(), changes: []change{p.closeSession(ss)}}
	s.commit(t)
	s.removeSession(ss)
	if ss.conn != nil {
		ss.conn.drop()
	}
}

// endSession forgets a session whose ephemerals are gone.
func (s *Server) removeSession(ss *session) { delete(s.sessions, ss.id) }
