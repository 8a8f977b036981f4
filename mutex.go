package zkrecipes

import "context"

// The recipe: each place in the line waits for the one ahead of it, and the first
// place holds (everyoneBlocks in line.go). The rest is the core's, for all recipes:
// joining and taking one's turn in sequence.go, waiting in sequence_wait.go, lost
// replies in sequence_recover.go, leaving in sequence_leave.go. Re-entry is in
// lock.go.

// Mutex is an exclusive lock, fair by arrival. It is only a name: the holder has a
// Lease. Values are safe for concurrent use, and goroutines that share one exclude
// each other.
//
// Curator's InterProcessMutex, go-zookeeper's Lock and kazoo's Lock on the same path
// stand in the same line. kazoo needs Lock(..., extra_lock_patterns=["lock-"]).
// (Curator and kazoo do not see each other, with a Mutex or without.)
//
// The client creates the path as a container znode. When it has been idle, the
// servers delete it with its data, so do not keep data there. If the path is a znode
// with data of its own, the lock works, leaves the data alone, and costs two more
// reads.
type Mutex struct{ line *line }

// NewMutex returns the lock with that path. It sends nothing. An invalid path is
// reported on first use.
func NewMutex(c *Client, path string) *Mutex {
	return &Mutex{&line{
		c: c, path: path, recipe: "mutex", kinds: lockKinds,
		blocks: everyoneBlocks, foreign: isRWLockKind,
	}}
}

// Lock waits for its turn and returns the lease. It waits through disconnections. If
// the session ends, it waits on at the end of the line. With a Reentrant context of
// the holder it re-enters at once and at no cost (Lease.Reentrant).
//
// If ctx ends, Lock returns an error in which errors.Is finds the error of ctx and its
// cause. ErrClosed is returned if the Client is closed. ErrEvicted is returned if
// somebody else deletes the call's znode. ErrDeadlock is returned if ctx is any other
// context of the holder. After an error nothing is held, and the znode is gone or will
// be.
//
// Cost: one request and one commit if the lock is free. If it is not, three more
// requests, none while waiting, and none between the holder's release and the grant.
func (m *Mutex) Lock(ctx context.Context) (*Lease, error) {
	return m.self().acquire(ctx, "lock", kindLock)
}

// TryLock is like Lock but does not wait: it returns ErrLocked if somebody else is in
// the line, which costs one read and leaves nothing behind. A holder that is just
// leaving may count. TryLock blocks only for the servers' replies.
func (m *Mutex) TryLock(ctx context.Context) (*Lease, error) {
	return m.self().tryAcquire(ctx, "try lock", kindLock)
}

// Do runs f with the lock and then releases it, even if f panics. f's context is the
// lease's: it ends when the lock is lost. Do returns f's error, joined with ErrLost
// if the lock was lost before the end, even if f returned nil.
func (m *Mutex) Do(ctx context.Context, f func(context.Context, *Lease) error) error {
	return m.self().withLease(ctx, "lock", kindLock, f)
}

// Contenders returns the places in the line, in order. The first one holds. A path
// that does not exist has none. It costs one request for the line and one for each
// place.
func (m *Mutex) Contenders(ctx context.Context) ([]Contender, error) {
	return m.self().listContenders(ctx)
}

func (m *Mutex) self() recipe {
	if m == nil {
		return recipe{}
	}
	return recipe{m.line}
}
