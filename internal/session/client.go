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
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/wire"
	"github.com/zkrecipes/zkrecipes/internal/work"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Config is what a client needs. All of it must be set.
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
	TLS       *tls.Config
	Dialer    func(ctx context.Context, network, addr string) (net.Conn, error)
	// Lookup returns the addresses of a host. nil: Dialer gets the names as they are.
	Lookup zkconn.LookupFunc
	// Idle is for how long what a client keeps for later is kept without use.
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
	Held work.Open
	// Writes are calls that write and need no grant.
	Writes work.Open
	began  time.Time
	// servers are those that all sessions use.
	servers *zkconn.Servers
	// warned has when there was a warning for each reason.
	warned struct {
		sync.Mutex
		at map[string]time.Time
	}
	// closed is closed when Close is done, and result is what it returns.
	closed chan struct{}
	result error

	mu      sync.Mutex
	current *Session
	// changed is closed and replaced whenever current changes.
	changed chan struct{}
}

// New returns a client that does not connect yet. It calls begin before each session
// connects, so that the package above learns what zkconn has to tell of the session. The end that
// begin returns ends what rests on the session, when the session has ended or the client closes
// it.
func New(cfg Config, begin func(*Session, *zkconn.Config) (end func(cause error))) *Client {
	c := &Client{
		Config:  cfg,
		begin:   begin,
		began:   time.Now(),
		closed:  make(chan struct{}),
		changed: make(chan struct{}),
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
				err := zkconn.ContextErr(ctx)
				if why := s.LastError(); why != nil {
					err = fmt.Errorf("%w (%w)", err, why)
				}
				c.Close()
				return err
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			c.Close()
			return zkconn.ContextErr(ctx)
		}
	}
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
		s, err := openSession(c)
		if err != nil { // go-zookeeper rejects some arguments, none of which occur here
			c.Log(slog.LevelError, "cannot open a session", "err", err)
			pause = time.Second
			continue
		}
		c.publish(s)
		select {
		case <-s.Over():
			err := fmt.Errorf("%w: %w", errs.ErrLost, s.Cause())
			s.end(err)
			c.Log(slog.LevelWarn, "session over", "session", s.name(), "cause", s.Cause())
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
				"session", s.name(), "znodes", s.Load().Znodes)
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
		c.Log(slog.LevelInfo, "session closed", "session", s.name())
		return nil
	}
	err := c.Fail("close", strings.Join(c.Servers, ","),
		zkconn.Errorf(errs.ErrSessionNotClosed, "not connected: session %s is left to time out on the servers, with %d znodes", s.name(), left))
	if up { // else "connection lost" was logged
		c.Log(slog.LevelWarn, "session not closed", "session", s.name(), "err", err)
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

// Session returns the newest session, or nil before the first one, and a channel
// that is closed when there is a newer one.
func (c *Client) Session() (*Session, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current, c.changed
}

// Live waits for a session that has been established and has not ended. The
// session may be disconnected for the moment.
func (c *Client) Live(ctx context.Context) (*Session, error) {
	for {
		if c.Closing.Err() != nil {
			return nil, errs.ErrClosed
		}
		if ctx.Err() != nil {
			return nil, c.ContextErr(ctx)
		}
		s, changed := c.Session()
		if s != nil && s.IsEstablished() && !s.IsOver() {
			return s, nil
		}
		var first <-chan struct{}
		if s != nil && !s.IsOver() {
			first = s.Established()
		}
		select {
		case <-first:
		case <-changed:
		case <-ctx.Done():
		case <-c.Closing.Done():
		}
	}
}

// InSessions calls f with the live session. If that ends meanwhile, it calls f again with the
// next one, unless what f did is uncertain.
func InSessions[A any](ctx context.Context, c *Client, f func(*Session) (A, error)) (a A, err error) {
	for {
		s, err := c.Live(ctx)
		if err == nil {
			a, err = f(s)
		}
		if !errors.Is(err, zkconn.ErrSessionOver) || errors.Is(err, errs.ErrUncertain) {
			return a, err
		}
	}
}

// InSessions is like the function for an f without a result.
func (c *Client) InSessions(ctx context.Context, f func(*Session) error) error {
	_, err := InSessions(ctx, c, func(s *Session) (struct{}, error) { return struct{}{}, f(s) })
	return err
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

// ContextErr returns why ctx has ended and, where there is no connection, why not.
func (c *Client) ContextErr(ctx context.Context) error {
	if s, _ := c.Session(); s != nil {
		return s.ContextErr(ctx)
	}
	return zkconn.ContextErr(ctx)
}

// Abs puts the prefix before a path.
func (c *Client) Abs(path string) string { return c.Prefix + path }

// At is an address. An address is a Client, a path and a recipe: what that recipe keeps there. The same address is the same lock,
// queue or barrier, so it is a key, too.
type At struct {
	Client *Client
	Path   string // as the user gave it
	Recipe string
}

// Abs returns the path with the Client's prefix.
func (a At) Abs() string { return a.Client.Abs(a.Path) }

// Fail wraps an error for the user.
func (a At) Fail(op string, err error) error { return a.Client.Fail(op, a.Path, err) }

// Check refuses what no call can work with: a nil client, a nil context, an
// invalid path.
func (c *Client) Check(ctx context.Context, path string) error {
	switch {
	case c == nil:
		return errors.New("nil client")
	case c.Closing == nil:
		return errors.New("client was not made by Dial")
	case ctx == nil:
		return errs.ErrNilContext
	}
	return c.CheckPath(path)
}

// Bind returns a context that ends with ctx and when the Client is closed.
func (c *Client) Bind(ctx context.Context) (context.Context, context.CancelFunc) {
	return bindTo(c.Closing, ctx)
}

// BindWait is like Bind for a call that waits for a grant or for others, which a Shutdown
// ends, too.
func (c *Client) BindWait(ctx context.Context) (context.Context, context.CancelFunc) {
	return bindTo(c.Waiting, ctx)
}

func bindTo(end, ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := func() { cancel(zkconn.Stopped(errs.ErrClosed)) }
	stop := context.AfterFunc(end, ended)
	if end.Err() != nil { // AfterFunc takes a moment, in which the call would begin
		ended()
	}
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// Resolve returns the absolute path for a path in a lease's reads and writes, where
// "/" is the prefix itself.
func (c *Client) Resolve(path string) (string, error) {
	if path == "/" {
		if c.Prefix == "" {
			return "/", nil
		}
		return c.Prefix, nil
	}
	return c.Abs(path), c.CheckPath(path)
}

// CheckPath also refuses paths too long for one request. go-zookeeper, which sends those that
// set watches, has room for jute.MaxFrame.
func (c *Client) CheckPath(path string) error {
	const room = 1024 // for the rest of a request, and for the name of a place
	if err := zkconn.CheckSize(len(c.Prefix)+len(path)+room, min(zkconn.MaxRequest(c.MaxBuffer), jute.MaxFrame)); err != nil {
		return err
	}
	return zkconn.CheckPath(path)
}

// Expired returns why a member's session has ended: the Client may have ended it.
func (c *Client) Expired() error {
	if c.Closing.Err() != nil {
		return errs.ErrClosed
	}
	return errs.ErrExpired
}

// attachments are what the packages above remember with a Client or a session. The zero value
// has none.
type attachments struct {
	mu  sync.Mutex // behind all other mutexes
	all map[reflect.Type]any
}

func (a *attachments) attached() *attachments { return a }

// Attached returns the attachment of type T to a Client or a Session. If there is none yet, it is
// what create returns, which must take no lock. create may be nil if there certainly is one.
func Attached[T any](to interface{ attached() *attachments }, create func() *T) *T {
	a := to.attached()
	a.mu.Lock()
	defer a.mu.Unlock()
	key := reflect.TypeFor[T]()
	if t, ok := a.all[key]; ok {
		return t.(*T)
	}
	if a.all == nil {
		a.all = map[reflect.Type]any{}
	}
	t := create()
	a.all[key] = t
	return t
}
