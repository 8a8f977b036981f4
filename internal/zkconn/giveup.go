package zkconn

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Servers that answer but do not serve. A session that no server serves would live for ever,
// and keep what it owns.

// contact is how a server has failed.
type contact struct {
	closed   spell
	answered spell // closed, after it had answered the handshake
}

// spell is a time during which something has happened again and again.
type spell struct {
	first, last time.Time
	goesOn      bool // it has happened at the last attempt
	again       bool // and before, in the same spell
}

// extend notes that it has happened from first to now. If it has not at the attempt before, and the gap
// is longer than that, a new spell begins: the server was down for a while.
func (p *spell) extend(first, now time.Time, gap time.Duration) {
	p.again = p.goesOn || now.Sub(p.last) <= gap
	if !p.again {
		p.first = first
	}
	p.last, p.goesOn = now, true
}

// lasts reports whether the spell goes on, and has lasted for longer than twice the gap. One that has
// happened only once is none, however long ago: attempts at other servers may take any time.
func (p spell) lasts(gap time.Duration) bool {
	return p.again && time.Since(p.first) > 2*gap && (p.goesOn || time.Since(p.last) <= gap)
}

// noteContact notes how a connection has ended. s.mu must be held.
func (s *Session) noteContact(lost wire.Lost) {
	lasted := s.up && time.Since(s.upSince) >= s.longPause()
	if lasted {
		s.failures = 0
	}
	switch {
	case lasted || lost.Served:
		clear(s.unserved)
	case lost.Answered:
		s.noteClosed(s.server, s.ncSince, true)
	default:
		s.noteUnanswered(s.server, s.ncSince, lost.Cause)
	}
}

// noteUnanswered notes the error of a handshake that began at that time. s.mu must be held.
func (s *Session) noteUnanswered(server Server, began time.Time, err error) {
	if wire.IsRejected(err) {
		s.noteClosed(server, began, false)
	} else { // the server has sent nothing
		s.breakSpells(server)
	}
}

// noteClosed notes that a server has closed a connection, made at that time, that was of no use, and
// whether it had answered the handshake. s.mu must be held.
func (s *Session) noteClosed(server Server, since time.Time, answered bool) {
	c := s.unserved[server]
	if c == nil {
		c = &contact{}
		s.unserved[server] = c
	}
	now, gap := time.Now(), s.Timeout()
	c.closed.extend(since, now, gap)
	if answered {
		c.answered.extend(since, now, gap)
	} else {
		c.answered.goesOn = false
	}
}

// noteNoContact notes that a server cannot be reached.
func (s *Session) noteNoContact(server Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.breakSpells(server)
}

// breakSpells gives a server another chance. s.mu must be held.
func (s *Session) breakSpells(server Server) {
	if c := s.unserved[server]; c != nil {
		c.closed.goesOn, c.answered.goesOn = false, false
	}
}

// isHopeless reports whether this server has closed every connection for twice the
// session's timeout before it has served a request, and no other has served one.
// answers reports whether it has answered handshakes all that time, which keeps the
// session alive on the servers. A server that is down does not count: when it comes
// back, it knows the session.
//
// The session must not be closed before ValidUntil (Z9).
func (s *Session) isHopeless(server Server) (hopeless, answers bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.unserved[server]
	if c == nil || !c.closed.goesOn || !s.IsEstablished() || time.Now().Before(s.ValidUntil()) {
		return false, false
	}
	return c.closed.lasts(s.Timeout()), c.answered.lasts(s.Timeout())
}

// resolve ends the session if no connection to this server can use it. It returns
// nil if one can.
func (s *Session) resolve(server Server, answers bool) error {
	known, closed, err := s.findSession(server, answers)
	switch {
	case err != nil:
		return err
	case known && !closed:
		return nil
	}
	cause := zk.ErrSessionExpired
	if closed {
		cause = fmt.Errorf("%w: given up, since no server has served it for twice its timeout: %v", cause, s.LastError())
	}
	s.finish(cause)
	return errStopped
}

// findSession asks a server, by handshakes of its own, whether the session still exists, and closes it
// there if it is of no use. Then the servers delete what it owns.
//
// A server that answers handshakes and then refuses a credential, or cannot arm the watches again, would
// keep the session for ever, and with it the places that nobody can release. Servers that know the
// session but are behind the zxid that the client has seen have lost data.
func (s *Session) findSession(server Server, answers bool) (known, closed bool, err error) {
	end := func(ifBehind bool) (known, closed bool, err error) {
		return s.ask(server, false, func(nc net.Conn) (bool, error) { return s.wire.CloseSession(nc, ifBehind) })
	}
	if answers {
		return end(false)
	}
	if known, _, err = s.ask(server, false, nil); err != nil {
		return known, false, err
	}
	still, _, refused := s.ask(server, true, nil) // the server serves; now with the zxid that was seen
	behind := wire.IsRejected(refused)
	switch {
	case behind && known: // or an election has begun, or it was another server behind the same address
		known, closed, err = end(true)
		behind = closed
	case known:
		known, err = still, refused
	}
	if behind && err == nil {
		s.cfg.Log(slog.LevelError, "servers are behind what this session has seen; they have lost data",
			"session", wire.SessionName(s.ID()), "server", server.String())
	}
	return known, closed, err
}

// ask makes a handshake, with the zxid that was seen or without one, and reports whether the server
// knows the session. If so, and if end is not nil, end may close it on that connection.
func (s *Session) ask(server Server, seen bool, end func(net.Conn) (bool, error)) (known, closed bool, err error) {
	ctx, cancel := context.WithTimeout(s.dialing, 2*s.budget()) // for the handshake, and for end
	defer cancel()
	began := time.Now()
	nc, err := s.dialServer(ctx, server)
	if err != nil {
		s.noteNoContact(server)
		return false, false, err
	}
	defer nc.Close()
	defer context.AfterFunc(ctx, func() { nc.Close() })()
	known, err = s.wire.Probe(nc, seen)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.noteUnanswered(server, began, err)
		return false, false, err
	}
	if known && end != nil {
		closed, err = end(nc)
	}
	return known, closed, err
}
