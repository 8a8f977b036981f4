// Package session keeps a session with ZooKeeper: a Client opens the next one when it ends, and
// ends it at last. What else a call of any recipe needs stands here: which session lives, when a
// call must end, and what Shutdown waits for. It knows nothing of places.
package session

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/wire"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Config is what a client needs. All of it must be set but what may be nil.
type Config struct {
	Servers  []string // host:port
	Timeout  time.Duration
	Prefix   string
	Identity string
	ACL      []zk.ACL // of what the Client creates
	// Auth is a function, because fmt prints unexported fields, too.
	Auth      func() []wire.Credential
	SASL      *zkconn.SASL // nil: none
	MaxBuffer int
	TLS       *tls.Config // nil: none
	Dialer    func(ctx context.Context, network, addr string) (net.Conn, error)
	// Lookup returns the addresses of a host. nil: Dialer gets the names as they are.
	Lookup zkconn.LookupFunc
	// Idle is how long something unused is kept: a container, or what a counter keeps between writes.
	Idle time.Duration

	// Log writes a record for the user, OnState reports a change of the session, and Fail wraps an
	// error.
	Log     func(level slog.Level, msg string, args ...any)
	OnState func(s *Session, state State, server string, err error)
	Fail    func(op, path string, err error) error
}

// State is what has become of a session.
type State int

const (
	Connected State = 1 + iota
	Disconnected
	Expired
	Closed
	// RolledBack: the servers have lost transactions. The session goes on, connected.
	RolledBack
	// Refused: a server has refused the client's credentials, or requires SASL. The session stays
	// disconnected.
	Refused
)

// Client holds a session, and opens the next one when it ends.
type Client struct {
	Config
	attachments
	begin func(*Session, *zkconn.Config) (end func(cause error))

	Tasks zkconn.Tasks
	// Closing ends when Close begins, and Waiting also when Shutdown does, both with ErrClosed.
	Closing     context.Context
	beginClose  context.CancelCauseFunc
	Waiting     context.Context
	stopWaiting context.CancelCauseFunc
	// Held are grants that somebody has, and calls that Shutdown waits for.
	Held zkconn.Tasks
	// Writes are calls that write and need no grant.
	Writes zkconn.Tasks
	began  time.Time
	// servers are those that all sessions use.
	servers *zkconn.Servers
	// warned has when there was a warning for each reason.
	warned struct {
		sync.Mutex
		at map[string]time.Time
	}
	others     others
	background background
	// closed is closed when Close is done, and result is what it returns.
	closed chan struct{}
	result error

	mu      sync.Mutex
	current *Session
	// changed is closed and replaced whenever current changes.
	changed chan struct{}
}

// New returns a client that does not connect yet. Before a session connects, it calls begin, which
// sets callbacks in the session's zkconn.Config. The end that begin returns must end all grants. It is
// called when the session is over, or the client closes it.
func New(cfg Config, begin func(*Session, *zkconn.Config) (end func(cause error))) *Client {
	c := &Client{
		Config:  cfg,
		begin:   begin,
		began:   time.Now(),
		closed:  make(chan struct{}),
		changed: make(chan struct{}),

		others:     others{warned: map[string]bool{}, looked: map[string]time.Time{}},
		background: background{abandoned: map[string]map[chan struct{}]struct{}{}},
	}
	c.warned.at = map[string]time.Time{}
	c.Closing, c.beginClose = context.WithCancelCause(context.Background())
	c.Waiting, c.stopWaiting = context.WithCancelCause(c.Closing)
	c.servers = zkconn.NewServers(c.Closing, cfg.Servers, cfg.Lookup, &c.Tasks, c.onUnresolved)
	return c
}

// Dial opens the first session. It returns once that is established. With an error, the
// client is closed.
func (c *Client) Dial(ctx context.Context) error {
	go c.run()
	for {
		s, changed := c.Session()
		if s != nil {
			select {
			case <-s.Established():
				return nil
			case <-s.Over():
				var refused *wire.AuthError
				if errors.As(s.Cause(), &refused) {
					c.Close()
					return refused
				}
			case <-ctx.Done():
				return c.endDial(ctx)
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return c.endDial(ctx)
		}
	}
}

// endDial closes the client since ctx has ended, and returns why it has no session.
func (c *Client) endDial(ctx context.Context) error {
	err := zkconn.ContextErr(ctx)
	if s, _ := c.Session(); s != nil {
		if why := s.LastError(); why != nil {
			err = fmt.Errorf("%w (%w)", err, why)
		}
	}
	c.Close()
	return err
}

// Close ends every grant, and then the session, with which their znodes go. A second close waits
// for the first.
func (c *Client) Close() error {
	c.Held.Stop()                // before Session.end looks for the grants that there are
	c.beginClose(errs.ErrClosed) // and Waiting after it: what waits leaves its place to the session's end
	<-c.closed
	return c.result
}

// run keeps a session open until Close.
func (c *Client) run() {
	defer close(c.closed)
	var told *Session
	defer func() {
		if told != nil {
			c.OnState(told, Closed, "", c.result)
		}
	}()
	for pause := time.Duration(0); ; {
		select {
		case <-time.After(pause):
		case <-c.Closing.Done():
			<-c.Tasks.Done() // those of the session that is over
			return
		}
		began := time.Now()
		s := openSession(c)
		c.publish(s)
		select {
		case <-s.Over():
			err := fmt.Errorf("%w: %w", errs.ErrLost, s.Cause())
			s.end(err)
			c.Log(slog.LevelWarn, "session over", "session", s.Name(), "cause", s.Cause())
			s.Close(false, errs.ErrClosed)
			if s.IsEstablished() {
				c.OnState(s, Expired, "", err)
				told = s
			}
		case <-c.Closing.Done():
			c.result = c.shutdown(s)
			if s.IsEstablished() {
				told = s
			}
			return
		}
		pause = 0
		if time.Since(began) < c.Timeout/4 {
			pause = c.Timeout / 10
		}
	}
}

// shutdown ends the last session: contexts, places, calls, connection.
func (c *Client) shutdown(s *Session) error {
	s.end(errs.ErrClosed)
	up, changed := s.Connected()
	if up {
		select {
		case <-c.Tasks.Done():
		case <-changed:
		case <-time.After(s.Timeout() / 4):
			c.Log(slog.LevelWarn, "no time to delete all znodes; the rest is left to the end of the session",
				"session", s.Name(), "znodes", s.Load().Znodes)
		}
	}
	known := s.IsEstablished() && !s.IsOver()
	up, _ = s.Connected()
	left := s.Load().Znodes
	clean := s.Close(true, errs.ErrClosed)
	<-c.Tasks.Done()
	switch {
	case !known:
		return nil
	case clean:
		c.Log(slog.LevelInfo, "session closed", "session", s.Name())
		return nil
	}
	err := c.Fail("close", strings.Join(c.Servers, ","),
		zkconn.Errorf(errs.ErrSessionNotClosed, "not connected: session %s is left to time out on the servers, with %d znodes", s.Name(), left))
	if up { // else "connection lost" was logged
		c.Log(slog.LevelWarn, "session not closed", "session", s.Name(), "err", err)
	}
	return err
}

func (c *Client) publish(s *Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current = s
	close(c.changed)
	c.changed = make(chan struct{})
}

// fullPause is between two tries of a Serve to take an item, or of a Lead to campaign, while
// the session is full.
const fullPause = time.Second

// PauseWhileFull pauses for fullPause, or until ctx ends.
func (c *Client) PauseWhileFull(ctx context.Context) error {
	select {
	case <-time.After(fullPause):
		return nil
	case <-ctx.Done():
		return c.ContextErr(ctx)
	}
}
