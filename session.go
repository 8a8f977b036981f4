package zkrecipes

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// session is one session of a Client, and what rests on it: grants, joins whose
// outcome is unknown, and what is known of queues.
//
// The order of locks is grant.mu, session.mu, then those of zkconn.
type session struct {
	*zkconn.Session
	c *client

	attached   attachments
	departures departures

	mu         sync.Mutex
	grants     map[string]*grant   // by the paths of the places
	timer      *time.Timer         // calls tick
	due        time.Time           // when it does; zero: it does not
	unresolved map[string]struct{} // uuids, see leaveUnresolved
}

// openSession starts to connect, and returns at once.
func openSession(c *client) (*session, error) {
	s := &session{
		c:          c,
		grants:     map[string]*grant{},
		unresolved: map[string]struct{}{},
	}
	since := c.began
	if last, _ := c.session(); last != nil {
		_, _, since = last.State()
	}
	s.Session = zkconn.New(zkconn.Config{
		Servers: c.servers, Timeout: c.timeout, Credentials: c.auth(), Digest: c.digest,
		ACL: c.acl, Identities: c.writers(), Owned: c.owned,
		TLS: c.tls, Dial: c.dialer, Tasks: &c.tasks,
		Leases: s.hasGrants,
		Event:  s.onEvent,
		Up:     s.onUp,
		Down:   s.onDown,
		Sooner: s.onSooner,
		Failed: s.onFailed,
		Since:  since, MaxBuffer: c.maxBuffer,
		Log:        c.log,
		NearlyFull: s.onNearlyFull,
		Created:    c.noteCreated,
		Emptied:    c.containers.touch,
	})
	return s, s.Open()
}

// name returns the session id as ZooKeeper's tools print it.
func (s *session) name() string { return fmt.Sprintf("0x%x", s.ID()) }

// onFailed logs why there is no connection: the first attempt at each server, and then one
// in failureInterval.
func (s *session) onFailed(server string, err error) {
	level := slog.LevelDebug
	if s.c.isDue(server) {
		level = slog.LevelWarn
	}
	s.c.log(level, "cannot connect", "server", server, "err", err)
}

// failureInterval is between two warnings that a server cannot be reached.
const failureInterval = 10 * time.Second

// isDue reports whether a warning about that server is due, and notes that it is given.
func (c *client) isDue(server string) bool {
	c.warned.Lock()
	defer c.warned.Unlock()
	now := time.Now()
	if last, ok := c.warned.at[server]; ok && now.Sub(last) < failureInterval {
		return false
	}
	c.warned.at[server] = now
	return true
}

func (s *session) onUp(server string) {
	s.c.log(slog.LevelInfo, "session up", "session", s.name(), "timeout", s.Timeout())
	s.c.told(s, sessionConnected, server, nil)
}

func (s *session) onDown(server string, err error) {
	s.c.log(slog.LevelWarn, "connection lost", "session", s.name(), "err", err)
	s.c.told(s, sessionDisconnected, server, err)
}

// leaveUnresolved remembers the uuid of a join that the search did not find, or that
// cannot be searched for, so that its place is deleted if a listing shows it after all. A
// search that finds nothing ran behind a sync, so no place ever should. A bounded number
// is kept.
func (s *session) leaveUnresolved(uuid string) {
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
func (s *session) hasUnresolved() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.unresolved) > 0
}

// sweep deletes places of joins that leaveUnresolved remembers.
func (s *session) sweep(l *line, ms []placeName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.unresolved) == 0 {
		return
	}
	for _, m := range ms {
		if _, ok := s.unresolved[m.uuid]; ok {
			delete(s.unresolved, m.uuid)
			m, _ := parsePlaceName(strings.Clone(m.name), l.kinds)
			p := &place{placeName: m, line: l, s: s, path: l.abs() + "/" + m.name}
			s.c.tasks.Start(func() { p.leave(false) })
		}
	}
}

// knownUntil is ValidUntil, or the zero time once the session has ended.
func (s *session) knownUntil() time.Time {
	if s.IsOver() {
		return time.Time{}
	}
	return s.ValidUntil()
}
