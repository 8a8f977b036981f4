package zkrecipes

import (
	"context"
	"crypto"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
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

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/semaphore"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/tuning"
	"github.com/zkrecipes/zkrecipes/internal/wire"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Options are the settings of a Client. nil and the zero value work.
type Options struct {
	// SessionTimeout is the requested session timeout: how long the servers keep
	// the locks of a silent client. The servers may adjust it to their own bounds,
	// which are 2 to 20 ticks unless configured otherwise (minSessionTimeout in
	// zoo.cfg). Default 10 s, at least 1 ms, at most 24 days.
	SessionTimeout time.Duration
	// Prefix is put before every path, as a chroot. It is created on first use, as a
	// container: the Client or the servers delete it, and the parents of paths, once they are
	// empty.
	// Create a persistent znode beforehand if it must stay.
	Prefix string
	// Identity is the data of every place in a line, and is returned by Contenders.
	// Default host:pid.
	Identity string
	// ACL says who may use what the client creates. Default: the world or, if Auth is set,
	// Auth's digest ids. Entries of the scheme "auth" (zk.AuthACL) are replaced by the ids
	// of Auth. On the znodes of recipes, the ids that ACL names get these rights without
	// the right to write, which only this library has. Its identity is derived from Auth
	// or, without Auth, is a constant. If ACL lets ids create that are not those of Auth,
	// all that it names may write, and a waiter costs one request more. An OpCreate with
	// a nil acl gets ACL as it is.
	ACL []zk.ACL
	// Auth is presented on every connection, before anything else.
	Auth []Auth
	// DigestAlgorithm is the algorithm by which the servers turn digest credentials
	// into the ids that ACLs name: their setting
	// zookeeper.DigestAuthenticationProvider.digestAlg. Default crypto.SHA1, as
	// theirs. The algorithms of SHA-2 and SHA-3 work, too. If it is wrong, calls
	// that would create znodes for Auth's digest ids return an error that names this
	// option. Without Auth everything works, but waiters are not notified directly.
	DigestAlgorithm crypto.Hash
	// MaxBuffer is the servers' jute.maxbuffer, in bytes. Set it if theirs is not the default,
	// which is 1,048,575. It bounds what one session may hold: see ErrSessionFull.
	MaxBuffer int
	// TLS, if set, is used for every connection. Server names are verified against
	// those given to Dial unless ServerName is set.
	TLS *tls.Config
	// Dialer makes the connections, for example through a proxy. addr is host:port,
	// with the host name not yet resolved. It should return when ctx ends: the next
	// attempt waits until it has. Default net.Dialer. If the connection wraps a socket,
	// give it a method NetConn() net.Conn that returns the socket, as *tls.Conn has:
	// without a socket, each request costs one more goroutine.
	Dialer func(ctx context.Context, network, addr string) (net.Conn, error)
	// Logger gets a record for each change of the session, for servers that cannot be
	// reached, and for items and places that need somebody's attention: docs/operations.md
	// lists all records. Its handler is called in the same way as the functions of Trace.
	// nil: silent.
	Logger *slog.Logger
	// Trace has functions that are called when acquisitions begin and end, when what they
	// got ends, and when a session changes. nil: nothing is called.
	Trace *Trace
}

// newClient returns a Client that does not connect yet. It reports invalid servers and
// options.
func newClient(ctx context.Context, servers []string, opts *Options) (*Client, error) {
	if ctx == nil {
		return nil, errs.ErrNilContext
	}
	if opts == nil {
		opts = &Options{}
	}
	cfg := session.Config{
		Timeout:   opts.SessionTimeout,
		Prefix:    opts.Prefix,
		Identity:  opts.Identity,
		Digest:    opts.DigestAlgorithm,
		MaxBuffer: opts.MaxBuffer,
		TLS:       opts.TLS,
		Dialer:    opts.Dialer,
		Idle:      tuning.IdleLine(ctx, line.IdleLine),
		Fail:      fail,
	}
	var err error
	if cfg.Servers, err = parseServers(servers); err != nil {
		return nil, err
	}
	if err := opts.check(); err != nil {
		return nil, err
	}
	auth := copyAuth(opts.Auth)
	cfg.Auth = func() []wire.Credential { return auth }
	if cfg.ACL, err = clientACL(opts.ACL, auth, cfg.Digest); err != nil {
		return nil, err
	}
	writers, owned := writersOf(cfg.ACL, auth, cfg.Digest)
	cfg.Writers, cfg.Owned = func() []wire.Credential { return writers }, owned
	if cfg.Created = cfg.ACL; owned {
		cfg.Created = zkconn.OwnedACL(cfg.ACL, cfg.Digest, writers)
	}
	setDefaults(&cfg)
	t := newTracing(opts.Logger, opts.Trace)
	cfg.Log, cfg.Told = t.Log, t.tellSession
	set := line.Settings{
		LastNumber: tuning.LastNumber(ctx, line.MaxNumber),
		LongLine:   tuning.LongLine(ctx, line.LongLine),
		UsedWith:   semaphore.SlotsOfLine,
	}
	c := &Client{line.New(cfg, set)}
	session.Attached(c.client, func() *tracing { return t })
	session.Attached(c.client, func() *segmentSize { return &segmentSize{tuning.Segment(ctx)} })
	return c, nil
}

// copyAuth returns a copy of auth.
func copyAuth(auth []Auth) []wire.Credential {
	creds := make([]wire.Credential, len(auth))
	for i, a := range auth {
		creds[i] = wire.Credential{Scheme: a.Scheme, Auth: slices.Clone(a.Data)}
	}
	return creds
}

// check reports the first option that is invalid by itself.
func (o *Options) check() error {
	if t := o.SessionTimeout; t != 0 && (t < time.Millisecond || t > math.MaxInt32*time.Millisecond) {
		return fmt.Errorf("Options.SessionTimeout is %v", t)
	}
	if o.Prefix != "" {
		if err := zkconn.CheckPath(o.Prefix); err != nil {
			return fmt.Errorf("Options.Prefix %q: %w", o.Prefix, err)
		}
	}
	if o.MaxBuffer < 0 {
		return fmt.Errorf("Options.MaxBuffer is %d", o.MaxBuffer)
	}
	for i, a := range o.Auth {
		if a.Scheme == "" {
			return fmt.Errorf("Options.Auth[%d] has no scheme", i)
		}
	}
	if o.DigestAlgorithm != 0 && !o.DigestAlgorithm.Available() {
		return fmt.Errorf("Options.DigestAlgorithm: %v is not available", o.DigestAlgorithm)
	}
	return nil
}

// setDefaults replaces the settings that the user left empty.
func setDefaults(c *session.Config) {
	if c.Timeout == 0 {
		c.Timeout = defaultSessionTimeout
	}
	if c.Identity == "" {
		host, _ := os.Hostname()
		c.Identity = host + ":" + strconv.Itoa(os.Getpid())
	}
	if c.Dialer == nil {
		c.Dialer = new(net.Dialer).DialContext
	}
}

// ParseServers splits a connect string, as ZooKeeper's own tools and Curator take it, into the
// servers for Dial and the prefix for Options.Prefix: "zk1:2181,zk2:2181/app" are two servers
// and the prefix "/app". Each server is host or host:port, with the port 2181 by default, and
// an IPv6 address with a port is in brackets. Spaces around a server are ignored. Without a
// path, or with "/" alone, the prefix is empty.
//
// The error says what is wrong: a server has no host or an invalid port, there is no server,
// or the path is not an absolute path of a znode (then it is ErrInvalidPath). Nothing is
// sent, and names are not resolved.
func ParseServers(connect string) (servers []string, prefix string, err error) {
	list, path, found := strings.Cut(connect, "/")
	if found && path != "" {
		prefix = "/" + path
		if err := zkconn.CheckPath(prefix); err != nil {
			return nil, "", fail("parse servers", connect, fmt.Errorf("prefix %q: %w", prefix, err))
		}
	}
	if strings.TrimSpace(list) != "" {
		for server := range strings.SplitSeq(list, ",") {
			servers = append(servers, strings.TrimSpace(server))
		}
	}
	servers, err = parseServers(servers)
	if err != nil {
		return nil, "", fail("parse servers", connect, err)
	}
	return servers, prefix, nil
}

// parseServers returns host:port of each server.
func parseServers(servers []string) ([]string, error) {
	if len(servers) == 0 {
		return nil, errors.New("no servers")
	}
	var addresses []string
	for _, server := range servers {
		address, err := parseServer(server)
		if err != nil {
			return nil, err
		}
		addresses = append(addresses, address)
	}
	return addresses, nil
}

// parseServer returns host:port of a host or an address, with or without a port. An
// IPv6 address with a port is in brackets.
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

// Auth is a credential. It is presented to the server on every connection and is
// never logged. For the scheme "digest", Data is "user:password".
type Auth struct {
	Scheme string
	Data   []byte
}

// String returns the scheme only, as do all other ways to print an Auth.
func (a Auth) String() string { return a.Scheme + ":***" }

// Format implements fmt.Formatter: no verb prints Data.
func (a Auth) Format(f fmt.State, verb rune) {
	if verb == 'v' && f.Flag('#') {
		io.WriteString(f, a.GoString())
	} else {
		io.WriteString(f, a.String())
	}
}

// GoString returns the scheme only.
func (a Auth) GoString() string { return "zkrecipes.Auth{" + a.String() + "}" }

// MarshalText returns the scheme only.
func (a Auth) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// clientACL returns the ACL of what a Client creates: acl or, if that is empty, the
// default for these credentials.
func clientACL(acl []zk.ACL, auth []wire.Credential, algorithm crypto.Hash) ([]zk.ACL, error) {
	if len(acl) == 0 {
		var err error
		if acl, err = defaultACL(auth, algorithm); err != nil {
			return nil, err
		}
	}
	acl, err := expandACL(acl, auth, algorithm)
	if err != nil {
		return nil, fmt.Errorf("Options.ACL: %w", err)
	}
	return acl, nil
}

// writersOf returns the library's identities of a Client with that acl: one for each
// credential that acl names, because all clients of a recipe write the same znodes, and
// everybody's if acl lets everybody in, or if there are no credentials. If acl also lets in
// ids whose credentials are not known here, owned is false: then all ids in acl may write
// what the Client creates.
func writersOf(acl []zk.ACL, auth []wire.Credential, algorithm crypto.Hash) (ids []wire.Credential, owned bool) {
	everybody := []wire.Credential{zkconn.Identity(wire.Credential{})}
	if len(auth) == 0 {
		return everybody, true
	}
	others := false
	for _, a := range acl {
		if a.Perms&zk.PermCreate == 0 { // takes no part
			continue
		}
		if a.Scheme == "world" {
			return everybody, true
		}
		i := slices.IndexFunc(auth, func(c wire.Credential) bool {
			return a.Scheme == "digest" && c.Scheme == "digest" && a.ID == zkconn.DigestID(algorithm, c.Auth)
		})
		if i < 0 {
			others = true
			continue
		}
		ids = append(ids, zkconn.Identity(auth[i]))
	}
	return ids, len(ids) > 0 && !others
}

// defaultACL gives all rights to the digest ids of auth, or to the world where there
// are no credentials.
func defaultACL(auth []wire.Credential, algorithm crypto.Hash) ([]zk.ACL, error) {
	if len(auth) == 0 {
		return zk.WorldACL(zk.PermAll), nil
	}
	var acl []zk.ACL
	for _, a := range auth {
		if a.Scheme == "digest" {
			acl = append(acl, zk.ACL{Perms: zk.PermAll, Scheme: a.Scheme, ID: zkconn.DigestID(algorithm, a.Auth)})
		}
	}
	if len(acl) == 0 {
		return nil, errors.New("Options.ACL is needed: the ids of Options.Auth are not known")
	}
	return acl, nil
}

// expandACL replaces entries of the scheme "auth" with the ids of auth. The server
// would replace them with every identity of the connection, among them the library's
// own, by which nobody but the library could use the znode.
func expandACL(acl []zk.ACL, auth []wire.Credential, algorithm crypto.Hash) ([]zk.ACL, error) {
	var out []zk.ACL
	for _, a := range acl {
		if a.Scheme != "auth" {
			out = append(out, a)
			continue
		}
		if len(auth) == 0 {
			return nil, errors.New(`ACL of scheme "auth" without Options.Auth`)
		}
		for _, c := range auth {
			if c.Scheme != "digest" {
				return nil, fmt.Errorf(`ACL of scheme "auth": the id of a credential of scheme %q is not known; list it explicitly`, c.Scheme)
			}
			out = append(out, zk.ACL{Perms: a.Perms, Scheme: c.Scheme, ID: zkconn.DigestID(algorithm, c.Auth)})
		}
	}
	return out, nil
}
