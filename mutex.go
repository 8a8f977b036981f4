package zkrecipes

import "context"

// Mutex is an exclusive lock, fair by arrival. It is only a name: what is held
// is a Lease. Values are safe for concurrent use, and goroutines that share one
// exclude each other.
//
// It stands in line with Curator's InterProcessMutex, go-zookeeper's Lock and
// kazoo's Lock on the same path, and they with it; kazoo has to be told:
// Lock(..., extra_lock_patterns=["lock-"]). (Curator and kazoo do not see each
// other, whoever else is there.)
//
// The path is created as a container, which the servers delete when it has been
// idle, with its data: do not keep any there. On a znode that has data of its
// own the lock works, leaves the data alone, and costs two reads more.
type Mutex struct{ line *line }

// NewMutex returns the lock with that path. It sends nothing; a path that is
// none is an error at the first use.
func NewMutex(c *Client, path string) *Mutex {
	return &Mutex{&line{
		c: c, path: path, recipe: "mutex", kinds: lockKinds,
		blocks:  func(_, _ kind) bool { return true },
		foreign: func(k kind) bool { return k == kindRead || k == kindWrite },
	}}
}

// Lock waits for its turn and returns the lease. It blocks until then, until
// ctx ends (errors.Is finds its error and its cause), the Client is closed
// (ErrClosed) or its znode is deleted by somebody else (ErrEvicted); through
// disconnections, and through the end of the session, after which it stands at
// the end of the line. With a context of the holder it is ErrDeadlock, or
// re-enters (Lease.Reentrant) at no cost.
//
// On any error nothing is held, and the znode is gone or will be.
// Cost: one request and one commit where the lock is free, three requests more
// where it is not, none while waiting and none between the holder's release and
// the grant.
func (m *Mutex) Lock(ctx context.Context) (*Lease, error) {
	return m.self().acquire(ctx, "lock", kindLock)
}

// TryLock is Lock for who will not wait: ErrLocked where somebody else is in
// the line, which is found out with one read and leaves nothing behind. A
// holder that is just leaving may be one who counts. It blocks only for the
// servers' answers.
func (m *Mutex) TryLock(ctx context.Context) (*Lease, error) {
	return m.self().tryAcquire(ctx, "try lock", kindLock)
}

// Do runs f with the lock and releases it, also when f panics. f's context is
// the lease's: it ends when the lock is lost. Do returns f's error, joined with
// ErrLost where the lock was lost before the end, even if f returned nil.
func (m *Mutex) Do(ctx context.Context, f func(context.Context, *Lease) error) error {
	return m.self().do(ctx, "lock", kindLock, f)
}

// Contenders returns who stands in the line, in order; the first one holds. A
// path that does not exist has none. It costs one request for the line and one
// for each place.
func (m *Mutex) Contenders(ctx context.Context) ([]Contender, error) {
	return m.self().list(ctx)
}

func (m *Mutex) self() recipe {
	if m == nil {
		return recipe{}
	}
	return recipe{m.line}
}
