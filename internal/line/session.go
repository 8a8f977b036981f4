package line

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/placename"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Session is one session of a Client, and what rests on it: grants, joins whose
// outcome is unknown, and what is known of queues.
//
// The order of locks is grant.mu, session.mu, then those of zkconn.
type Session struct {
	*zkconn.Session
	Client *Client

	Attached   attachments
	departures departures

	mu         sync.Mutex
	grants     map[string]*Grant   // by the paths of the places
	timer      *time.Timer         // calls tick
	due        time.Time           // when it does; zero: it does not
	unresolved map[string]struct{} // uuids, see leaveUnresolved
}

// openSession starts to connect, and returns at once.
func openSession(c *Client) (*Session, error) {
	s := &Session{
		Client:     c,
		grants:     map[string]*Grant{},
		unresolved: map[string]struct{}{},
	}
	since := c.began
	if last, _ := c.Session(); last != nil {
		_, _, since = last.State()
	}
	s.Session = zkconn.New(zkconn.Config{
		Servers: c.Servers, Timeout: c.Timeout, Credentials: c.Auth(), Digest: c.Digest,
		ACL: c.ACL, Identities: c.Writers(), Owned: c.Owned,
		TLS: c.TLS, Dial: c.Dialer, Tasks: &c.Tasks,
		Leases: s.hasGrants,
		Event:  s.onEvent,
		Up:     s.onUp,
		Down:   s.onDown,
		Sooner: s.onSooner,
		Failed: s.onFailed,
		Since:  since, MaxBuffer: c.MaxBuffer,
		Log:        c.Log,
		NearlyFull: s.onNearlyFull,
		Created:    c.noteCreated,
		Emptied:    c.containers.touch,
	})
	return s, s.Open()
}

// name returns the session id as ZooKeeper's tools print it.
func (s *Session) name() string { return fmt.Sprintf("0x%x", s.ID()) }

// onFailed logs why there is no connection: the first attempt at each server, and then one
// in failureInterval.
func (s *Session) onFailed(server string, err error) {
	level := slog.LevelDebug
	if s.Client.isDue(server) {
		level = slog.LevelWarn
	}
	s.Client.Log(level, "cannot connect", "server", server, "err", err)
}

// failureInterval is between two warnings that a server cannot be reached.
const failureInterval = 10 * time.Second

// isDue reports whether a warning about that server is due, and notes that it is given.
func (c *Client) isDue(server string) bool {
	c.warned.Lock()
	defer c.warned.Unlock()
	now := time.Now()
	if last, ok := c.warned.at[server]; ok && now.Sub(last) < failureInterval {
		return false
	}
	c.warned.at[server] = now
	return true
}

func (s *Session) onUp(server string) {
	s.Client.Log(slog.LevelInfo, "session up", "session", s.name(), "timeout", s.Timeout())
	s.Client.Told(s, SessionConnected, server, nil)
}

func (s *Session) onDown(server string, err error) {
	s.Client.Log(slog.LevelWarn, "connection lost", "session", s.name(), "err", err)
	s.Client.Told(s, SessionDisconnected, server, err)
}

// leaveUnresolved remembers the uuid of a join that the search did not find, or that
// cannot be searched for, so that its place is deleted if a listing shows it after all. A
// search that finds nothing ran behind a sync, so no place ever should. A bounded number
// is kept.
func (s *Session) leaveUnresolved(uuid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.unresolved) >= maxUnresolved {
		for other := range s.unresolved {
			delete(s.unresolved, other)
			break
		}
	}
	s.unresolved[uuid] = struct{}{}
}

const maxUnresolved = 1000

// hasUnresolved reports whether a listing might show such a place.
func (s *Session) hasUnresolved() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.unresolved) > 0
}

// sweep deletes places of joins that leaveUnresolved remembers.
func (s *Session) sweep(l *Line, ms []placename.Parts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.unresolved) == 0 {
		return
	}
	for _, m := range ms {
		if _, ok := s.unresolved[m.UUID]; ok {
			delete(s.unresolved, m.UUID)
			m, _ := placename.Parse(strings.Clone(m.Name), l.Kinds)
			p := &Place{Parts: m, Line: l, Session: s, Path: l.Abs() + "/" + m.Name}
			s.Client.Tasks.Start(func() { p.Leave(false) })
		}
	}
}

// KnownUntil is ValidUntil, or the zero time once the session has ended.
func (s *Session) KnownUntil() time.Time {
	if s.IsOver() {
		return time.Time{}
	}
	return s.ValidUntil()
}
