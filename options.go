package zkrecipes

import (
	"cmp"
	"context"
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

	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/tuning"
	"github.com/zkrecipes/zkrecipes/internal/wire"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

const defaultSessionTimeout = 10 * time.Second

// Options are the settings of a Client. nil and the zero value work.
type Options struct {
	// SessionTimeout is the requested session timeout: how long the servers keep
	// the locks of a silent client. The servers may adjust it to their own bounds,
	// which are 2 to 20 ticks unless configured otherwise (minSessionTimeout in
	// zoo.cfg). Default 10 s, at least 1 ms, at most 24 days.
	SessionTimeout time.Duration
	// Prefix is put before every path, as a chroot. The first use of a recipe creates it, as a
	// container: the Client or the servers delete it, and the parents of paths, once they are
	// empty. Create a persistent znode beforehand if it must stay, or for Client.Commit alone.
	Prefix string
	// Identity is the data of every place in a line, and is returned by Contenders.
	// Default host:pid.
	Identity string
	// ACL is the list of every znode that the client creates, and says who may use it.
	// Default: the world or, if SASL or Auth is set, the principal of SASL and Auth's digest ids.
	// Entries of the scheme "auth" (zk.AuthACL) are replaced by these ids. Whoever may create must
	// be allowed to write, too. In a line that somebody else has made with another list, places
	// bear that.
	//
	// The digest ids are those of SHA-1. Servers with another
	// zookeeper.DigestAuthenticationProvider.digestAlg compute others, and refuse whoever has
	// created such a znode (zk.ErrNoAuth): there, set ACL to the ids that they compute.
	ACL []zk.ACL
	// SASL authenticates the Client on every connection, before anything else is sent. SASLDigest
	// returns one for a password, and the module zkkrb5 one for Kerberos. The Client then uses no
	// server without SASL. nil: no SASL.
	SASL *SASL
	// Auth is presented on every connection, after SASL and before any request.
	Auth []Auth
	// MaxBuffer is the servers' jute.maxbuffer, in bytes. Set it if theirs is not the default,
	// which is 1,048,575, to the smallest of them. It bounds each request (ErrTooLarge), which
	// may have 4,096 bytes in any case, and what one session may hold (ErrSessionFull). At most
	// 2,147,483,647.
	//
	// If it is larger than theirs, the servers close the connection at a request above their
	// limit. After three such connections in a row, the request is given up, and none as large
	// is sent for a minute: the call returns ErrTooLarge, which is also ErrUncertain if a
	// server may have applied it.
	MaxBuffer int
	// TLS, if set, is used for every connection. Server names are verified against
	// those given to Dial unless ServerName is set.
	TLS *tls.Config
	// Dialer makes the connections, for example through a proxy. addr is host:port as
	// given to Dial, with the name not yet looked up, so that the proxy can look it up. If
	// the name has several addresses, Dialer chooses one. It should return when ctx ends:
	// the next attempt waits until it has. If the connection wraps a socket, give it a
	// method NetConn() net.Conn that returns the socket, as *tls.Conn has: without a
	// socket, each request costs one more goroutine.
	//
	// By default, the Client looks names up with net.DefaultResolver, and connects with
	// net.Dialer. See Dial.
	Dialer func(ctx context.Context, network, addr string) (net.Conn, error)
	// Logger gets a record for each change of the session, for servers that cannot be
	// reached, and for items and places that need somebody's attention. Debug records say what a call
	// waits for, and what has become of that. docs/logs.md lists all records. The handler
	// is called in the same way as the functions of Trace, except that calls of the library
	// ask its Enabled about debug records at once, so that must not block. nil: silent.
	Logger *slog.Logger
	// Trace has functions that are called when acquisitions begin and end, when what they
	// got ends, and when a session changes. nil: nothing is called.
	Trace *Trace
}

// config returns what the session needs. It reports invalid servers and options.
func (o *Options) config(constants tuning.Constants, servers []string) (cfg session.Config, err error) {
	cfg = session.Config{
		Timeout:   cmp.Or(o.SessionTimeout, defaultSessionTimeout),
		Prefix:    o.Prefix,
		Identity:  o.Identity,
		MaxBuffer: o.MaxBuffer,
		TLS:       o.TLS,
		Dialer:    o.Dialer,
		Idle:      constants.IdleLine,
		Fail:      fail,
	}
	if cfg.Servers, err = session.ParseServers(servers); err != nil {
		return cfg, err
	}
	if err := o.check(); err != nil {
		return cfg, err
	}
	auth := make([]wire.Credential, len(o.Auth))
	for i, a := range o.Auth {
		auth[i] = wire.Credential{Scheme: a.Scheme, Auth: slices.Clone(a.Data)}
	}
	cfg.Auth, cfg.SASL = func() []wire.Credential { return auth }, o.SASL.mechanism()
	if err := cfg.SetACL(o.ACL); err != nil {
		return cfg, err
	}
	if cfg.Identity == "" {
		host, _ := os.Hostname()
		cfg.Identity = host + ":" + strconv.Itoa(os.Getpid())
	}
	if cfg.Dialer == nil && slices.Contains(cfg.Servers, tuning.InMemory) {
		return cfg, errors.New("Options.Dialer is not set: a zktest server in memory needs its DialContext")
	}
	if cfg.Dialer == nil {
		cfg.Lookup, cfg.Dialer = constants.Lookup, constants.Dial
	}
	return cfg, nil
}

// lookup is zkconn.LookupFunc with the resolver that net.Dialer uses.
func lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// check reports the first option that is invalid by itself.
func (o *Options) check() error {
	if t := o.SessionTimeout; t != 0 && (t < time.Millisecond || t > math.MaxInt32*time.Millisecond) {
		return fmt.Errorf("Options.SessionTimeout must be from %v to %v: %v", time.Millisecond, math.MaxInt32*time.Millisecond, t)
	}
	if o.Prefix != "" {
		if err := session.CheckPath(o.Prefix); err != nil {
			return fmt.Errorf("Options.Prefix %q: %w", o.Prefix, err)
		}
	}
	if o.MaxBuffer < 0 || o.MaxBuffer > math.MaxInt32 { // it is an int of Java's
		return fmt.Errorf("Options.MaxBuffer must be from 0 to %d: %d", math.MaxInt32, o.MaxBuffer)
	}
	if m := o.SASL; m != nil && (m.Mechanism == "" || m.Exchange == nil) {
		return errors.New("Options.SASL has no Mechanism or no Exchange")
	}
	for i, a := range o.Auth {
		if a.Scheme == "" {
			return fmt.Errorf("Options.Auth[%d] has no scheme", i)
		}
	}
	return nil
}

// ParseServers splits a connect string, as ZooKeeper's own tools and Curator take it, into the
// servers for Dial and the prefix for Options.Prefix: "zk1:2181,zk2:2181/app" are two servers
// and the prefix "/app". Each server is host or host:port, with the port 2181 by default, and
// an IPv6 address with a port is in brackets. Spaces around a server are ignored. Without a
// path, or with "/" alone, the prefix is empty. The path stands once, after the last server,
// and has no comma.
//
// The error says what is wrong: a server has no host or an invalid port, there is no server,
// or the path is not an absolute path of a znode or has a comma (then it is ErrInvalidPath).
// Nothing is sent, and names are not resolved.
func ParseServers(connect string) (servers []string, prefix string, err error) {
	list, path, found := strings.Cut(connect, "/")
	if found && path != "" {
		prefix = "/" + path
		err := session.CheckPath(prefix)
		if strings.Contains(prefix, ",") { // "zk1/app,zk2/app" would have another prefix than "zk1,zk2/app"
			err = zkconn.Errorf(zkconn.ErrInvalidPath, "path contains a comma: it stands once, after the last server")
		}
		if err != nil {
			return nil, "", fail("parse servers", connect, fmt.Errorf("prefix %q: %w", prefix, err))
		}
	}
	if strings.TrimSpace(list) != "" {
		for server := range strings.SplitSeq(list, ",") {
			servers = append(servers, strings.TrimSpace(server))
		}
	}
	servers, err = session.ParseServers(servers)
	if err != nil {
		return nil, "", fail("parse servers", connect, err)
	}
	return servers, prefix, nil
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
