package zkrecipes

import (
	"context"
	"errors"

	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// The recipe: readers share, and a writer blocks, and is blocked by, everybody
// (line.WritersBlock). The rest is as for a Mutex, and a downgrade is in internal/line
// (downgrade.go).

// RWLock is a lock that one writer holds alone, or many readers together. It is fair
// by arrival: a reader waits for the writers that came before it and for no later
// one. A writer waits for everybody that came before it, so no stream of readers
// starves a writer. It is only a name: the holder has a Lease. Values are safe for
// concurrent use.
//
// Curator's InterProcessReadWriteLock on the same path stands in the same line. An
// RWLock also waits behind kazoo's ReadLock and WriteLock. A Mutex on the same path
// is reported as an error as soon as places of both are in the line.
//
// A read lock costs two commits by a majority of the servers, as many as a write
// lock. If you only need the latest value, read the znode and watch it, which costs
// no commit. Use a read lock if the value must not change while you work.
//
// The Token of a read lease is no fencing token: see Lease.Token.
type RWLock struct{ line *line.Line }

// NewRWLock returns the lock with that path. It sends nothing. An invalid path is
// reported on first use.
func NewRWLock(c *Client, path string) *RWLock {
	return &RWLock{&line.Line{
		At:          session.At{Client: c.core(), Path: path, Recipe: string(RecipeRWLock)},
		AlsoAccepts: string(RecipeMutex), Kinds: layout.LockKinds,
		Blocks: line.WritersBlock, Foreign: layout.IsMutexKind,
	}}
}

// Path returns the path as the caller gave it, without Options.Prefix.
func (w *RWLock) Path() string { return w.self().Path }

// Lock waits until nobody is ahead and returns the writer's lease. It blocks, fails
// and costs like Mutex.Lock. With a context of a reader it returns ErrUpgrade at
// once: two readers that both waited to write would wait for each other for ever.
func (w *RWLock) Lock(ctx context.Context) (*Lease, error) {
	return w.self().acquire(ctx, "lock", layout.KindWrite)
}

// RLock waits until no writer is ahead and returns a reader's lease. It blocks and
// fails like Mutex.Lock. With a context of the writer or of a reader it returns
// ErrDeadlock, or re-enters if that is a Reentrant context (Lease.Reentrant).
//
// A re-entry is not a downgrade: with the writer's Reentrant context, RLock re-enters the
// write lock. The lease that it returns is not Shared, and other readers stay out. Use
// Lease.Downgrade to let them in.
//
// Cost: one request and one commit if nobody is in the line. One more request if only
// readers are. Four more behind a writer, and none between the writer's release and
// the grant, or a listing before ZooKeeper 3.9.
func (w *RWLock) RLock(ctx context.Context) (*Lease, error) {
	return w.self().acquire(ctx, "read lock", layout.KindRead)
}

// TryLock is like Lock but does not wait, like Mutex.TryLock. It returns ErrLocked if
// anybody is in the line. With a context of a reader, the error is also ErrUpgrade. While
// disconnected it blocks like Mutex.TryLock, and so does TryRLock.
func (w *RWLock) TryLock(ctx context.Context) (*Lease, error) {
	return w.self().tryAcquire(ctx, "try lock", layout.KindWrite)
}

// TryRLock is like RLock but does not wait: it returns ErrLocked if a writer is in the
// line, holding or waiting.
func (w *RWLock) TryRLock(ctx context.Context) (*Lease, error) {
	return w.self().tryAcquire(ctx, "try read lock", layout.KindRead)
}

// Do runs f with the writer's lease, like Mutex.Do.
func (w *RWLock) Do(ctx context.Context, f func(context.Context, *Lease) error) error {
	return w.self().withLease(ctx, "lock", layout.KindWrite, f)
}

// RDo runs f with a reader's lease, like Mutex.Do.
func (w *RWLock) RDo(ctx context.Context, f func(context.Context, *Lease) error) error {
	return w.self().withLease(ctx, "read lock", layout.KindRead, f)
}

// Contenders returns the places in the line, in order. Those with Held hold. For ErrUnused,
// ErrPathInUse and the cost, see Mutex.Contenders.
func (w *RWLock) Contenders(ctx context.Context) ([]Contender, error) {
	return w.self().listPlaces(ctx)
}

// Downgrade atomically converts the lease of an RWLock's writer into a reader's: no writer
// gets in between, and readers that wait directly behind it are granted. The lease stays
// valid, with its context and its Token. What Check returned before fails from then on. If
// the lease is a reader's already, Downgrade returns nil.
//
// Downgrade blocks until a server answers, through disconnections. If ctx ends first (its error is
// returned), the downgrade is carried out in the background or not at all: the lease is held either
// way, and a second Downgrade waits for the first. An error is returned if the lease is not of an
// RWLock, or if other leases of the same grant are open: of all the leases of a writer and its
// re-entries, only the last may be downgraded. ErrLost, ErrReleased or ErrClosed is returned if the
// lease has ended.
//
// Cost: one request and one commit.
func (l *Lease) Downgrade(ctx context.Context) error {
	if l.isZero() {
		return l.fail("downgrade", errZeroValue)
	}
	r := recipe{At: l.handle.Grant.At}
	err := r.check(ctx)
	switch {
	case err != nil:
		return l.fail("downgrade", err)
	case r.Recipe != string(RecipeRWLock):
		return l.fail("downgrade", errors.New("not a lease of an RWLock"))
	}
	if err := l.Err(); err != nil {
		return l.fail("downgrade", errors.Unwrap(err))
	}
	ctx, done := r.Client.Bind(ctx)
	defer done()
	return l.fail("downgrade", line.Downgrade(ctx, l.handle))
}

func (w *RWLock) self() lock {
	if w == nil {
		return lock{}
	}
	return lockOn(w.line, nil, 0, nil)
}
