package session

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

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
func openSession(c *Client) *Session {
	s := &Session{Client: c}
	since, losses := c.began, int64(0)
	if last, _ := c.Session(); last != nil {
		_, _, since = last.State()
		losses = last.Losses()
	}
	conn := zkconn.Config{
		Servers: c.servers, Timeout: c.Timeout, Credentials: c.Auth(), SASL: c.SASL, ACL: c.ACL,
		TLS: c.TLS, Dial: c.Dialer, Tasks: &c.Tasks,
		Up:     s.onUp,
		Down:   s.onDown,
		Failed: s.onFailed,
		Since:  since, Losses: losses, MaxBuffer: c.MaxBuffer,
		Log:        c.Log,
		ReadACL:    c.noteACL,
		RolledBack: s.onRolledBack,
		Refused:    s.onRefused,
	}
	s.end = c.begin(s, &conn)
	s.Session = zkconn.New(conn)
	s.Open()
	return s
}

// onFailed logs why there is no connection: each reason at each server, once in
// failureInterval. Each refusal of the client is told.
func (s *Session) onFailed(server string, err error) {
	level := slog.LevelDebug
	if s.Client.isDue(server, err) {
		level = slog.LevelWarn
	}
	s.Client.Log(level, "cannot connect", "server", server, "err", err)
	if errors.Is(err, zk.ErrAuthFailed) {
		s.Client.OnState(s, Refused, server, err)
	}
}

// onUnresolved is like onFailed for a name that cannot be looked up. kept is how many addresses
// are known from before.
func (c *Client) onUnresolved(name string, kept int, err error) {
	level := slog.LevelDebug
	if c.isDue(name, err) {
		level = slog.LevelWarn
	}
	c.Log(level, "cannot look up a server", "server", name, "kept", kept, "err", err)
}

// failureInterval is between two warnings for the same reason.
const failureInterval = 10 * time.Second

// isDue reports whether a warning about that server, name or operation is due, and notes that it
// is given. Numbers do not distinguish reasons: ports change with each attempt.
func (c *Client) isDue(about string, why error) bool {
	reason := about + ": " + strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return '0'
		}
		return r
	}, why.Error())
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

// onRefused logs that servers refuse an operation for now.
func (s *Session) onRefused(operation string, err error) {
	if s.Client.isDue(operation, err) {
		s.Client.Log(slog.LevelWarn, "servers refuse requests for now", "session", s.Name(), "operation", operation, "err", err)
	}
}

func (s *Session) onUp(server string) {
	s.Client.Log(slog.LevelInfo, "session up", "session", s.Name(), "timeout", s.Timeout())
	s.Client.OnState(s, Connected, server, nil)
}

func (s *Session) onDown(server string, err error) {
	s.Client.Log(slog.LevelWarn, "connection lost", "session", s.Name(), "err", err)
	s.Client.OnState(s, Disconnected, server, err)
}

// onRolledBack logs that the servers have lost transactions, since znodes are back that the
// session had deleted.
func (s *Session) onRolledBack(returned []string, lost int) {
	s.Client.Log(slog.LevelError, "servers have lost transactions that they had confirmed",
		"session", s.Name(), "deleted_again", len(returned), "lost", lost, "first", slices.Min(returned))
	_, server, _ := s.State()
	s.Client.OnState(s, RolledBack, server, nil)
}

// Connection identifies a connection of a session. What rests on versions of znodes is known
// only on the connection on which they were read: the servers that resume the session may have
// lost transactions, and give the same versions to other data.
type Connection struct {
	session *Session
	number  uint64
}

// On returns the newest connection.
func (s *Session) On() Connection {
	number, _ := s.Connection()
	return Connection{s, number}
}

// KnownUntil is ValidUntil, or the zero time once the session has ended.
func (s *Session) KnownUntil() time.Time {
	if s.IsOver() {
		return time.Time{}
	}
	return s.ValidUntil()
}
