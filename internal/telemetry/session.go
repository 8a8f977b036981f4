package telemetry

import (
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// States are the states that a session can be in.
func States() []zkrecipes.SessionState {
	return []zkrecipes.SessionState{
		zkrecipes.SessionConnected, zkrecipes.SessionDisconnected, zkrecipes.SessionExpired, zkrecipes.SessionClosed,
	}
}

// session follows the sessions of a Client.
type session struct {
	last                              zkrecipes.TraceSession // its State is 0 before the first event
	reconnects, expirations, refusals int
}

func (s *session) changed(e zkrecipes.TraceSession) {
	switch {
	case e.Refused: // nothing else has changed
		s.refusals++
		return
	case e.RolledBack: // likewise, and it may come late: the State is an earlier one then
		return
	case e.State == zkrecipes.SessionConnected && e.ID == s.last.ID:
		s.reconnects++
	case e.State == zkrecipes.SessionExpired:
		s.expirations++
	}
	s.last = e
}

// Session has the figures of a Client's session.
type Session struct {
	State zkrecipes.SessionState // 0: there has been none yet
	// Validity is how long the session is known to live on if the servers send nothing more. It
	// is 0 if the session has ended, or if they have been silent for too long.
	Validity                time.Duration
	Reconnects, Expirations int // of and since the first session
	Refusals                int // by servers, of credentials or for want of them
}

func (s *session) figures(now time.Time) Session {
	f := Session{State: s.last.State, Reconnects: s.reconnects, Expirations: s.expirations, Refusals: s.refusals}
	if until := s.last.ValidUntil(); !until.IsZero() {
		f.Validity = max(0, until.Sub(now))
	}
	return f
}
