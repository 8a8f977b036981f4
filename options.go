package zkrecipes

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/tuning"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
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

func newClient(ctx context.Context, servers []string, opts *Options) (*Client, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	if opts == nil {
		opts = &Options{}
	}
	c := &Client{
		timeout:    opts.SessionTimeout,
		prefix:     opts.Prefix,
		identity:   opts.Identity,
		auth:       slices.Clone(opts.Auth),
		tls:        opts.TLS,
		dialer:     opts.Dialer,
		lastNumber: maxNumber,
		segment:    tuning.Segment(ctx),
		closed:     make(chan struct{}),
		changed:    make(chan struct{}),
		lines:      map[string]lineState{},
		abandoned:  map[string]map[chan struct{}]struct{}{},
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
		if err := zkconn.CheckPath(c.prefix); err != nil {
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
					acl = append(acl, zk.ACL{Perms: zk.PermAll, Scheme: a.Scheme, ID: zkconn.DigestID(a.Data)})
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
	c.closing, c.beginClose = context.WithCancelCause(context.Background())
	return c, nil
}

// parseServer returns host:port of what Dial was given: a host, an address, or
// either with a port. An IPv6 address with a port is in brackets.
func parseServer(server string) (string, error) {
	bad := fmt.Errorf("server %q is not host or host:port", server)
	if addr, err := netip.ParseAddr(strings.Trim(server, "[]")); err == nil {
		return net.JoinHostPort(addr.String(), defaultPort), nil
	}
	if !strings.Contains(server, ":") {
		server += ":" + defaultPort
	}
	host, port, err := net.SplitHostPort(server)
	if err != nil || host == "" || strings.ContainsAny(host, "/ ,") {
		return "", bad
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", bad
	}
	return net.JoinHostPort(host, port), nil
}
