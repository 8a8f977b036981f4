package session

import (
	"log/slog"
	"maps"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/wire"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Session is one session of a Client.
type Session struct {
	*zkconn.Session
	attachments
	Client *Client
	end    func(cause error)
}

// openSession starts to connect, and returns at once.
func openSession(c *Client) (*Session, error) {
	s := &Session{Client: c}
	since := c.began
	if last, _ := c.Session(); last != nil {
		_, _, since = last.State()
	}
	conn := zkconn.Config{
		Servers: c.Servers, Timeout: c.Timeout, Credentials: c.Auth(), Digest: c.Digest,
		ACL: c.ACL, Identities: c.Writers(), Owned: c.Owned,
		TLS: c.TLS, Dial: c.Dialer, Tasks: &c.Tasks,
		Up:     s.onUp,
		Down:   s.onDown,
		Failed: s.onFailed,
		Since:  since, MaxBuffer: c.MaxBuffer,
		Log:        c.Log,
		NearlyFull: s.onNearlyFull,
		Kills:      s.onKills,
		Refused:    s.onRefused,
	}
	s.end = c.begin(s, &conn)
	s.Session = zkconn.New(conn)
	return s, s.Open()
}

// name returns the session id as ZooKeeper's tools print it, which is unsigned.
func (s *Session) name() string { return wire.SessionName(s.ID()) }

// onFailed logs why there is no connection: each reason at each server, once in
// failureInterval.
func (s *Session) onFailed(server string, err error) {
	level := slog.LevelDebug
	if s.Client.isDue(server + ": " + err.Error()) {
		level = slog.LevelWarn
	}
	s.Client.Log(level, "cannot connect", "server", server, "err", err)
}

// failureInterval is between two warnings for the same reason.
const failureInterval = 10 * time.Second

// isDue reports whether a warning for that reason is due, and notes that it is given. Numbers
// do not distinguish reasons: ports change with each attempt.
func (c *Client) isDue(reason string) bool {
	reason = strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return '0'
		}
		return r
	}, reason)
	c.warned.Lock()
	defer c.warned.Unlock()
	now := time.Now()
	maps.DeleteFunc(c.warned.at, func(_ string, last time.Time) bool { return now.Sub(last) >= failureInterval })
	if _, ok := c.warned.at[reason]; ok {
		return false
	}
	c.warned.at[reason] = now
	return true
}

// onKills logs that requests of that size are given up.
func (s *Session) onKills(bytes int) {
	s.Client.Log(slog.LevelError, "servers close the connection at a request of this size, so it is given up", "session", s.name(), "bytes", bytes)
}

// onRefused logs that servers refuse an operation for now.
func (s *Session) onRefused(operation string, err error) {
	if s.Client.isDue(operation + err.Error()) {
		s.Client.Log(slog.LevelWarn, "servers refuse requests for now", "session", s.name(), "operation", operation, "err", err)
	}
}

func (s *Session) onUp(server string) {
	s.Client.Log(slog.LevelInfo, "session up", "session", s.name(), "timeout", s.Timeout())
	s.Client.Told(s, Connected, server, nil)
}

func (s *Session) onDown(server string, err error) {
	s.Client.Log(slog.LevelWarn, "connection lost", "session", s.name(), "err", err)
	s.Client.Told(s, Disconnected, server, err)
}

// IsValid reports whether the session is known to be alive. The wall clock is looked at
// too, since the monotonic clock stands still while a machine is suspended
// (CLOCK_MONOTONIC).
func (s *Session) IsValid() bool {
	now, until := time.Now(), s.ValidUntil()
	return now.Before(until) && now.Round(0).Before(until.Round(0))
}

// KnownUntil is ValidUntil, or the zero time once the session has ended.
func (s *Session) KnownUntil() time.Time {
	if s.IsOver() {
		return time.Time{}
	}
	return s.ValidUntil()
}
