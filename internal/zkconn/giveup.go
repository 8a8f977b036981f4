package zkconn

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Servers that answer but do not serve. Their answers keep the session alive on the servers, and with
// it all that it owns, for ever. So it is given up: nobody makes a handshake any more, and the
// servers end it after its timeout.

// noteContact notes how a connection has ended. It reports whether the session is to be given up:
// for twice its timeout, servers have answered handshakes, and none has served a request. Its
// leases are believed until ValidUntil. s.mu must be held.
//
// During an election, servers close connections without an answer. They also do if they are
// behind what the session has seen. Then they answer a handshake that asks, see wire.Conn.Asked.
func (s *Session) noteContact() (hopeless bool) {
	lasted := s.up && time.Since(s.upSince) >= s.longPause()
	if lasted {
		s.failures = 0
	}
	answered := s.nc.Answered()
	if s.unreached = 0; lasted || s.nc.Served() || s.nc.Asked() && !answered {
		s.unserved = time.Time{}
	} else if answered && s.unserved.IsZero() {
		s.unserved = s.ncSince
	}
	enough := 2 * s.Timeout()
	if s.nc.Asked() { // which is not done before a timeout without a served request
		enough = s.Timeout()
	}
	return answered && !s.unserved.IsZero() && time.Since(s.unserved) > enough && s.IsEstablished() && time.Now().After(s.ValidUntil())
}

// noteNoContact notes that a server cannot be reached. If more cannot in a row than there are,
// they may serve when they are back, whatever they did before.
func (s *Session) noteNoContact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unreached++; s.unreached > s.hosts.len() {
		s.unserved = time.Time{}
	}
}

// giveUp ends the session, which server does not serve. asked: it has answered a handshake that
// asks, and it or others have closed those between without an answer.
func (s *Session) giveUp(server string, asked bool) {
	if asked {
		s.cfg.Log(slog.LevelError, "servers are behind what this session has seen; they have lost data",
			"session", wire.SessionName(s.ID()), "server", server)
	}
	s.finish(fmt.Errorf("%w: given up, since no server has served it for twice its timeout: %v", zk.ErrSessionExpired, s.LastError()))
}
