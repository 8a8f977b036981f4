package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"
)

// What a caller may want to tell apart, with errors.Is. Errors of the
// ZooKeeper client (zk.ErrNoAuth and its like) and a context's cause can be
// found in the same way.
var (
	// ErrLocked: TryLock found somebody else in the line.
	ErrLocked = errors.New("locked by another holder")
	// ErrLost: the grant has ended without being released, or can no longer be
	// trusted: its session ended, the servers did not answer for as long as the
	// session is known to live, or its znode was deleted by somebody else.
	ErrLost = errors.New("lease lost")
	// ErrReleased: the lease was released before.
	ErrReleased = errors.New("lease released")
	// ErrEvicted: somebody deleted the znode with which a call was waiting.
	ErrEvicted = errors.New("evicted from the line")
	// ErrDeadlock: Lock was called with a context of the holder, and would have
	// waited for itself.
	ErrDeadlock = errors.New("the caller holds this lock already (Lease.Reentrant lets it re-enter)")
	// ErrUpgrade: a writer's lock was asked for with a context of a reader, and
	// would have waited for the reader itself.
	ErrUpgrade = errors.New("the caller holds this lock as a reader, and readers cannot become writers")
	// ErrUncertain: the reply to a write was lost, and whether it was applied
	// cannot be found out. Do not repeat it blindly.
	ErrUncertain = errors.New("outcome unknown")
	// ErrClosed: the Client was closed.
	ErrClosed = errors.New("client closed")
	// ErrExhausted: the line's counter of creates is at its end, where ZooKeeper
	// gives the same number again and again. The line must be deleted.
	ErrExhausted = errors.New("sequence numbers of this line are used up")
)

// Error says which operation failed, on what path, and why.
type Error struct {
	Op   string // "lock", "commit", ...
	Path string // as the caller gave it, without Options.Prefix; may be empty
	Err  error
}

func (e *Error) Error() string {
	path := e.Path
	if path == "" || strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' || r == '"' || r == 0x7f }) {
		path = strconv.Quote(path)
	}
	return "zkrecipes: " + e.Op + " " + path + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// fail wraps err once; nil stays nil.
func fail(op, path string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := err.(*Error); ok { // not errors.As: one in the chain may be a cause, of another operation
		return err
	}
	if e := (*endedError)(nil); errors.As(err, &e) {
		err = told{err, e.cause}
	}
	return &Error{Op: op, Path: path, Err: err}
}

var errNilContext = errors.New("nil context")

// errSessionOver is how a call ends whose session does. It never reaches the
// user alone: a wait goes on in the next session, a lease is lost.
var errSessionOver = fmt.Errorf("session over: %w", zk.ErrSessionExpired)

// unsettled reports that err leaves open whether a request was applied, or
// that it was not but may be tried again, in the same session. Why a context has
// ended does not count: its cause may be a lease of another Client, whose session
// has expired.
func unsettled(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	for _, e := range []error{
		zk.ErrConnectionClosed, zk.ErrClosing, zk.ErrNoServer,
		zk.ErrSessionExpired, zk.ErrSessionMoved, // the next handshake tells
		zk.ErrNothing, // internal/wire: timed out on the server, or throttled
	} {
		if errors.Is(err, e) {
			return !errors.Is(err, errSessionOver)
		}
	}
	return false
}

// left reports that err is what ended returned.
func left(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, ctx.Err()) || err == ErrClosed)
}

// ended returns why ctx has ended: its error and, where it tells more, its
// cause.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	switch cause {
	case err:
		return err
	case ErrClosed:
		return ErrClosed // bind's; the caller's own context has not ended
	}
	return &endedError{err, cause}
}

// endedError keeps the cause of a context from being taken for what became of a
// request: it may be another lease's loss, or wrap an error of the servers. It is
// found once fail has told of it.
type endedError struct{ err, cause error }

func (e *endedError) Error() string { return e.err.Error() + ": " + e.cause.Error() }
func (e *endedError) Unwrap() error { return e.err }

// told is an error in which the cause of a context is found, too.
type told struct {
	error
	cause error
}

func (t told) Unwrap() []error { return []error{t.error, t.cause} }
