package line

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Unused is ErrUnused for an error that says that there is no znode.
func Unused(err error) error {
	if errors.Is(err, zk.ErrNoNode) {
		return fmt.Errorf("%w: %w", errs.ErrUnused, err)
	}
	return err
}

// CheckUnused returns ErrUnused, or ErrPathInUse if the path, which has no data, is a queue's.
func (l *Line) CheckUnused(ctx context.Context, s *session.Session) error {
	return cmp.Or(l.CheckNoQueue(ctx, s), errs.ErrUnused)
}

// CheckSized returns nil if the path has the size of a semaphore or barrier, and else ErrUnused
// or ErrPathInUse.
func (l *Line) CheckSized(ctx context.Context, s *session.Session, unit string) error {
	data, stat, err := s.Get(ctx, l.Abs())
	if err != nil {
		return Unused(err)
	}
	n, err := layout.SizeIn(l.Recipe, unit, data, stat)
	if err == nil && n == 0 {
		err = l.CheckUnused(ctx, s)
	}
	return err
}
