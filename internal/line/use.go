package line

import (
	"cmp"
	"context"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// CheckUnused returns ErrUnused, or ErrPathInUse if the path, which has no data, is a queue's.
func (l *Line) CheckUnused(ctx context.Context, s *session.Session) error {
	return cmp.Or(l.CheckUnmarked(ctx, s), errs.ErrUnused)
}

// CheckSized returns nil if the path has the size of a semaphore or barrier, and else ErrUnused
// or ErrPathInUse.
func (l *Line) CheckSized(ctx context.Context, s *session.Session, unit string) error {
	data, stat, err := s.Get(ctx, l.Abs())
	if err != nil {
		return errs.Unused(err)
	}
	n, err := layout.SizeIn(l.Recipe, unit, data, stat)
	if err == nil && n == 0 {
		err = l.CheckUnused(ctx, s)
	}
	return err
}
