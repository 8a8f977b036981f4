package zktest

import (
	"time"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// Option changes how a Server is set up.
type Option func(*options)

type options struct {
	tick            time.Duration
	minTimeout      time.Duration
	maxTimeout      time.Duration
	listen          string
	inMemory        bool
	skipACL         bool
	withoutDigest   bool
	superDigest     string
	containerCheck  time.Duration
	existsNeedsRead bool
	ttl             bool
	neverUsed       time.Duration
	maxFrame        int
	plan            *Plan
	onChange        func(Change)
}

func newOptions(opts []Option) options {
	o := options{
		tick:           50 * time.Millisecond,
		listen:         "127.0.0.1:0",
		containerCheck: time.Minute,
		maxFrame:       jute.MaxFrame,
		plan:           NewPlan(),
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

// TickTime sets the granularity of session expiry: a session ends at the first
// multiple of d, counted from the server's start, after its timeout has run
// out. It is also the unit of the default bounds of timeouts. The default is
// 50 ms, a real server's is 2 s. d is at least a millisecond.
func TickTime(d time.Duration) Option {
	return func(o *options) { o.tick = max(d.Truncate(time.Millisecond), time.Millisecond) }
}

// SessionTimeouts sets the bounds between which a client gets the session
// timeout that it asks for. The default is from 2 ticks, as on a real server,
// to 20 ticks or 40 s, whichever is more: short ticks need not mean short
// sessions here.
func SessionTimeouts(shortest, longest time.Duration) Option {
	return func(o *options) { o.minTimeout, o.maxTimeout = shortest, longest }
}

// InMemory makes a server without a socket: Dial and DialContext are the only
// ways to reach it, over net.Pipe. Inside a bubble of testing/synctest all its
// goroutines are durably blocked when nothing happens, so that time moves on.
func InMemory() Option { return func(o *options) { o.inMemory = true } }

// Listen sets the address to listen on, host:port. The default is a free port
// of 127.0.0.1.
func Listen(addr string) Option { return func(o *options) { o.listen = addr } }

// SkipACL makes the server check no ACLs (zookeeper.skipACL).
func SkipACL() Option { return func(o *options) { o.skipACL = true } }

// WithoutDigest switches digest authentication off: a client that presents
// such a credential is answered AuthFailed and disconnected, and ACLs of scheme
// digest are invalid (zookeeper.DigestAuthenticationProvider.enabled=false).
func WithoutDigest() Option { return func(o *options) { o.withoutDigest = true } }

// SuperDigest sets the digest, user:base64(sha1(user:password)), whose owner no
// ACL keeps from anything (zookeeper.DigestAuthenticationProvider.superDigest).
func SuperDigest(id string) Option { return func(o *options) { o.superDigest = id } }

// ContainerCheckInterval sets how often containers are reaped that have had
// children and have none any more (znode.container.checkIntervalMs). The
// default is a minute.
func ContainerCheckInterval(d time.Duration) Option {
	return func(o *options) { o.containerCheck = max(d, time.Millisecond) }
}

// NeverUsedInterval makes the server reap containers too that had no child for
// d after they were created (znode.container.maxNeverUsedIntervalMs). By
// default these stay.
func NeverUsedInterval(d time.Duration) Option { return func(o *options) { o.neverUsed = d } }

// ExistsNeedsRead makes exists answer NoAuth to those who may not read the
// znode, as servers do since 3.8.4 and 3.9.2 (ZOOKEEPER-2590). By default
// everyone may know that a znode exists, and its Stat.
func ExistsNeedsRead() Option { return func(o *options) { o.existsNeedsRead = true } }

// ExtendedTypes allows znodes with a time to live, which are reaped along with
// containers (zookeeper.extendedTypesEnabled). By default to create one is
// Unimplemented.
func ExtendedTypes() Option { return func(o *options) { o.ttl = true } }

// MaxFrame sets the largest request, in bytes, that the server reads; it closes
// the connection that sends a larger one (jute.maxbuffer). The default is
// 1048575.
func MaxFrame(bytes int) Option { return func(o *options) { o.maxFrame = bytes } }

// WithPlan makes the server follow a plan of faults. The default is an empty
// plan, to which Server.Plan gives access.
func WithPlan(p *Plan) Option { return func(o *options) { o.plan = p } }
