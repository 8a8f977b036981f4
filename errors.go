package zkrecipes

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
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
	if e := (*zkconn.ContextError)(nil); errors.As(err, &e) {
		err = withCause{err, e.Cause}
	}
	return &Error{Op: op, Path: path, Err: err}
}

var errNilContext = errors.New("nil context")

// isContextErr reports whether err says that ctx has ended, or that the Client was
// closed, which ends what Client.bind returns.
func isContextErr(ctx context.Context, err error) bool {
	return zkconn.IsContextErr(ctx, err) || ctx.Err() != nil && err == ErrClosed
}

// withCause is an error in which the cause of a context is found, too.
type withCause struct {
	error
	cause error
}

func (e withCause) Unwrap() []error { return []error{e.error, e.cause} }
