package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Commit carries out the operations in one transaction, and only if the lock is still
// held when the servers apply it. The results are those of ops, in order. With no ops,
// Commit asks the servers whether the lock is held. It blocks until a server answers or
// ctx ends. With a lease that is Shared, other readers may hold the lock, and commit, at the
// same time.
//
//   - ErrLost is returned if the lock is no longer held. Nothing was done.
//   - An operation's own error, which names the operation, is returned if the servers
//     refuse it. Nothing was done.
//   - ErrTooLarge is returned for a request above the servers' limit (1,048,575 bytes).
//     It was not sent.
//   - ErrUncertain is returned if the reply was lost, or if ctx ended first. The
//     operations may have been carried out.
//
// Commit costs one request and one commit.
func (l *Lease) Commit(ctx context.Context, ops ...Op) ([]OpResult, error) {
	rs, err := l.commit(ctx, ops)
	if err != nil {
		return nil, l.fail("commit under", err)
	}
	return rs, nil
}

func (l *Lease) commit(ctx context.Context, given []Op) ([]OpResult, error) {
	switch {
	case l.isZero():
		return nil, errZeroValue
	case ctx == nil:
		return nil, line.ErrNilContext
	}
	c := l.handle.Grant.Line.Client
	ops, err := mapOps(c, given)
	if err != nil {
		return nil, err
	}
	for {
		t, guard, err := l.beginCommit(ctx, ops)
		if err != nil { // nothing has been sent
			return nil, err
		}
		o := t.Wait(ctx)
		switch {
		case o.Applied():
			return opResults(c, o.Results()[len(guard):]), nil
		case o.RefusedIn(guard, zk.ErrNoNode):
			if err := l.guardFailed(ctx, o.RefusedCheck()); err != nil { // nothing was done
				return nil, err
			}
			continue
		case o.RefusedIn(ops):
			return nil, fmt.Errorf("operation %d: %w", o.IndexIn(ops), o.Err())
		case o.Unsent():
			continue
		case o.Transient(), o.SessionOver(), line.IsContextErr(ctx, o.Err()):
			return nil, fmt.Errorf("%w: %w", ErrUncertain, o.Err())
		}
		return nil, o.Err()
	}
}

// beginCommit sends the operations, behind the guard, if the lease has not ended.
func (l *Lease) beginCommit(ctx context.Context, ops []any) (t *zkconn.Transaction, guard []any, err error) {
	if ctx.Err() != nil {
		return nil, nil, zkconn.ContextErr(ctx)
	}
	if err := l.Err(); err != nil {
		return nil, nil, errors.Unwrap(err)
	}
	guard = l.guard()
	t, err = l.handle.Grant.Session.BeginBy(ctx, l.handle.Grant.Start, slices.Concat(guard, ops)...)
	if errors.Is(err, zkconn.ErrSessionOver) {
		err = l.handle.Grant.CheckHeld()
	}
	return t, guard, err
}

// guard returns the checks that Commit puts before its operations.
func (l *Lease) guard() []any {
	paths := l.handle.Grant.Place().Guarded()
	checks := make([]any, len(paths))
	for i, path := range paths {
		checks[i] = &zk.CheckVersionRequest{Path: path, Version: -1}
	}
	return checks
}

// guardFailed is for a Commit whose guard did not find its place. It returns why the
// lease has ended, nil if a downgrade was quicker and the grant has another place.
func (l *Lease) guardFailed(ctx context.Context, check *zk.CheckVersionRequest) error {
	if err := l.handle.Grant.AwaitChange(ctx); err != nil {
		return err
	}
	if !l.handle.Grant.Place().Has(check.Path) {
		return nil
	}
	l.handle.Grant.PlaceGone(check.Path, line.ErrDeleted) // servers carry out no write of a session that has ended
	return l.handle.Grant.CheckHeld()
}
