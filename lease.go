package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/hold"
)

// Token is a fencing token. It grows with every exclusive grant of a lock or election by its
// path, of a slot of a semaphore, and of an item of a queue, even if the path was deleted in
// between. Compare tokens of the same thing only: per path, slot or ItemID. A store that the
// lock protects can refuse a token lower than one it has seen, and thereby a holder that slept
// through the end of its session. When an ensemble is rebuilt from nothing, tokens begin anew.
//
// A Token is the zxid of the transaction that created the holder's znode (of a Term, <path>/leader;
// after a Downgrade, the writer's znode), times 256, plus the number of the grant. That number is
// 0, or from 1 to 255 if a kept lock is taken again (see KeepFor), or if items of a queue are taken
// together. So token >> 8 is the znode's czxid, which is the same on all servers of an ensemble.
// Tokens stay positive for the first 8,388,608 leaders of an ensemble: the upper 32 bits of a zxid
// are the leader's epoch.
type Token int64

// newToken returns the token of the first grant of the place with that czxid.
func newToken(czxid int64) Token { return Token(hold.TokenOf(czxid, 0)) }

// Lease is one grant of a lock to one holder, or one re-entry into it. It is safe for concurrent
// use.
//
// Err, Context and ValidUntil report what this process knows. They are best effort: a
// process that was suspended learns late that its session has ended, and a server
// that is itself cut off from the ensemble answers as if all were well. Commit and
// Token are the proof: a Commit succeeds only while the lock is held, and a store that
// checks the Token refuses a holder that has lost the lock.
type Lease struct {
	handle *hold.Handle // nil: a zero value
}

func (l *Lease) fail(op string, err error) error {
	if l.isZero() {
		return fail(op, "", err)
	}
	return l.handle.Fail(op, err)
}

// errZeroValue is the error of a zero Lease, and of what has no Lease: a zero Item, Term,
// SlotLease, Visit, Membership or Leases.
var errZeroValue = errors.New("nothing is held: this is a zero value, which this library has not returned")

func (l *Lease) isZero() bool { return l == nil || l.handle == nil }

// endedContext returns a context that has ended for that cause.
func endedContext(parent context.Context, cause error) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	cancel(cause)
	return ctx
}

// Reentrant returns a context with which the calls that lock the same path re-enter: they return at
// once, with a Lease of their own. The lock is free when the last of these leases is released. So
// whatever runs with that context acts as the holder. The context ends with ctx only, not with the
// lease. ctx must not be nil. Of a zero Lease, Reentrant returns ctx.
func (l *Lease) Reentrant(ctx context.Context) context.Context {
	if l.isZero() {
		return ctx
	}
	return l.handle.ReenterWith(ctx)
}

// Err returns nil while the lease is held, and from then on an error that is
// ErrReleased, ErrLost or ErrClosed. It sends nothing. After a machine was suspended it
// may stay nil for up to the session timeout: the monotonic clock stood still.
//
// ErrLost comes with its cause, which is zk.ErrSessionExpired if the session has expired. The
// client may see that the znode was deleted before it knows the cause, an operator or the end
// of the session. Then the lease and its contexts end at once, and the same error has the
// cause as soon as the client knows it: after a round trip, or when it is connected again.
func (l *Lease) Err() error {
	if l.isZero() {
		return l.fail("hold", errZeroValue)
	}
	return l.fail("hold", l.handle.Failure())
}

// ValidUntil returns the time until which the session is known to be alive if the
// servers send nothing more, by this process's monotonic clock. It advances with every
// reply, and heartbeats are answered every third of the session timeout. Once it
// passes, the lease is lost. After a lost connection, replies count again once all
// watches are set and requests pass. It is the zero time for a lease that has ended.
func (l *Lease) ValidUntil() time.Time {
	if l.Err() != nil {
		return time.Time{}
	}
	return l.handle.Grant.Session.ValidUntil()
}

// Path returns the path of the lock as the caller gave it, without Options.Prefix. For a
// SlotLease and a Term it is that of the Semaphore or Election. It is empty for a zero Lease.
func (l *Lease) Path() string {
	if l.isZero() {
		return ""
	}
	return l.handle.Grant.At.Path
}

// Shared reports whether others may hold the lock at the same time: the lease is a reader's of
// an RWLock, or a writer's that was downgraded. Contender.Reader says the same of a place in
// the line. It is false for a zero Lease.
func (l *Lease) Shared() bool { return !l.isZero() && !l.handle.Grant.Thing().Exclusive() }

// Token returns the fencing token of the grant. Re-entries share it. It is 0 for a zero
// Lease. The Token of a lease that is Shared tells readers apart, but is no fencing token:
// readers hold together, so a store that has seen one reader's would refuse another that came
// earlier and still holds.
func (l *Lease) Token() Token {
	if l.isZero() {
		return 0
	}
	return Token(l.handle.Grant.Token)
}

// Check returns the guard that Commit puts before its operations. Use it in a Multi on
// another connection, which then fails with zk.ErrNoNode once the lease has ended. With
// KeepFor it fails once the process has left the lock, which may be later: only the Token
// tells the process's holders apart. The guard's path is absolute and includes
// Options.Prefix. Of a zero Lease, the guard has no path, and the servers refuse it.
func (l *Lease) Check() *zk.CheckVersionRequest {
	if l.isZero() {
		return &zk.CheckVersionRequest{Version: -1}
	}
	return &zk.CheckVersionRequest{Path: l.handle.Grant.Path(), Version: -1}
}

// checks returns all guards that Commit puts before its operations. Those of a zero Lease are not
// none, or a Multi would have no guard.
func (l *Lease) checks() (checks []*zk.CheckVersionRequest) {
	if l.isZero() {
		return []*zk.CheckVersionRequest{l.Check()}
	}
	for _, guard := range l.handle.Grant.Guard() {
		checks = append(checks, guard.(*zk.CheckVersionRequest))
	}
	return checks
}

// Get reads a znode on the session that holds the lock, so it sees at least what was
// committed before the grant. It blocks until a server answers, ctx ends or the
// lease's session ends. If the lease has ended by the time of the answer, it returns
// ErrReleased, ErrLost or ErrClosed, and no data. path is under Options.Prefix, like a
// lock's. It costs one request.
func (l *Lease) Get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	if l.isZero() {
		return nil, nil, fail("get", path, errZeroValue)
	}
	return leaseRead(ctx, l, "get", path, l.handle.Grant.Session.Get)
}

// Children is like Get but lists a znode's children, by their names alone, in lexical order. path is
// under Options.Prefix.
func (l *Lease) Children(ctx context.Context, path string) ([]string, *zk.Stat, error) {
	if l.isZero() {
		return nil, nil, fail("list", path, errZeroValue)
	}
	names, stat, err := leaseRead(ctx, l, "list", path, l.handle.Grant.Session.Children)
	return ownNames(names), stat, err
}

func leaseRead[A any](ctx context.Context, l *Lease, op, path string, read func(context.Context, string) (A, *zk.Stat, error)) (none A, _ *zk.Stat, _ error) {
	if ctx == nil {
		return none, nil, fail(op, path, errs.ErrNilContext)
	}
	abs, err := l.handle.Grant.At.Client.Resolve(path)
	if err != nil {
		return none, nil, fail(op, path, err)
	}
	var a A
	var stat *zk.Stat
	ended := l.handle.Failure()
	if ended == nil {
		a, stat, err = read(ctx, abs)
		if !errs.IsContextErr(ctx, err) {
			ended = l.handle.Failure() // what was read may have changed by now
		}
	}
	if ended != nil {
		err = fmt.Errorf("under %s: %w", l.Path(), ended)
	}
	if err != nil {
		return none, nil, fail(op, path, err)
	}
	return a, stat, nil
}

// Release gives the lock up. With re-entries, the lock is given up by the last
// Release.
//
// While connected, Release blocks until a server answers or the connection is lost. While
// disconnected it returns at once. If the znode is not deleted by then, as when the server is
// overloaded, it is deleted in the background or with its session. Release also returns at once
// while a Downgrade is under way. It takes no context on purpose: a canceled release would leave
// the lock held.
//
// nil means that this lease is over. If the connection was lost before a server answered, or the
// server was overloaded, nil does not mean that the lock was held until now. ErrLost or ErrClosed
// is returned if the lease had ended before, even if only the servers knew and one of them answers
// Release (with KeepFor not always). Any other error means that the servers refuse to delete the
// znode, because the line's ACL was changed. The client then tries again until the session ends. A
// second Release, even a concurrent one, does nothing and returns the same.
//
// It costs one request and one commit. With KeepFor it costs none if the lock is kept or given to
// the next caller, except for the first time: then Release waits for a reply, too.
func (l *Lease) Release() error {
	if l.isZero() {
		return l.fail("release", errZeroValue)
	}
	return l.handle.Release()
}

// Context returns a context that ends with parent or with the lease. Its cause is ErrReleased if
// the lease was released, ErrLost if it was lost, and ErrClosed if the Client was closed. Lock on
// the same path with this context returns ErrDeadlock. The lease remembers the context until one of
// the two ends. A parent that cannot end costs nothing. parent must not be nil.
func (l *Lease) Context(parent context.Context) context.Context {
	if l.isZero() {
		return endedContext(parent, l.Err())
	}
	return l.handle.Context(parent)
}

// Commit carries out the operations in one transaction, and only if the lock is still
// held when the servers apply it. The results are those of ops, in order. With no ops,
// Commit asks the servers whether the lock is held. It blocks until a server answers or
// ctx ends. With a lease that is Shared, other readers may hold the lock, and commit, at the
// same time.
//
//   - ErrLost, ErrReleased or ErrClosed is returned if the lease has ended. Nothing was done.
//   - An operation's own error, which names the operation, is returned if the servers
//     refuse it. Nothing was done.
//   - ErrTooLarge is returned for a request above the servers' limit (Options.MaxBuffer). Nothing
//     was done, unless the error is ErrUncertain, too.
//   - ErrSessionFull is returned if the session has no room for an ephemeral znode. Nothing was
//     done.
//   - ErrUncertain is returned if the reply was lost, or if ctx ended first. The
//     operations may have been carried out.
//
// Commit costs one request and one commit.
func (l *Lease) Commit(ctx context.Context, ops ...Op) ([]OpResult, error) {
	rs, err := l.commit(ctx, ops)
	if err != nil {
		return nil, l.fail("commit under", err)
	}
	return rs, nil
}

func (l *Lease) commit(ctx context.Context, given []Op) ([]OpResult, error) {
	switch {
	case l.isZero():
		return nil, errZeroValue
	case ctx == nil:
		return nil, errs.ErrNilContext
	}
	c := l.handle.Grant.At.Client
	ops, err := mapOps(c, given, false)
	if err != nil {
		return nil, err
	}
	rs, err := l.handle.Commit(ctx, ops)
	if err != nil {
		return nil, err
	}
	return opResults(c, rs), nil
}
