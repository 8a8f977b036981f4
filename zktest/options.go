package zktest

import (
	"crypto"
	"maps"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// Option configures a Server.
type Option func(*options)

type options struct {
	tick           time.Duration
	minTimeout     time.Duration
	maxTimeout     time.Duration
	listen         string
	inMemory       bool
	skipACL        bool
	withoutDigest  bool
	superDigest    string
	digest         crypto.Hash
	containerCheck time.Duration
	version        Version
	ttl            bool
	neverUsed      time.Duration
	maxFrame       int
	plan           *Plan
	users          map[string]string // passwords for SASL; nil: no SASL
	requireSASL    bool
	onChange       func(Change)
}

func newOptions(opts []Option) options {
	o := options{
		tick:           50 * time.Millisecond,
		listen:         "127.0.0.1:0",
		containerCheck: time.Minute,
		maxFrame:       jute.MaxFrame,
		plan:           NewPlan(),
		digest:         crypto.SHA1,
		version:        ZooKeeper39,
	}
	for _, opt := range opts {
		opt(&o)
	}
	if o.minTimeout == 0 {
		o.minTimeout = 2 * o.tick
	}
	if o.maxTimeout == 0 {
		o.maxTimeout = max(20*o.tick, 40*time.Second)
	}
	return o
}

// TickTime sets the granularity of session expiry. A session expires at the
// first multiple of d, counted from the server's start, after its timeout has
// passed. The default bounds of session timeouts are multiples of d too. The
// default is 50 ms, where a real server has 2 s. The server truncates d to whole
// milliseconds, and uses at least one.
func TickTime(d time.Duration) Option {
	return func(o *options) { o.tick = max(d.Truncate(time.Millisecond), time.Millisecond) }
}

// SessionTimeouts sets the bounds of session timeouts. The server adjusts the
// timeout that a client requests to these bounds. The default minimum is 2
// ticks, as on a real server. The default maximum is 20 ticks or 40 s, whichever
// is longer, so that short ticks do not force short sessions.
func SessionTimeouts(shortest, longest time.Duration) Option {
	return func(o *options) { o.minTimeout, o.maxTimeout = shortest, longest }
}

// InMemory makes the server run without a socket. Clients can only connect with
// Dial or DialContext, over net.Pipe. While the server is idle, all its
// goroutines are durably blocked, so that time advances in a bubble of
// testing/synctest.
func InMemory() Option { return func(o *options) { o.inMemory = true } }

// Listen sets the address to listen on, as host:port. The default is a free port
// of 127.0.0.1.
func Listen(addr string) Option { return func(o *options) { o.listen = addr } }

// SkipACL turns off the checks of ACLs (zookeeper.skipACL).
func SkipACL() Option { return func(o *options) { o.skipACL = true } }

// WithoutDigest turns off digest authentication. A client that presents a digest
// credential gets AuthFailed and is disconnected, and ACLs of scheme digest are
// invalid (zookeeper.DigestAuthenticationProvider.enabled=false).
func WithoutDigest() Option { return func(o *options) { o.withoutDigest = true } }

// DigestAlgorithm sets the algorithm by which the server turns digest credentials
// into the ids that ACLs name, crypto.SHA1 by default
// (zookeeper.DigestAuthenticationProvider.digestAlg). The algorithm must be linked
// into the program; SHA-1, SHA-256, SHA-384 and SHA-512 always are.
func DigestAlgorithm(algorithm crypto.Hash) Option {
	return func(o *options) { o.digest = algorithm }
}

// SuperDigest sets the digest of the superuser, whom no ACL restricts, as
// user:base64(sha1(user:password))
// (zookeeper.DigestAuthenticationProvider.superDigest).
func SuperDigest(id string) Option { return func(o *options) { o.superDigest = id } }

// ContainerCheckInterval sets how often the server deletes containers that have
// had children and have none any more (znode.container.checkIntervalMs). The
// default is a minute.
func ContainerCheckInterval(d time.Duration) Option {
	return func(o *options) { o.containerCheck = max(d, time.Millisecond) }
}

// NeverUsedInterval makes the server also delete containers that have had no
// child for d after they were created (znode.container.maxNeverUsedIntervalMs).
// By default it keeps them.
func NeverUsedInterval(d time.Duration) Option { return func(o *options) { o.neverUsed = d } }

// ExtendedTypes allows znodes with a time to live
// (zookeeper.extendedTypesEnabled). The server deletes them when it checks the
// containers. By default, creating one fails with Unimplemented.
func ExtendedTypes() Option { return func(o *options) { o.ttl = true } }

// MaxFrame sets the size in bytes of the largest request that the server accepts
// (jute.maxbuffer). The server closes a connection that sends a larger one. The
// default is 1048575.
func MaxFrame(bytes int) Option { return func(o *options) { o.maxFrame = bytes } }

// SASL makes the server authenticate clients by DIGEST-MD5, with these passwords, by user, and
// accept ACLs of the scheme sasl (DigestLoginModule and SASLAuthenticationProvider). A client
// with a wrong password gets AuthFailed and is disconnected. Clients without SASL are served.
// By default, the server answers each token with none, as a real one without SASL does.
//
// An exchange is two requests "sasl": Fault.Op is "sasl", and Fault.Skip chooses the step.
func SASL(users map[string]string) Option { return func(o *options) { o.users = maps.Clone(users) } }

// RequireSASL makes the server close the connection of a client that sends a request before SASL
// has authenticated it (sessionRequireClientSASLAuth, or enforce.auth.schemes=sasl). Use it
// with SASL.
func RequireSASL() Option { return func(o *options) { o.requireSASL = true } }

// WithPlan makes the server follow a plan of faults. The default is an empty
// plan, to which faults can be added with Server.Plan.
func WithPlan(p *Plan) Option { return func(o *options) { o.plan = p } }
