package zkrecipes

import (
	"context"
	"errors"
)

// RWLock is a lock that one writer holds alone, or many readers together. It is
// fair by arrival: a reader waits for the writers that came before it and for no
// later one, a writer for all who came before it, so that no stream of readers
// starves a writer. It is only a name: what is held is a Lease. Values are safe
// for concurrent use.
//
// It stands in line with Curator's InterProcessReadWriteLock on the same path,
// and behind kazoo's ReadLock and WriteLock; a Mutex on that path is an error as
// soon as both stand in the line.
//
// A read lock costs two commits by a majority of the servers, as a write lock
// does. Who only wants to follow a value reads it and watches it, which costs no
// commit; a read lock is for who must not see it change while it works.
//
// A read lease's Token tells readers apart, and is no fence: readers hold
// together, so a store that has seen the token of one would refuse another that
// came earlier and holds as well.
type RWLock struct{ line *line }

// NewRWLock returns the lock with that path. It sends nothing; a path that is
// none is an error at the first use.
func NewRWLock(c *Client, path string) *RWLock {
	return &RWLock{&line{
		c: c, path: path, recipe: "rwlock", kinds: lockKinds,
		// The nearest of those is the one to wait for: readers before a writer have
		// gone before it holds.
		blocks:  func(own, other kind) bool { return own.exclusive() || other.exclusive() },
		foreign: func(k kind) bool { return k == kindLock },
	}}
}

// Lock waits until nobody is ahead and returns the writer's lease. It blocks,
// fails and costs as Mutex.Lock does. With a context of a reader it is
// ErrUpgrade at once: two readers that both waited to write would wait for each
// other for ever.
func (w *RWLock) Lock(ctx context.Context) (*Lease, error) {
	return w.self().acquire(ctx, "lock", kindWrite)
}

// RLock waits until no writer is ahead and returns a reader's lease. It blocks
// and fails as Mutex.Lock does. With a context of the writer or of a reader it
// is ErrDeadlock, or re-enters (Lease.Reentrant).
//
// Cost: one request and one commit where nobody is in line, one request more
// where only readers are, three more behind a writer, and none between the
// writer's release and the grant.
func (w *RWLock) RLock(ctx context.Context) (*Lease, error) {
	return w.self().acquire(ctx, "read lock", kindRead)
}

// TryLock is Lock for who will not wait, as Mutex.TryLock is. ErrLocked where
// anybody is in the line; with a context of a reader also ErrUpgrade.
func (w *RWLock) TryLock(ctx context.Context) (*Lease, error) {
	return w.self().tryAcquire(ctx, "try lock", kindWrite)
}

// TryRLock is RLock for who will not wait: ErrLocked where a writer is in the
// line, holding or waiting.
func (w *RWLock) TryRLock(ctx context.Context) (*Lease, error) {
	return w.self().tryAcquire(ctx, "try read lock", kindRead)
}

// Do runs f with the writer's lease, as Mutex.Do does.
func (w *RWLock) Do(ctx context.Context, f func(context.Context, *Lease) error) error {
	return w.self().do(ctx, "lock", kindWrite, f)
}

// RDo runs f with a reader's lease, as Mutex.Do does.
func (w *RWLock) RDo(ctx context.Context, f func(context.Context, *Lease) error) error {
	return w.self().do(ctx, "read lock", kindRead, f)
}

// Contenders returns who stands in the line, in order. A path that does not
// exist has none. It costs one request for the line and one for each place.
func (w *RWLock) Contenders(ctx context.Context) ([]Contender, error) {
	return w.self().list(ctx)
}

// Downgrade turns the writer's lease into a reader's: no writer comes between,
// and readers that wait behind it go. l goes on, with its context and its Token;
// what Lease.Check gave before fails from then on.
//
// It costs one request and one commit and blocks until a server answers. When
// ctx ends first, or the connection is lost, it is carried out by the background
// or not at all: l is held either way, and a second Downgrade waits for it. It is
// an error while l has re-entries open (or is one), ErrLost or ErrReleased where
// l has ended, and nil for a lease that is a reader's already.
func (w *RWLock) Downgrade(ctx context.Context, l *Lease) error {
	r := w.self()
	if err := r.check(ctx); err != nil {
		return fail("downgrade", r.path(), err)
	}
	if l == nil || l.key() != r.key() {
		return fail("downgrade", r.path(), errors.New("not a lease of this lock"))
	}
	if err := l.Err(); err != nil {
		return fail("downgrade", r.path(), errors.Unwrap(err))
	}
	ctx, done := r.c.bind(ctx)
	defer done()
	return fail("downgrade", r.path(), l.g.downgrade(ctx, l))
}

func (w *RWLock) self() recipe {
	if w == nil {
		return recipe{}
	}
	return recipe{w.line}
}
