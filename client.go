package zkrecipes

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/tuning"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Options are the settings of a Client; nil and the zero value work.
type Options struct {
	// SessionTimeout is how long the servers keep a silent client's locks. It is
	// asked for: the answer, which counts, lies within the servers' bounds (2 to
	// 20 ticks unless configured otherwise; minSessionTimeout in zoo.cfg).
	// Default 10 s, at least 1 ms, at most 24 days.
	SessionTimeout time.Duration
	// Prefix is put before every path, as a chroot. It is created on first use.
	Prefix string
	// Identity is stored in every place in line and shown by Contenders.
	// Default host:pid.
	Identity string
	// ACL is given to the lines and parents that are created. Default: open to
	// the world, or all rights to Auth's digest ids once Auth is set. Entries of
	// the scheme "auth" (zk.AuthACL) are replaced by the ids of Auth.
	ACL []zk.ACL
	// Auth is presented on every connection, before anything else.
	Auth []Auth
	// TLS, if set, is used for every connection. Names are verified against
	// those given to Dial unless ServerName is set.
	TLS *tls.Config
	// Dialer makes connections, through a proxy for instance. addr is host:port,
	// unresolved. Default net.Dialer. One that wraps a socket should give it by a
	// method NetConn() net.Conn, as *tls.Conn does: where none is seen, each
	// request costs a goroutine more.
	Dialer func(ctx context.Context, network, addr string) (net.Conn, error)
	// Logger gets a line for each change of the session. Its handler is called as
	// Trace's functions are. nil: silent.
	Logger *slog.Logger
	// Trace is told what happens to leases and sessions.
	Trace *Trace
}

const (
	defaultSessionTimeout = 10 * time.Second
	defaultPort           = "2181"

	// maxNumber is the last sequence number that is granted. ZooKeeper's counter
	// of creates sticks at 2147483647, and creates in flight together wrap to
	// negative numbers there (PrepRequestProcessor, DataNode's cversion), so
	// there is some room before it.
	maxNumber = math.MaxInt32 - 1_000_000

	// maxKnownLines bounds what is remembered of lines.
	maxKnownLines = 10_000
)

// Client holds a ZooKeeper session, and opens the next one when it ends. It is
// safe for concurrent use; a process needs one for each ensemble.
type Client struct {
	servers  []string
	timeout  time.Duration
	prefix   string
	identity string
	acl      []zk.ACL
	auth     []Auth
	tls      *tls.Config
	dialer   func(ctx context.Context, network, addr string) (net.Conn, error)
	hooks    hooks
	last     int32 // see maxNumber
	segment  int64 // of its queues, in simulations; 0: the usual

	tasks   tasks
	closing context.Context // ends when Close begins, with ErrClosed
	shut    context.CancelCauseFunc
	closed  chan struct{} // closed when Close is done
	result  error         // of Close

	mu      sync.Mutex
	current *session
	changed chan struct{} // closed and replaced whenever current changes
	lines   map[string]lineState
	left    map[string]map[chan struct{}]struct{} // see Client.leave
}

// Dial connects to an ensemble and returns once the session is established.
// Servers are host or host:port (2181 if none is given); names are resolved at
// every attempt, and the servers are tried in turn until ctx ends: then the
// error says what went wrong last. A credential that a server refuses, and
// options that cannot work, are errors at once.
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
			case <-s.first:
				return c, nil
			case <-s.over:
				var refused *wire.AuthError
				if errors.As(s.cause, &refused) {
					c.Close()
					return nil, fail("dial", strings.Join(servers, ","), fmt.Errorf("%w: %w", refused, zk.ErrAuthFailed))
				}
			case <-ctx.Done():
				err := ended(ctx)
				if why := s.whyDown(); why != nil {
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
			return nil, fail("dial", strings.Join(servers, ","), ended(ctx))
		}
	}
}

func newClient(ctx context.Context, servers []string, opts *Options) (*Client, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	if opts == nil {
		opts = &Options{}
	}
	c := &Client{
		timeout:  opts.SessionTimeout,
		prefix:   opts.Prefix,
		identity: opts.Identity,
		auth:     slices.Clone(opts.Auth),
		tls:      opts.TLS,
		dialer:   opts.Dialer,
		last:     maxNumber,
		segment:  tuning.Segment(ctx),
		closed:   make(chan struct{}),
		changed:  make(chan struct{}),
		lines:    map[string]lineState{},
		left:     map[string]map[chan struct{}]struct{}{},
	}
	if len(servers) == 0 {
		return nil, errors.New("no servers")
	}
	for _, server := range servers {
		address, err := parseServer(server)
		if err != nil {
			return nil, err
		}
		c.servers = append(c.servers, address)
	}
	switch {
	case c.timeout == 0:
		c.timeout = defaultSessionTimeout
	case c.timeout < time.Millisecond || c.timeout > math.MaxInt32*time.Millisecond:
		return nil, fmt.Errorf("Options.SessionTimeout is %v", c.timeout)
	}
	if c.prefix != "" {
		if err := checkPath(c.prefix); err != nil {
			return nil, fmt.Errorf("Options.Prefix %q: %w", c.prefix, err)
		}
	}
	if c.identity == "" {
		host, _ := os.Hostname()
		c.identity = host + ":" + strconv.Itoa(os.Getpid())
	}
	for i, a := range c.auth {
		if a.Scheme == "" {
			return nil, fmt.Errorf("Options.Auth[%d] has no scheme", i)
		}
		c.auth[i].Data = slices.Clone(a.Data)
	}
	acl := opts.ACL
	if len(acl) == 0 {
		acl = zk.WorldACL(zk.PermAll)
		if slices.ContainsFunc(c.auth, func(a Auth) bool { return a.Scheme == "digest" }) {
			acl = nil
			for _, a := range c.auth {
				if a.Scheme == "digest" {
					acl = append(acl, zk.ACL{Perms: zk.PermAll, Scheme: a.Scheme, ID: digestID(a.Data)})
				}
			}
		} else if len(c.auth) > 0 {
			return nil, errors.New("Options.ACL is needed: the ids of Options.Auth are not known")
		}
	}
	var err error
	if c.acl, err = expandACL(acl, c.auth); err != nil {
		return nil, fmt.Errorf("Options.ACL: %w", err)
	}
	if c.dialer == nil {
		c.dialer = new(net.Dialer).DialContext
	}
	c.hooks.logger = opts.Logger
	if opts.Trace != nil {
		c.hooks.trace = *opts.Trace
	}
	c.closing, c.shut = context.WithCancelCause(context.Background())
	return c, nil
}

// Close ends every lease, deletes their znodes and ends the session. Leases'
// contexts end before the first deletion is sent; waiting calls, and later
// ones, get ErrClosed. It blocks until all is done and the client's goroutines
// have ended, at most about half the session timeout and 3 s; it does not wait
// for Trace functions. While disconnected it returns in milliseconds, and the
// error says that the servers will end the session when it times out. A second
// Close waits for the first.
func (c *Client) Close() error {
	c.shut(ErrClosed)
	<-c.closed
	return c.result
}

// run keeps a session open until Close.
func (c *Client) run() {
	defer close(c.closed)
	for pause := time.Duration(0); ; {
		select {
		case <-time.After(pause):
		case <-c.closing.Done():
			return
		}
		began := time.Now()
		s, err := openSession(c)
		if err != nil { // go-zookeeper refuses its arguments; none of ours can make it
			c.hooks.log(slog.LevelError, "cannot open a session", "err", err)
			pause = time.Second
			continue
		}
		c.publish(s)
		select {
		case <-s.over:
			err := fmt.Errorf("%w: %w", ErrLost, s.cause)
			s.endGrants(err)
			c.hooks.log(slog.LevelWarn, "session over", "session", s.wire.ID(), "cause", s.cause)
			s.close(false)
			if s.isKnown() {
				c.hooks.tell(c.hooks.trace.SessionDown, TraceEvent{Session: s.wire.ID(), Err: err})
			}
		case <-c.closing.Done():
			c.result = c.windUp(s)
			return
		}
		pause = 0
		if time.Since(began) < c.timeout/4 {
			pause = c.timeout / 10
		}
	}
}

// windUp ends the last session: contexts, places, calls, connection.
func (c *Client) windUp(s *session) error {
	s.endGrants(ErrClosed)
	up, flipped := s.connected()
	if up {
		select {
		case <-c.tasks.done():
		case <-flipped:
		case <-time.After(s.wire.Timeout() / 4):
		}
	}
	known := s.isKnown() && !s.isOver()
	clean := s.close(true)
	<-c.tasks.done()
	if known && !clean {
		return fail("close", strings.Join(c.servers, ","),
			fmt.Errorf("not connected: session 0x%x is left to time out on the servers", s.wire.ID()))
	}
	return nil
}

func (c *Client) publish(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current = s
	close(c.changed)
	c.changed = make(chan struct{})
}

// session returns the newest session, nil before there is one, and a channel
// that is closed when there is a newer one.
func (c *Client) session() (*session, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current, c.changed
}

// live waits for a session that has been established and has not ended. It may
// be disconnected for now.
func (c *Client) live(ctx context.Context) (*session, error) {
	for {
		if c.closing.Err() != nil {
			return nil, ErrClosed
		}
		if ctx.Err() != nil {
			return nil, ended(ctx)
		}
		s, changed := c.session()
		if s != nil && s.isKnown() && !s.isOver() {
			return s, nil
		}
		var first <-chan struct{}
		if s != nil && !s.isOver() {
			first = s.first
		}
		select {
		case <-first:
		case <-changed:
		case <-ctx.Done():
		case <-c.closing.Done():
		}
	}
}

// abs puts the prefix before a path.
func (c *Client) abs(path string) string { return c.prefix + path }

// check refuses what no call can work with: a nil client, a nil context, a bad
// path.
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

// bind returns a context that ends with ctx and with the Client.
func (c *Client) bind(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.closing, func() { cancel(ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}
