package zkrecipes

import (
	"context"
	"errors"
)

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
		c: c, path: path, recipe: "mutex",
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
	return m.acquire(ctx, "lock", ErrDeadlock, func(ctx context.Context) (*grant, error) {
		return m.line.enter(ctx, kindLock)
	})
}

// TryLock is Lock for who will not wait: ErrLocked where somebody else is in
// the line, which is found out with one read and leaves nothing behind. A
// holder that is just leaving may be one who counts. It blocks only for the
// servers' answers.
func (m *Mutex) TryLock(ctx context.Context) (*Lease, error) {
	return m.acquire(ctx, "try lock", ErrLocked, func(ctx context.Context) (*grant, error) {
		return m.line.tryEnter(ctx, kindLock)
	})
}

// acquire is what all ways to get a lease have in common: checks, re-entry, and
// the error's form. held is the error for a context of the holder.
func (m *Mutex) acquire(ctx context.Context, op string, held error, get func(context.Context) (*grant, error)) (*Lease, error) {
	if err := m.check(ctx); err != nil {
		return nil, fail(op, m.path(), err)
	}
	c, path := m.line.c, m.line.path
	if h, ok := ctx.Value(holderKey{c, path}).(holder); ok {
		err := h.lease.Err()
		if h.reentrant {
			if err != nil {
				return nil, fail(op, path, errors.Unwrap(err))
			}
			l, err := h.lease.g.enter()
			return l, fail(op, path, err)
		}
		if err == nil {
			return nil, fail(op, path, held)
		}
	}
	ctx, done := c.bind(ctx)
	defer done()
	for {
		g, err := get(ctx)
		if err != nil {
			return nil, fail(op, path, err)
		}
		l, err := g.enter()
		if !errors.Is(err, ErrLost) { // lost before anybody had it: the wait goes on
			return l, fail(op, path, err)
		}
	}
}

func (m *Mutex) path() string {
	if m == nil || m.line == nil {
		return ""
	}
	return m.line.path
}

func (m *Mutex) check(ctx context.Context) error {
	if m == nil || m.line == nil {
		return errors.New("not made by NewMutex")
	}
	return m.line.c.check(ctx, m.line.path)
}

// Do runs f with the lock and releases it, also when f panics. f's context is
// the lease's: it ends when the lock is lost. Do returns f's error, joined with
// ErrLost where the lock was lost before the end, even if f returned nil.
func (m *Mutex) Do(ctx context.Context, f func(context.Context, *Lease) error) (err error) {
	if f == nil {
		return fail("lock", m.path(), errors.New("nil function"))
	}
	l, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if released := l.Release(); released != nil {
			err = errors.Join(err, released)
		}
	}()
	return f(l.Context(ctx), l)
}

// Contenders returns who stands in the line, in order; the first one holds. A
// path that does not exist has none. It costs one request for the line and one
// for each place.
func (m *Mutex) Contenders(ctx context.Context) ([]Contender, error) {
	if err := m.check(ctx); err != nil {
		return nil, fail("list", m.path(), err)
	}
	ctx, done := m.line.c.bind(ctx)
	defer done()
	cs, err := m.line.contenders(ctx)
	return cs, fail("list", m.line.path, err)
}
