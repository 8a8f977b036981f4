package zkrecipes

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// The recipe: lock the mutexes one after the other, in the order of their paths, so that no two
// calls wait for each other.

// LockAll locks several mutexes, all or none, and returns their leases as one. It locks
// them one after the other, in the order of their absolute paths. So calls of LockAll
// never wait for each other in a circle, in whatever order the mutexes are given. They may
// if a holder of one lock calls Lock or LockAll for another one.
//
// The mutexes must be of one Client: there is no order of paths that all processes share
// across ensembles. It is an error to give a path twice, or no mutex at all.
//
// LockAll blocks and fails like Mutex.Lock, and if it fails it gives back what it has, in the
// background if ctx has ended. If the session ends meanwhile, or the servers lose one of the locks,
// it begins anew with the first one. If ctx is a context of the holder of one of them, it returns
// ErrDeadlock before it takes any, or re-enters if that is a Reentrant context. ErrMaxHold is
// returned if the MaxHold of a lock is over before the last one is locked.
//
// Cost: that of each Mutex.Lock, one after the other.
func LockAll(ctx context.Context, locks ...*Mutex) (*Leases, error) {
	order, err := lockOrder(ctx, locks)
	if err != nil {
		return nil, err
	}
	for {
		held, lost, err := lockInOrder(ctx, order)
		if err == nil {
			return newLeases(locks, order, held), nil
		}
		if len(held) > 0 {
			held[0].handle.Grant.At.Client.Tasks.Within(ctx, 0, func() error { return releaseAll(held) })
		}
		if !lost {
			return nil, err
		}
	}
}

// DoAll runs f with all locks, like Mutex.Do; see LockAll. f's context ends when one of the locks
// is lost.
func DoAll(ctx context.Context, locks []*Mutex, f func(context.Context, *Leases) error) (err error) {
	if f == nil {
		return fail(opLockAll, "", errors.New("nil function"))
	}
	ls, err := LockAll(ctx, locks...)
	if err != nil {
		return err
	}
	defer func() {
		if released := ls.held[0].releaseWithin(ctx, ls.Release); released != nil {
			err = errors.Join(err, released)
		}
	}()
	return f(ls.Context(ctx), ls)
}

const opLockAll = "lock all"

// lockOrder returns the mutexes in the order in which they are locked.
func lockOrder(ctx context.Context, locks []*Mutex) ([]*Mutex, error) {
	if len(locks) == 0 {
		return nil, fail(opLockAll, "", errors.New("no mutexes"))
	}
	for _, m := range locks {
		r := m.self()
		err := r.check(ctx)
		if err == nil && r.Client != locks[0].line.Client {
			err = errors.New("mutexes of different Clients")
		}
		if err == nil {
			err = r.checkDeadlock(ctx)
		}
		if err != nil {
			return nil, fail(opLockAll, r.Path, err)
		}
	}
	order := slices.SortedFunc(slices.Values(locks), func(a, b *Mutex) int { return cmp.Compare(a.line.Abs(), b.line.Abs()) })
	for i, m := range order[1:] {
		if path := m.line.Path; path == order[i].line.Path {
			return nil, fail(opLockAll, path, errors.New("the path is given twice"))
		}
	}
	return order, nil
}

// lockInOrder locks the mutexes and returns what it has locked. lost: the error is that
// one of these was lost, with its session or by the servers, before the last one was locked.
func lockInOrder(ctx context.Context, order []*Mutex) (held []*Lease, lost bool, err error) {
	while := ctx // ends with each of the leases, too
	for _, m := range order {
		l, err := m.self().acquire(while, opLockAll, layout.KindLock)
		if err != nil && ctx.Err() == nil && while.Err() != nil {
			lost, err = whyLost(ctx, held, err)
		}
		if err != nil {
			return held, lost, err
		}
		held, while = append(held, l), l.Context(while)
	}
	if while.Err() != nil && ctx.Err() == nil {
		lost, err = whyLost(ctx, held, fail(opLockAll, order[0].line.Path, while.Err()))
		return held, lost, err
	}
	return held, false, nil
}

// whyLost distinguishes the end of a session and a loss by the servers, after which the locks can be
// locked anew, from an eviction, the end of the Client, and a MaxHold, which may be too short for any
// number of tries.
func whyLost(ctx context.Context, held []*Lease, err error) (lost bool, _ error) {
	for _, l := range held {
		why := l.Err()
		if errors.Is(why, errs.ErrGone) { // by an operator, or with its session
			why = l.handle.Grant.WhyGone(ctx)
			return errors.Is(why, zkconn.ErrSessionOver) || errors.Is(why, errs.ErrPlaceLost), fail(opLockAll, l.handle.Grant.At.Path, why)
		}
		if why != nil {
			return errors.Is(why, ErrLost) && !errors.Is(why, ErrMaxHold), fail(opLockAll, l.handle.Grant.At.Path, errors.Unwrap(why))
		}
	}
	return false, err
}

// Leases are the grants of several locks, held together. It is safe for concurrent use.
type Leases struct {
	given []*Lease // as LockAll got the mutexes
	held  []*Lease // as they were locked
}

func newLeases(locks, order []*Mutex, held []*Lease) *Leases {
	ls := &Leases{held: held}
	for _, m := range locks {
		ls.given = append(ls.given, held[slices.Index(order, m)])
	}
	return ls
}

// All returns the leases, in the order in which LockAll got the mutexes. Each has its own
// Path, Token, Check and Commit. A Commit of one proves that one only: to prove all, put the
// Check of each into a Multi on another connection. If one is released by itself, the others
// stay. All returns nil for a zero Leases.
func (ls *Leases) All() []*Lease {
	if ls == nil {
		return nil
	}
	return slices.Clone(ls.given)
}

// Context returns a context that ends with parent or with the first of the leases, like
// Lease.Context. LockAll and Lock on any of the paths return ErrDeadlock with it. parent
// must not be nil.
func (ls *Leases) Context(parent context.Context) context.Context {
	if ls == nil || len(ls.held) == 0 {
		return endedContext(parent, ls.Err())
	}
	for _, l := range ls.held {
		parent = l.Context(parent)
	}
	return parent
}

// Err returns nil while all the locks are held, and then why one of them is not; see
// Lease.Err.
func (ls *Leases) Err() error {
	if ls == nil || len(ls.held) == 0 {
		return fail("hold", "", errZeroValue)
	}
	for _, l := range ls.held {
		if err := l.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Release gives all the locks up, in the reverse of the order in which they were locked,
// as Lease.Release does each. It goes on after an error and returns all errors, joined. A
// second Release does nothing and returns the same.
func (ls *Leases) Release() error {
	if ls == nil || len(ls.held) == 0 {
		return fail("release", "", errZeroValue)
	}
	return releaseAll(ls.held)
}

func releaseAll(held []*Lease) error {
	var errs []error
	for _, l := range slices.Backward(held) {
		errs = append(errs, l.Release())
	}
	return errors.Join(errs...)
}
