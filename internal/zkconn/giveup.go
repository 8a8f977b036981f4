package zkconn

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Servers that answer but do not serve. A session that no server serves would live for ever,
// and keep what it owns.

// contact is how a server has failed.
type contact struct {
	failed   bool // the last attempt has reached it
	closed   spell
	answered spell // closed, after it had answered the handshake
}

// spell is a time during which something has happened again and again.
type spell struct{ first, last time.Time }

// extend notes that it has happened from first to now. After a longer gap than that a
// new spell begins: the server was down for a while.
func (p *spell) extend(first, now time.Time, gap time.Duration) {
	if now.Sub(p.last) > gap {
		p.first = first
	}
	p.last = now
}

// lasts reports whether the spell goes on, and has lasted for longer than twice the gap.
func (p spell) lasts(gap time.Duration) bool {
	return time.Since(p.first) > 2*gap && time.Since(p.last) <= gap
}

// noteContact notes how a connection has ended. s.mu must be held.
func (s *Session) noteContact(err error) {
	lasted := s.up && time.Since(s.upSince) >= s.longPause()
	if lasted {
		s.failures = 0
	}
	answered := s.nc.Answered()
	switch {
	case lasted || s.nc.Served():
		clear(s.unserved)
		return
	case !answered && !wire.IsRejected(err): // it has sent nothing
		return
	}
	c := s.unserved[s.server]
	if c == nil {
		c = &contact{}
		s.unserved[s.server] = c
	}
	now, gap := time.Now(), s.Timeout()
	c.failed = true
	c.closed.extend(s.ncSince, now, gap)
	if answered {
		c.answered.extend(s.ncSince, now, gap)
	}
}

// noteNoContact notes that a server cannot be reached. If it can be again, it gets
// another chance.
func (s *Session) noteNoContact(server Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.unserved[server]; c != nil {
		c.failed = false
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
	if c == nil || !c.failed || !s.IsEstablished() || time.Now().Before(s.ValidUntil()) {
		return false, false
	}
	return c.closed.lasts(s.Timeout()), c.answered.lasts(s.Timeout())
}

// resolve ends the session if no connection to this server can use it. It returns
// nil if one can.
//
// A handshake of its own tells whether the session still exists. A server that answers
// handshakes and then refuses a credential, or cannot arm the watches again, would keep
// the session for ever, and with it the places that nobody can release. A server that
// knows the session but not the zxid that the client has seen has lost data. In
// both cases the session is closed there, and the servers delete what it owns.
func (s *Session) resolve(ctx context.Context, server Server, answers bool) error {
	ask := func(seen, end bool) (known bool, err error) {
		nc, err := s.dialServer(ctx, server)
		if err != nil {
			s.noteNoContact(server)
			return false, err
		}
		defer nc.Close()
		defer context.AfterFunc(ctx, func() { nc.Close() })()
		known, err = s.wire.Probe(nc, seen)
		if known && end {
			err = s.wire.CloseSession(nc)
		}
		return known, err
	}
	known, err := ask(false, answers)
	closed := known && answers
	if err == nil && !closed { // the server serves; now with the zxid that was seen
		if still, refused := ask(true, false); wire.IsRejected(refused) {
			s.cfg.Log(slog.LevelError, "servers are behind what this session has seen; they have lost data",
				"session", wire.SessionName(s.ID()), "server", server.String())
			if known {
				known, err = ask(false, true)
				closed = known
			}
		} else if known {
			known, err = still, refused
		}
	}
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
