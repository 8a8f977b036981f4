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
	defaultSessionTimeout = 10 * time.Second
	defaultPort           = "2181"

	// maxNumber is the last sequence number that is granted; see beyondLimit.
	// ZooKeeper's counter of creates sticks at 2147483647, and concurrent creates
	// wrap to negative numbers there (PrepRequestProcessor, DataNode's cversion).
	// The difference is room for creates in flight.
	maxNumber = math.MaxInt32 - 1_000_000
)

// Client holds a ZooKeeper session, and opens the next one when it ends. It is
// safe for concurrent use. A process needs one Client for each ensemble.
type Client struct {
	servers    []string
	timeout    time.Duration
	prefix     string
	identity   string
	acl        []zk.ACL
	auth       func() []Auth            // a function, because fmt prints unexported fields, too
	writers    func() []wire.Credential // see writersOf
	owned      bool                     // see writersOf
	created    []zk.ACL                 // of what it creates where the servers know digests, see zkconn.Session.ACL
	digest     crypto.Hash              // see Options.DigestAlgorithm
	maxBuffer  int                      // see Options.MaxBuffer; 0: the default
	tls        *tls.Config
	dialer     func(ctx context.Context, network, addr string) (net.Conn, error)
	hooks      hooks
	lastNumber int32 // see maxNumber
	longLine   int   // see longLine
	segment    int64 // segment size of its queues, in simulations; 0: the default

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

// Dial connects to an ensemble and returns once the session is established. Each
// server is host or host:port; the default port is 2181. Names are resolved at
// every attempt. Dial tries the servers in turn until ctx ends, and then the error
// says what went wrong last. If no server answers, it tries for ever, so give it a
// deadline:
//
//	dialing, cancel := context.WithTimeout(ctx, 30*time.Second)
//	defer cancel()
//	client, err := zkrecipes.Dial(dialing, servers, nil)
//
// ctx bounds Dial only, not the Client. The Logger gets a warning, with the reason,
// for each server that cannot be reached: at the first attempt, and then every 10 s at
// most. If a server refuses a credential, or an option is invalid, Dial returns an error at
// once.
func Dial(ctx context.Context, servers []string, opts *Options) (*Client, error) {
	c, err := newClient(ctx, servers, opts)
	if err != nil {
		return nil, fail("dial", strings.Join(servers, ","), err)
	}
	go c.run()
	for {
		s, changed := c.session()
		if s != nil {
			select {
			case <-s.Established():
				return c, nil
			case <-s.Over():
				var refused *wire.AuthError
				if errors.As(s.Cause(), &refused) {
					c.Close()
					return nil, fail("dial", strings.Join(servers, ","), fmt.Errorf("%w: %w", refused, zk.ErrAuthFailed))
				}
			case <-ctx.Done():
				err := zkconn.ContextErr(ctx)
				if why := s.LastError(); why != nil {
					err = fmt.Errorf("%w (%w)", err, why)
				}
				c.Close()
				return nil, fail("dial", strings.Join(servers, ","), err)
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			c.Close()
			return nil, fail("dial", strings.Join(servers, ","), zkconn.ContextErr(ctx))
		}
	}
}

// Close ends every lease, deletes their znodes and ends the session. The leases'
// contexts end before the first deletion is sent. Waiting calls and later ones
// return ErrClosed. Close does not wait for the code that still runs with a lease or an
// item: use Shutdown for that.
//
// Close blocks until all is done and the client's goroutines have ended, at most
// about half the session timeout plus 3 s. It does not wait for Trace functions.
// While the client is disconnected, Close returns within milliseconds. The error is
// ErrSessionNotClosed then: the session is left to time out on the servers. A second
// Close waits for the first. Close of a nil or a zero Client returns nil.
func (c *Client) Close() error {
	if c == nil || c.closing == nil {
		return nil
	}
	c.containers.stop()
	c.stopGrants() // before endGrants looks for those that there are
	c.beginClose(ErrClosed)
	<-c.closed
	return c.result
}

// Format implements fmt.Formatter. It prints the servers, whatever the verb, and none of
// the credentials.
func (c *Client) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "zkrecipes.Client(%s)", strings.Join(c.servers, ","))
}

// run keeps a session open until Close.
func (c *Client) run() {
	defer close(c.closed)
	var told *session // the last one that was established
	defer func() {
		if told != nil {
			c.hooks.tellSession(told, SessionClosed, "", c.result)
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
			c.hooks.log(slog.LevelError, "cannot open a session", "err", err)
			pause = time.Second
			continue
		}
		c.publish(s)
		select {
		case <-s.Over():
			err := fmt.Errorf("%w: %w", ErrLost, s.Cause())
			s.endGrants(err)
			c.hooks.log(slog.LevelWarn, "session over", "session", s.name(), "cause", s.Cause())
			s.Close(false, ErrClosed)
			if s.IsEstablished() {
				c.hooks.tellSession(s, SessionExpired, "", err)
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
func (c *Client) shutdown(s *session) error {
	s.endGrants(ErrClosed)
	up, changed := s.Connected()
	if up {
		select {
		case <-c.tasks.Done():
		case <-changed:
		case <-time.After(s.Timeout() / 4):
			c.hooks.log(slog.LevelWarn, "no time to delete all znodes; the rest is left to the end of the session",
				"session", s.name(), "znodes", s.Load().Znodes)
		}
	}
	known := s.IsEstablished() && !s.IsOver()
	up, _ = s.Connected()
	left := s.Load().Znodes
	clean := s.Close(true, ErrClosed)
	<-c.tasks.Done()
	switch {
	case !known:
		return nil
	case clean:
		c.hooks.log(slog.LevelInfo, "session closed", "session", s.name())
		return nil
	}
	err := fail("close", strings.Join(c.servers, ","),
		zkconn.Errorf(ErrSessionNotClosed, "not connected: session %s is left to time out on the servers, with %d znodes", s.name(), left))
	if up { // else "connection lost" was logged
		c.hooks.log(slog.LevelWarn, "session not closed", "session", s.name(), "err", err)
	}
	return err
}

func (c *Client) publish(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current = s
	close(c.changed)
	c.changed = make(chan struct{})
}

// session returns the newest session, or nil before the first one, and a channel
// that is closed when there is a newer one.
func (c *Client) session() (*session, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current, c.changed
}

// live waits for a session that has been established and has not ended. The
// session may be disconnected for the moment.
func (c *Client) live(ctx context.Context) (*session, error) {
	for {
		if c.closing.Err() != nil {
			return nil, ErrClosed
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
func inSessions[A any](ctx context.Context, c *Client, f func(*session) (A, error)) (a A, err error) {
	for {
		s, err := c.live(ctx)
		if err == nil {
			a, err = f(s)
		}
		if !errors.Is(err, zkconn.ErrSessionOver) || errors.Is(err, ErrUncertain) {
			return a, err
		}
	}
}

// inSessions is like the function for an f without a result.
func (c *Client) inSessions(ctx context.Context, f func(*session) error) error {
	_, err := inSessions(ctx, c, func(s *session) (struct{}, error) { return struct{}{}, f(s) })
	return err
}

// contextErr returns why ctx has ended and, where there is no connection, why not.
func (c *Client) contextErr(ctx context.Context) error {
	if s, _ := c.session(); s != nil {
		return s.ContextErr(ctx)
	}
	return zkconn.ContextErr(ctx)
}

// abs puts the prefix before a path.
func (c *Client) abs(path string) string { return c.prefix + path }

// check refuses what no call can work with: a nil client, a nil context, an
// invalid path.
func (c *Client) check(ctx context.Context, path string) error {
	switch {
	case c == nil:
		return errors.New("nil client")
	case c.closing == nil:
		return errors.New("client was not made by Dial")
	case ctx == nil:
		return errNilContext
	}
	return c.checkPath(path)
}

// bind returns a context that ends with ctx and when the Client is closed.
func (c *Client) bind(ctx context.Context) (context.Context, context.CancelFunc) {
	return bindTo(c.closing, ctx)
}

// bindWait is like bind for a call that waits for a grant or for others, which a Shutdown
// ends, too.
func (c *Client) bindWait(ctx context.Context) (context.Context, context.CancelFunc) {
	return bindTo(c.waiting, ctx)
}

func bindTo(end, ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := func() { cancel(zkconn.Stopped(ErrClosed)) }
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
func (c *Client) resolve(path string) (string, error) {
	if path == "/" {
		if c.prefix == "" {
			return "/", nil
		}
		return c.prefix, nil
	}
	return c.abs(path), c.checkPath(path)
}

// checkPath also refuses paths too long for one request.
func (c *Client) checkPath(path string) error {
	const room = 1024 // for the rest of a request, and for the name of a place
	if n := len(c.prefix) + len(path); n > jute.MaxFrame-room {
		return zkconn.TooLarge(n + room)
	}
	return zkconn.CheckPath(path)
}

// expired returns why a member's session has ended: the Client may have ended it.
func (c *Client) expired() error {
	if c.closing.Err() != nil {
		return ErrClosed
	}
	return errExpired
}
