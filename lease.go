package zkrecipes

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Token is a fencing token: the zxid of the transaction that created the
// holder's znode. It is the same for all servers of an ensemble and grows with
// every exclusive grant of a path, also when the path was deleted in between.
// Whatever the lock protects can refuse a token lower than one it has seen,
// and with it a holder that slept through the end of its session. An ensemble
// that is rebuilt from nothing begins anew.
type Token int64

// Lease is one grant of a lock to one holder, or one re-entry into it. It is
// safe for concurrent use.
//
// Err, Context and ValidUntil tell what this process knows, and are best
// effort: a process that was suspended learns late that its session has ended,
// and a server that was itself cut off from the ensemble answers as if all
// were well. Commit and Token are the proof: a Commit succeeds only while the
// lock is held, and a store that checks the Token refuses who has lost it.
type Lease struct {
	g *grant

	mu      sync.Mutex
	err     error // why this handle has ended
	cancels map[*context.CancelCauseFunc]struct{}
	done    chan struct{} // non-nil once Release was called, closed when it returns
	result  error         // of Release
}

// holderKey is the key of a holder among a context's values.
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

// Context returns a context that ends with parent, and with the lease: when it
// is released (its cause is ErrReleased then), lost (ErrLost) or the Client is
// closed (ErrClosed). To Lock on the same path with it is ErrDeadlock. parent
// must not be nil.
func (l *Lease) Context(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(context.WithValue(parent, l.key(), holder{lease: l}))
	l.g.check()
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

// Reentrant returns a context with which Lock and TryLock on the same path
// re-enter: they return at once, with a Lease of their own, and the lock is
// free when the last one is released. So whatever runs with that context acts
// as the holder. It ends with ctx only. ctx must not be nil.
func (l *Lease) Reentrant(ctx context.Context) context.Context {
	return context.WithValue(ctx, l.key(), holder{lease: l, reentrant: true})
}

// Err returns nil while the lease is held, an error that is ErrReleased,
// ErrLost or ErrClosed from then on. It sends nothing.
func (l *Lease) Err() error {
	err := l.g.check() // may be ahead of the handle's own end
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		err = l.err
	}
	return l.fail("hold", err)
}

// ValidUntil returns the moment until which the session is known to be alive
// if nothing more is heard from the servers, by this process's monotonic
// clock. It moves on with every answer, and heartbeats are answered every
// third of the session timeout. Once it passes, the lease is lost. It is zero
// for a lease that has ended.
func (l *Lease) ValidUntil() time.Time {
	if l.Err() != nil {
		return time.Time{}
	}
	return l.g.s.ValidUntil()
}

// Token returns the fencing token of the grant; re-entries share it.
func (l *Lease) Token() Token { return l.g.token }

// Check returns the guard that Commit puts before its operations, for a Multi
// on another connection: that fails with zk.ErrNoNode once the lease has ended.
// Its path is absolute, Options.Prefix included.
func (l *Lease) Check() *zk.CheckVersionRequest {
	return &zk.CheckVersionRequest{Path: l.g.place().path, Version: -1}
}

// Get reads a znode on the session that holds the lock, so it sees at least
// what was committed before the grant. Once the lease has ended it fails with
// that error. It blocks until a server answers, ctx ends or the lease's session
// does, and costs one request.
func (l *Lease) Get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	return leaseRead(ctx, l, "get", path, l.g.s.Get)
}

// Children lists a znode's children; it is like Get otherwise.
func (l *Lease) Children(ctx context.Context, path string) ([]string, *zk.Stat, error) {
	return leaseRead(ctx, l, "list", path, l.g.s.Children)
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
		err = l.g.check()
	}
	if err != nil {
		return none, nil, fail(op, path, err)
	}
	return a, stat, nil
}

// Release gives the lock up; with re-entries, once the last of them is
// released. While connected it blocks until the znode is deleted (one request)
// or the connection is lost; while disconnected it returns at once, and the
// znode goes in the background, or with its session. It takes no context on
// purpose: a release that is cancelled would leave the lock held.
//
// nil: this lease is over. An error that is ErrLost (or ErrClosed): it had
// ended before, also where only the servers knew. Any other: the servers refuse
// the deletion (the line's ACL was changed), which is tried again until the
// session ends. While a Downgrade is under way it returns at once.
// A second Release, also a concurrent one, does nothing and returns the same.
func (l *Lease) Release() error {
	l.mu.Lock()
	if l.done != nil {
		l.mu.Unlock()
		<-l.done
		return l.result
	}
	l.done = make(chan struct{})
	l.mu.Unlock()
	l.result = l.fail("release", l.g.exit(l))
	close(l.done)
	return l.result
}
