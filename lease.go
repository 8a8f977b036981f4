package zkrecipes

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Token is a fencing token: the zxid of the transaction that created the holder's
// znode. It is the same on all servers of an ensemble. It grows with every exclusive
// grant of a path, even if the path was deleted in between. A store that the lock
// protects can refuse a token lower than one it has seen, and thereby a holder that
// slept through the end of its session. When an ensemble is rebuilt from nothing,
// tokens begin anew.
type Token int64

// Lease is one grant of a lock to one holder, or one re-entry into it. It is safe for
// concurrent use.
//
// Err, Context and ValidUntil report what this process knows. They are best effort: a
// process that was suspended learns late that its session has ended, and a server
// that is itself cut off from the ensemble answers as if all were well. Commit and
// Token are the proof: a Commit succeeds only while the lock is held, and a store that
// checks the Token refuses a holder that has lost the lock.
type Lease struct {
	g *grant

	mu      sync.Mutex
	err     error // why this handle has ended
	cancels map[*context.CancelCauseFunc]struct{}
	done    chan struct{} // non-nil once Release was called, closed when it returns
	result  error         // of Release
}

// holderKey is the key of a holder in a context.
type holderKey struct {
	c            *Client
	path, recipe string
}

type holder struct {
	lease     *Lease
	reentrant bool
}

func (l *Lease) key() holderKey {
	return l.g.line.key()
}

func (l *Lease) fail(op string, err error) error { return fail(op, l.g.line.path, err) }

// Context returns a context that ends with parent or with the lease. Its cause is
// ErrReleased if the lease was released, ErrLost if it was lost, and ErrClosed if the
// Client was closed. Lock on the same path with this context returns ErrDeadlock.
// parent must not be nil.
func (l *Lease) Context(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(context.WithValue(parent, l.key(), holder{lease: l}))
	l.g.checkHeld()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		cancel(l.fail("hold", l.err))
		return ctx
	}
	l.cancels[&cancel] = struct{}{}
	context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.cancels, &cancel)
	})
	return ctx
}

// end ends the handle and its contexts, once.
func (l *Lease) end(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	l.err = cause
	for cancel := range l.cancels {
		(*cancel)(l.fail("hold", cause))
	}
}

// Reentrant returns a context with which Lock and TryLock on the same path re-enter:
// they return at once, with a Lease of their own. The lock is free when the last of
// these leases is released. So whatever runs with that context acts as the holder. The
// context ends with ctx only, not with the lease. ctx must not be nil.
func (l *Lease) Reentrant(ctx context.Context) context.Context {
	return context.WithValue(ctx, l.key(), holder{lease: l, reentrant: true})
}

// Err returns nil while the lease is held, and from then on an error that is
// ErrReleased, ErrLost or ErrClosed. It sends nothing.
func (l *Lease) Err() error {
	err := l.g.checkHeld() // the grant ends before its handles do
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		err = l.err
	}
	return l.fail("hold", err)
}

// ValidUntil returns the time until which the session is known to be alive if the
// servers send nothing more, by this process's monotonic clock. It moves on with every
// reply, and heartbeats are answered every third of the session timeout. Once it
// passes, the lease is lost. It is the zero time for a lease that has ended.
func (l *Lease) ValidUntil() time.Time {
	if l.Err() != nil {
		return time.Time{}
	}
	return l.g.s.ValidUntil()
}

// Token returns the fencing token of the grant. Re-entries share it.
func (l *Lease) Token() Token { return l.g.token }

// Check returns the guard that Commit puts before its operations. Use it in a Multi on
// another connection, which then fails with zk.ErrNoNode once the lease has ended. The
// guard's path is absolute and includes Options.Prefix.
func (l *Lease) Check() *zk.CheckVersionRequest {
	return &zk.CheckVersionRequest{Path: l.g.place().path, Version: -1}
}

// Get reads a znode on the session that holds the lock, so it sees at least what was
// committed before the grant. It blocks until a server answers, ctx ends or the
// lease's session ends. Once the lease has ended, it returns ErrReleased, ErrLost or
// ErrClosed. It costs one request.
func (l *Lease) Get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	return leaseRead(ctx, l, "get", path, l.g.s.Get)
}

// Children is like Get but lists a znode's children.
func (l *Lease) Children(ctx context.Context, path string) ([]string, *zk.Stat, error) {
	names, stat, err := leaseRead(ctx, l, "list", path, l.g.s.Children)
	for i := range names {
		names[i] = strings.Clone(names[i]) // else a caller that keeps one would keep all
	}
	return names, stat, err
}

func leaseRead[A any](ctx context.Context, l *Lease, op, path string, read func(context.Context, string) (A, *zk.Stat, error)) (none A, _ *zk.Stat, _ error) {
	if ctx == nil {
		return none, nil, fail(op, path, errNilContext)
	}
	abs, err := l.g.line.c.resolve(path)
	if err != nil {
		return none, nil, fail(op, path, err)
	}
	if err := l.Err(); err != nil {
		return none, nil, err
	}
	a, stat, err := read(ctx, abs)
	if errors.Is(err, zkconn.ErrSessionOver) {
		err = l.g.checkHeld()
	}
	if err != nil {
		return none, nil, fail(op, path, err)
	}
	return a, stat, nil
}

// Release gives the lock up. With re-entries, the lock is given up by the last
// Release.
//
// While connected, Release blocks until the znode is deleted or the connection is
// lost. While disconnected it returns at once, and the znode is deleted in the
// background or with its session. It also returns at once while a Downgrade is under
// way. It takes no context on purpose: a canceled release would leave the lock held.
//
// nil means that this lease is over. ErrLost or ErrClosed is returned if it had ended
// before, even if only the servers knew. Any other error says that the servers refuse
// to delete the znode, because the line's ACL was changed. The client then tries again
// until the session ends. A second Release, even a concurrent one, does nothing and
// returns the same.
//
// It costs one request.
func (l *Lease) Release() error {
	l.mu.Lock()
	if l.done != nil {
		l.mu.Unlock()
		<-l.done
		return l.result
	}
	l.done = make(chan struct{})
	l.mu.Unlock()
	l.result = l.fail("release", l.g.release(l))
	close(l.done)
	return l.result
}
