package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/keep"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/queue"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/tuning"
)

// Client holds a ZooKeeper session, and opens the next one when it ends. It is
// safe for concurrent use. A process needs one Client for each ensemble.
type Client struct{ client *session.Client } // nil: the zero Client

func (c *Client) isZero() bool { return c == nil || c.client == nil }

// core returns what recipes use. That of the zero Client refuses all calls.
func (c *Client) core() *session.Client {
	switch {
	case c == nil:
		return nil
	case c.client == nil:
		return &session.Client{}
	}
	return c.client
}

// Dial connects to an ensemble and returns once the session is established. Each
// server is host or host:port; the default port is 2181. ParseServers splits a connect
// string. Dial tries the servers in turn until ctx ends, and then the error says what
// went wrong last. If no server answers, it tries for ever, so give it a deadline:
//
//	dialing, cancel := context.WithTimeout(ctx, 30*time.Second)
//	defer cancel()
//	client, err := zkrecipes.Dial(dialing, servers, nil)
//
// Unless Options.Dialer is set, each address of each name is a server of its own. They are
// tried in random order. One that does not answer costs a sixth of the session timeout, and at least a
// second, or a quarter of a timeout below 4 s (in Dial at least half a second). The names are looked up
// in the background, and again whenever all servers were tried. While a name cannot be looked up, its last
// addresses are used. Dial waits for the first name that has an address, and at most 50 ms for the others.
//
// ctx bounds Dial only, not the Client. The Logger gets a warning, with the reason,
// for each server that cannot be reached: at the first attempt, and then every 10 s at
// most. If a server refuses a credential or the principal of SASL, or requires SASL and there
// is none, or an option is invalid, Dial returns an error at once.
func Dial(ctx context.Context, servers []string, opts *Options) (*Client, error) {
	c, err := newClient(ctx, servers, opts)
	if err == nil {
		err = c.client.Dial(ctx)
	}
	if err != nil {
		return nil, fail("dial", strings.Join(servers, ","), err)
	}
	return c, nil
}

// newClient returns a Client that does not connect yet. It reports invalid servers and options.
func newClient(ctx context.Context, servers []string, opts *Options) (*Client, error) {
	if ctx == nil {
		return nil, errs.ErrNilContext
	}
	if opts == nil {
		opts = &Options{}
	}
	constants := tuning.Of(ctx, tuning.Constants{
		LastNumber: line.MaxNumber, LongLine: line.LongLine, IdleLine: line.IdleLine,
		Lookup: lookup, Dial: new(net.Dialer).DialContext,
	})
	cfg, err := opts.config(constants, servers)
	if err != nil {
		return nil, err
	}
	t := newTracing(opts.Logger, opts.Trace)
	cfg.Log, cfg.OnState = t.Log, t.tellSession
	c := line.NewClient(cfg, line.Settings{LastNumber: constants.LastNumber, LongLine: constants.LongLine})
	session.Attached(c, func() *tracing { return t })
	queue.SetSegmentSize(c, constants.Segment)
	return &Client{c}, nil
}

// Close ends every lease, and then the session, with which the servers delete all its znodes at
// once. The leases' contexts end before that request is sent. Waiting calls and later ones return
// ErrClosed. Close does not wait for the code that still runs with a lease or an item: use Shutdown
// for that. LockDelay treats a lease that Close ends as not released.
//
// Close costs one request, however much the Client holds, and one for each member of a Barrier.
// Each waiter that is next lists its line, with one request.
//
// Close blocks until all is done and the client's goroutines have ended, at most
// about half the session timeout plus 3 s. It does not wait for Trace functions.
// While the client is disconnected, Close returns within milliseconds. The error is
// ErrSessionNotClosed then: the session is left to time out on the servers. A second
// Close waits for the first. Close of a nil or a zero Client returns nil.
func (c *Client) Close() error {
	if c.isZero() {
		return nil
	}
	return c.client.Close()
}

// Format implements fmt.Formatter. It prints the servers, whatever the verb, and none of
// the credentials.
func (c *Client) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "zkrecipes.Client(%s)", c.servers())
}

// servers returns the servers' addresses, "" for the zero Client.
func (c *Client) servers() string {
	if c.isZero() {
		return ""
	}
	return strings.Join(c.client.Servers, ",")
}

// check refuses what no call can work with: a nil or zero Client, a nil context.
func (c *Client) check(ctx context.Context) error {
	switch {
	case c == nil:
		return errors.New("nil client")
	case c.client == nil:
		return errors.New("client was not made by Dial")
	case ctx == nil:
		return errs.ErrNilContext
	}
	return nil
}

// Status is what a Client knows of its connection. It says nothing about leases: those
// have an Err and a ValidUntil of their own.
type Status struct {
	// Connected says whether requests pass. A silent loss of the connection is noticed
	// within half the session timeout.
	Connected bool
	// Server is the server of the connection: host:port as given to Dial or, if the
	// Client has looked up the name, "zk.example (10.0.0.2:2181)". It is empty while
	// disconnected.
	Server string
	// Session is ZooKeeper's session id. It stays the same while the session outlives
	// its connections. It is 0 between two sessions and after Close.
	Session int64
	// Timeout is the session timeout that the server has granted. It is 0 if Session is.
	Timeout time.Duration
	// Since is when the Client was last connected or disconnected, by the local clock. The
	// end of a session while disconnected does not change it.
	Since time.Time
	// Znodes is how many ephemeral znodes the session has, with those that are being created. Each
	// place in a line, slot, leader and member counts as one, each taken item as two. What a lost
	// reply may have created counts, too, until the servers tell that it does not exist. When the
	// session is nearly full, the Client has the servers list its znodes, once a minute.
	Znodes int
	// ZnodeBytes is how large the paths of these znodes are, as they count for
	// MaxZnodeBytes. A call that would exceed that returns ErrSessionFull.
	ZnodeBytes, MaxZnodeBytes int
}

// Status returns what the Client knows now. It sends nothing and does not block. By the
// time it returns, that may have changed. The zero Status is that of a Client that was not
// made by Dial.
//
// Do not use it to decide whether a lock is still held: a short disconnection ends
// nothing, and the Client may not know yet that its session has ended.
func (c *Client) Status() Status {
	if c.isZero() {
		return Status{}
	}
	s, _ := c.client.Session()
	if s == nil {
		return Status{}
	}
	connected, server, since := s.State()
	status := Status{Connected: connected, Server: server, Since: since}
	if s.IsEstablished() && !s.IsOver() {
		status.Session, status.Timeout = s.ID(), s.Timeout()
		load := s.Load()
		status.Znodes, status.ZnodeBytes, status.MaxZnodeBytes = load.Znodes, load.Bytes, load.Bound
	}
	return status
}

// Ping asks the ensemble for a sign of life, by a request "sync". It blocks until it is
// answered, through disconnections and into the next session, or until ctx ends. Give ctx a
// deadline. nil means that it was answered.
//
// What that proves: the server is not cut off from its leader. It has asked the leader, and
// has carried out all that the leader had committed when it answered. So the session had not
// ended by then. A heartbeat proves less: a server that is cut off answers it, until it
// notices.
//
// What it does not prove: that the leader still has a majority. A leader that has no write
// under way answers a sync at once, without asking the others (processSync in ZooKeeper's
// class Leader; ZOOKEEPER-1675 asks for more). A leader that is cut off does so until it
// notices, syncLimit ticks later. Only a write proves a majority. Lease.Commit without
// operations is one that changes nothing.
//
// The error of ctx is returned if ctx ended first. If there was no connection, it says why.
// ErrClosed is returned if the Client was closed. It costs one request, and no
// commit.
func (c *Client) Ping(ctx context.Context) error {
	err := c.check(ctx)
	if err == nil {
		err = c.ping(ctx)
	}
	return fail("ping", c.servers(), err)
}

func (c *Client) ping(ctx context.Context) error {
	ctx, done := c.client.Bind(ctx)
	defer done()
	return c.client.InSessions(ctx, func(s *session.Session) error { return s.Sync(ctx, "/") })
}

// Shutdown closes the Client once its work is done. It blocks until then, or until ctx
// ends, and then closes the Client as Close does. Give ctx a deadline.
//
// From the call on, nothing is granted any more. These calls return ErrClosed, those under way and
// later ones: Lock, LockAll, Acquire, Campaign and Take in all their forms, also those that only
// try, Join, Enter, and Wait of a Barrier or a Gate. Serve takes no more items and lets its
// handlers finish, as if its context had ended: QueueOptions.DrainTimeout counts from then. The
// context that Lead gives its function ends, and Lead resigns once the function has returned. The
// process leaves locks that KeepFor keeps and that nobody holds.
//
// Shutdown then waits until
//   - every Lease, SlotLease, Term, Visit and Item is over: released, acked, given back or
//     lost. Until then, their contexts do not end, and their methods work, including
//     re-entries by Lease.Reentrant.
//   - every call of Serve, Lead and Visit.Leave has returned.
//
// The deadline of ctx bounds that for the whole process. A DrainTimeout, which should be
// shorter, bounds the handlers of one Serve.
//
// Until all that is over, Put, PutAll, Redrive, Remove, Bury, Purge, Semaphore.Resize, Shut, Open,
// Client.Commit and the writes of a Counter work, so that finished work can be handed on. From then on
// they return ErrClosed, and Shutdown waits for the transactions under way: a Purge or a Redrive
// that takes several may return ErrClosed in the middle, with the number of items that were
// removed or moved. Calls that only read, including Observe and Watch, work until the Client is
// closed.
//
//   - nil, or the error of Close, is returned if all was over before ctx ended, or if Close
//     is called meanwhile or was called before: then Shutdown waits for nothing else.
//   - The error of ctx, joined with that of Close if it fails, is returned if ctx ended
//     first. What was not over has ended then, as by Close.
//
// Shutdown may be called again, also while another call waits. The Client is closed as soon
// as ctx ends for one of them. In a handler of Serve, in the function of Do or Lead, or by a
// holder that has yet to release, Shutdown would wait for itself, until ctx ends. A Trace
// function may call it, but not AcquireStart. The functions that follow are called after it
// has returned.
//
// Shutdown costs nothing but the deletion of the kept places and of those that wait, and what
// Close costs.
func (c *Client) Shutdown(ctx context.Context) error {
	if err := c.check(ctx); err != nil {
		return fail("shut down", c.servers(), err)
	}
	cut := fail("shut down", c.servers(), c.finishWork(ctx))
	closed := c.Close()
	if cut == nil {
		return closed
	}
	return errors.Join(cut, closed)
}

// finishWork ends what waits, and waits for what is at work. It returns an error if ctx ends
// before the work does.
func (c *Client) finishWork(ctx context.Context) error {
	over := c.client.StopGrants()
	keep.LeaveIdle(c.client)
	if err := c.client.AwaitWork(ctx, &c.client.Held, over, "leases, items and calls of Serve, Lead or Leave"); err != nil {
		return err
	}
	return c.client.AwaitWork(ctx, &c.client.Writes, c.client.Writes.Stop(), "puts and other writes")
}

// Get reads a znode's data. It blocks, through disconnections and into the next session,
// until a server answers, ctx ends (its error is returned) or the Client is closed
// (ErrClosed). zk.ErrNoNode is returned if there is no znode. path is under Options.Prefix,
// and "/" is the prefix itself.
//
// The server may lag behind the others. Call Ping first to see at least what was committed
// before the call. A read that must belong to a lock's holder is Lease.Get.
//
// Get costs one request.
func (c *Client) Get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	return clientRead(ctx, c, "get", path, (*session.Session).Get)
}

// Children is like Get but lists a znode's children, by their names alone, in lexical order.
func (c *Client) Children(ctx context.Context, path string) ([]string, *zk.Stat, error) {
	names, stat, err := clientRead(ctx, c, "list", path, (*session.Session).Children)
	return ownNames(names), stat, err
}

// Exists is like Get but returns a znode's Stat alone.
func (c *Client) Exists(ctx context.Context, path string) (*zk.Stat, error) {
	_, stat, err := clientRead(ctx, c, "look at", path, func(s *session.Session, ctx context.Context, path string) (none struct{}, _ *zk.Stat, _ error) {
		stat, err := s.Exists(ctx, path)
		return none, stat, err
	})
	return stat, err
}

// ACL is like Get but returns a znode's ACL. To a client that may not change it, servers return "x"
// in place of the hashes of digests, or zk.ErrNoAuth.
func (c *Client) ACL(ctx context.Context, path string) ([]zk.ACL, error) {
	acl, _, err := clientRead(ctx, c, "read the ACL of", path, (*session.Session).GetACL)
	return acl, err
}

func clientRead[A any](ctx context.Context, c *Client, op, path string, read func(*session.Session, context.Context, string) (A, *zk.Stat, error)) (a A, stat *zk.Stat, err error) {
	err = c.inSessions(ctx, op, path, func(ctx context.Context, s *session.Session, abs string) error {
		a, stat, err = read(s, ctx, abs)
		return err
	})
	return a, stat, err
}

// inSessions calls f with the session and the absolute path, and again with the next session
// for as long as sessions end before f does.
func (c *Client) inSessions(ctx context.Context, op, path string, f func(ctx context.Context, s *session.Session, abs string) error) error {
	abs, err := "", c.check(ctx)
	if err == nil {
		abs, err = c.client.Resolve(path)
	}
	if err != nil {
		return fail(op, path, err)
	}
	ctx, done := c.client.Bind(ctx)
	defer done()
	return fail(op, path, c.client.InSessions(ctx, func(s *session.Session) error { return f(ctx, s, abs) }))
}

// ownNames returns names that share no memory with others, so that a caller that keeps one
// keeps no more than that, in lexical order.
func ownNames(names []string) []string {
	own := make([]string, len(names))
	for i, name := range names {
		own[i] = strings.Clone(name)
	}
	slices.Sort(own)
	return own
}
