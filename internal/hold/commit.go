package hold

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Commit carries out the operations in one transaction, if the grant holds when the servers apply
// it.
func (h *Handle) Commit(ctx context.Context, ops []any) ([]zk.MultiResponse, error) {
	for {
		t, guard, err := h.beginCommit(ctx, ops)
		if err != nil { // nothing has been sent
			return nil, err
		}
		o := t.Wait(ctx)
		switch {
		case o.Applied():
			return o.Results()[len(guard):], nil
		case o.RefusedIn(guard, zk.ErrNoNode):
			if err := h.Grant.whyFailed(ctx, o.RefusedCheck().Path); err != nil { // nothing was done
				return nil, err
			}
			continue
		case o.RefusedIn(ops):
			return nil, fmt.Errorf("operation %d: %w", o.IndexIn(ops), o.Err())
		case o.Unsent():
			continue
		case o.Transient(), o.SessionOver(), errs.IsContextErr(ctx, o.Err()):
			return nil, fmt.Errorf("%w: %w", errs.ErrUncertain, o.Err())
		}
		return nil, o.Err()
	}
}

// beginCommit sends the operations, behind the guard, if the handle has not ended.
func (h *Handle) beginCommit(ctx context.Context, ops []any) (t *zkconn.Transaction, guard []any, err error) {
	if ctx.Err() != nil {
		return nil, nil, zkconn.ContextErr(ctx)
	}
	if err := h.Failure(); err != nil {
		return nil, nil, err
	}
	guard = h.Grant.Guard()
	t, err = h.Grant.Session.BeginBy(ctx, h.Grant.Start, slices.Concat(guard, ops)...)
	if errors.Is(err, zkconn.ErrSessionOver) {
		err = h.Grant.endIfLost()
	}
	return t, guard, err
}

// Guard returns the checks that Commit puts before its operations.
func (g *Grant) Guard() []any {
	paths := g.guarded()
	checks := make([]any, len(paths))
	for i, path := range paths {
		checks[i] = &zk.CheckVersionRequest{Path: path, Version: -1}
	}
	return checks
}
