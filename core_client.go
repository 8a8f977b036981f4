package zkrecipes

import (
	"context"
	"crypto"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/wire"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

const (
	// maxNumber is the last sequence number that is granted; see beyondLimit.
	// ZooKeeper's counter of creates sticks at 2147483647, and concurrent creates
	// wrap to negative numbers there (PrepRequestProcessor, DataNode's cversion).
	// The difference is room for creates in flight.
	maxNumber = math.MaxInt32 - 1_000_000
)

// config is what a client needs. All of it must be set.
type config struct {
	servers    []string
	timeout    time.Duration
	prefix     string
	identity   string
	acl        []zk.ACL
	auth       func() []wire.Credential // a function, because fmt prints unexported fields, too
	writers    func() []wire.Credential // see writersOf
	owned      bool                     // see writersOf
	created    []zk.ACL                 // of what it creates where the servers know digests, see zkconn.Session.ACL
	digest     crypto.Hash              // see Options.DigestAlgorithm
	maxBuffer  int                      // see Options.MaxBuffer; 0: the default
	tls        *tls.Config
	dialer     func(ctx context.Context, network, addr string) (net.Conn, error)
	lastNumber int32 // see maxNumber
	longLine   int   // see longLine
	segment    int64 // segment size of its queues, in simulations; 0: the default

	log  func(level slog.Level, msg string, args ...any)                // a record for the user
	told func(s *session, state sessionState, server string, err error) // the session has changed
	fail func(op, path string, err error) error                         // wraps an error for the user

	// usedWith returns the path of a znode during whose use the container at that path is used,
	// too, if there is one.
	usedWith func(path string) (other string, ok bool)
	// idle is after how long without use a container is deleted.
	idle time.Duration
}

// sessionState is what has become of a session.
type sessionState int

const (
	sessionConnected sessionState = 1 + iota
	sessionDisconnected
	sessionExpired
	sessionClosed
)

// client holds a session, and opens the next one when it ends.
type client struct {
	config

	tasks       zkconn.Tasks
	closing     context.Context // ends when Close begins, with ErrClosed
	beginClose  context.CancelCauseFunc
	waiting     context.Context // ends when Shutdown or Close begins, with ErrClosed
	stopWaiting context.CancelCauseFunc
	held        openWork  // grants that somebody has, and calls that Shutdown waits for
	writes      openWork  // calls that write and need no grant
	began       time.Time // when Dial was called
	warned      struct {  // when there was a warning about each server
		sync.Mutex
		at map[string]time.Time
	}
	closed chan struct{} // closed when Close is done
	result error         // of Close

	containers *containers // that it knows

	mu        sync.Mutex
	current   *session
	changed   chan struct{}                         // closed and replaced whenever current changes
	abandoned map[string]map[chan struct{}]struct{} // see Client.abandon
	lostJoins map[*lostJoin]struct{}                // that are searched for
	attached  attachments
}

// newCore returns a client that does not connect yet.
func newCore(cfg config) *client {
	c := &client{
		config:     cfg,
		began:      time.Now(),
		closed:     make(chan struct{}),
		changed:    make(chan struct{}),
		containers: newContainers(cfg.idle),
		abandoned:  map[string]map[chan struct{}]struct{}{},
		lostJoins:  map[*lostJoin]struct{}{},
	}
	c.containers.begin = func() { c.tasks.Start(c.tidy) }
	c.warned.at = map[string]time.Time{}
	c.closing, c.beginClose = context.WithCancelCause(context.Background())
	c.waiting, c.stopWaiting = context.WithCancelCause(c.closing)
	return c
}

// dial opens the first session. It returns once that is established. With an error, the
// client is closed.
func (c *client) dial(ctx context.Context) error {
	go c.run()
	for {
		s, changed := c.session()
		if s != nil {
			select {
			case <-s.Established():
				return nil
			case <-s.Over():
				var refused *wire.AuthError
				if errors.As(s.Cause(), &refused) {
					c.close()
					return fmt.Errorf("%w: %w", refused, zk.ErrAuthFailed)
				}
			case <-ctx.Done():
				err := zkconn.ContextErr(ctx)
				if why := s.LastError(); why != nil {
					err = fmt.Errorf("%w (%w)", err, why)
				}
				c.close()
				return err
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			c.close()
			return zkconn.ContextErr(ctx)
		}
	}
}

// close ends every grant, deletes their znodes and ends the session. A second close waits for
// the first.
func (c *client) close() error {
	c.containers.stop()
	c.stopGrants() // before endGrants looks for those that there are
	c.beginClose(coreErrClosed)
	<-c.closed
	return c.result
}

// run keeps a session open until Close.
func (c *client) run() {
	defer close(c.closed)
	var told *session // the last one that was established
	defer func() {
		if told != nil {
			c.told(told, sessionClosed, "", c.result)
		}
	}()
	for pause := time.Duration(0); ; {
		select {
		case <-time.After(pause):
		case <-c.closing.Done():
			<-c.tasks.Done() // those of the session that is over
			return
		}
		began := time.Now()
		s, err := openSession(c)
		if err != nil { // go-zookeeper rejects some arguments, none of which occur here
			c.log(slog.LevelError, "cannot open a session", "err", err)
			pause = time.Second
			continue
		}
		c.publish(s)
		select {
		case <-s.Over():
			err := fmt.Errorf("%w: %w", coreErrLost, s.Cause())
			s.endGrants(err)
			c.log(slog.LevelWarn, "session over", "session", s.name(), "cause", s.Cause())
			s.Close(false, coreErrClosed)
			if s.IsEstablished() {
				c.told(s, sessionExpired, "", err)
				told = s
			}
		case <-c.closing.Done():
			c.result = c.shutdown(s)
			if s.IsEstablished() {
				told = s
			}
			return
		}
		pause = 0
		if time.Since(began) < c.timeout/4 {
			pause = c.timeout / 10
		}
	}
}

// shutdown ends the last session: contexts, places, calls, connection.
func (c *client) shutdown(s *session) error {
	s.endGrants(coreErrClosed)
	up, changed := s.Connected()
	if up {
		select {
		case <-c.tasks.Done():
		case <-changed:
		case <-time.After(s.Timeout() / 4):
			c.log(slog.LevelWarn, "no time to delete all znodes; the rest is left to the end of the session",
				"session", s.name(), "znodes", s.Load().Znodes)
		}
	}
	known := s.IsEstablished() && !s.IsOver()
	up, _ = s.Connected()
	left := s.Load().Znodes
	clean := s.Close(true, coreErrClosed)
	<-c.tasks.Done()
	switch {
	case !known:
		return nil
	case clean:
		c.log(slog.LevelInfo, "session closed", "session", s.name())
		return nil
	}
	err := c.fail("close", strings.Join(c.servers, ","),
		zkconn.Errorf(coreErrSessionNotClosed, "not connected: session %s is left to time out on the servers, with %d znodes", s.name(), left))
	if up { // else "connection lost" was logged
		c.log(slog.LevelWarn, "session not closed", "session", s.name(), "err", err)
	}
	return err
}

func (c *client) publish(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current = s
	close(c.changed)
	c.changed = make(chan struct{})
}

// session returns the newest session, or nil before the first one, and a channel
// that is closed when there is a newer one.
func (c *client) session() (*session, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current, c.changed
}

// live waits for a session that has been established and has not ended. The
// session may be disconnected for the moment.
func (c *client) live(ctx context.Context) (*session, error) {
	for {
		if c.closing.Err() != nil {
			return nil, coreErrClosed
		}
		if ctx.Err() != nil {
			return nil, c.contextErr(ctx)
		}
		s, changed := c.session()
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
		case <-c.closing.Done():
		}
	}
}

// inSessions calls f with the live session. If that ends meanwhile, it calls f again with the
// next one, unless what f did is uncertain.
func inSessions[A any](ctx context.Context, c *client, f func(*session) (A, error)) (a A, err error) {
	for {
		s, err := c.live(ctx)
		if err == nil {
			a, err = f(s)
		}
		if !errors.Is(err, zkconn.ErrSessionOver) || errors.Is(err, coreErrUncertain) {
			return a, err
		}
	}
}

// inSessions is like the function for an f without a result.
func (c *client) inSessions(ctx context.Context, f func(*session) error) error {
	_, err := inSessions(ctx, c, func(s *session) (struct{}, error) { return struct{}{}, f(s) })
	return err
}

// contextErr returns why ctx has ended and, where there is no connection, why not.
func (c *client) contextErr(ctx context.Context) error {
	if s, _ := c.session(); s != nil {
		return s.ContextErr(ctx)
	}
	return zkconn.ContextErr(ctx)
}

// abs puts the prefix before a path.
func (c *client) abs(path string) string { return c.prefix + path }

// check refuses what no call can work with: a nil client, a nil context, an
// invalid path.
func (c *client) check(ctx context.Context, path string) error {
	switch {
	case c == nil:
		return errors.New("nil client")
	case c.closing == nil: // the zero client
		return errors.New("client was not made by Dial")
	case ctx == nil:
		return errNilContext
	}
	return c.checkPath(path)
}

// bind returns a context that ends with ctx and when the Client is closed.
func (c *client) bind(ctx context.Context) (context.Context, context.CancelFunc) {
	return bindTo(c.closing, ctx)
}

// bindWait is like bind for a call that waits for a grant or for others, which a Shutdown
// ends, too.
func (c *client) bindWait(ctx context.Context) (context.Context, context.CancelFunc) {
	return bindTo(c.waiting, ctx)
}

func bindTo(end, ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := func() { cancel(zkconn.Stopped(coreErrClosed)) }
	stop := context.AfterFunc(end, ended)
	if end.Err() != nil { // AfterFunc takes a moment, in which the call would begin
		ended()
	}
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// resolve returns the absolute path for a path in a lease's reads and writes, where
// "/" is the prefix itself.
func (c *client) resolve(path string) (string, error) {
	if path == "/" {
		if c.prefix == "" {
			return "/", nil
		}
		return c.prefix, nil
	}
	return c.abs(path), c.checkPath(path)
}

// checkPath also refuses paths too long for one request.
func (c *client) checkPath(path string) error {
	const room = 1024 // for the rest of a request, and for the name of a place
	if n := len(c.prefix) + len(path); n > jute.MaxFrame-room {
		return zkconn.TooLarge(n + room)
	}
	return zkconn.CheckPath(path)
}

// expired returns why a member's session has ended: the Client may have ended it.
func (c *client) expired() error {
	if c.closing.Err() != nil {
		return coreErrClosed
	}
	return errExpired
}
