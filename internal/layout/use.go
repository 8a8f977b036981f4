package layout

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// CheckChildren returns ErrPathInUse if the znode at path, which has no data and those children, is
// a queue's. Below a queue's path stands its log, which stays, so a place that joins there is not
// alone, and the children are listed. It costs a read if there is a child of that name.
func CheckChildren(ctx context.Context, s *zkconn.Session, path string, children []string) error {
	if !slices.Contains(children, queuelog.RootName[1:]) {
		return nil
	}
	return CheckUnmarked(ctx, s, path)
}

// CheckUnmarked is CheckChildren for a znode without data whose children are not known. It
// costs one read.
func CheckUnmarked(ctx context.Context, s *zkconn.Session, path string) error {
	data, _, err := s.Get(ctx, path+queuelog.RootName)
	switch {
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNoAuth):
		return nil
	case err == nil && IsQueue(data):
		return zkconn.Errorf(zkconn.ErrPathInUse, "path is used by a queue")
	}
	return err
}

// CheckUnused returns ErrUnused, or ErrPathInUse if the path, which has no data, is a queue's.
func CheckUnused(ctx context.Context, s *zkconn.Session, path string) error {
	return cmp.Or(CheckUnmarked(ctx, s, path), errs.ErrUnused)
}

// SizeAt returns the size of a semaphore or barrier that the path holds. ErrUnused or ErrPathInUse:
// it holds none.
func SizeAt(ctx context.Context, s *zkconn.Session, path, recipe, unit string) (n int, err error) {
	data, stat, err := s.Get(ctx, path)
	if err != nil {
		return 0, errs.Unused(err)
	}
	n, err = SizeIn(recipe, unit, data, stat)
	if err == nil && n == 0 {
		err = CheckUnused(ctx, s, path)
	}
	return n, err
}
