package zkrecipes

import (
	"context"
	"fmt"
	"strconv"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// The size of a Barrier or Semaphore is the data of its path, as decimal text.

func sizeData(n int) []byte { return []byte(strconv.Itoa(n)) }

// isSize reports whether data are a size.
func isSize(data []byte) bool {
	n, err := strconv.Atoi(string(data))
	return err == nil && n > 0 && strconv.Itoa(n) == string(data)
}

// sizeIn returns the size in the data of the path's znode, which was read with stat: 0
// if the znode is empty, because it was created as the parent of another one.
func (l *line) sizeIn(data []byte, stat *zk.Stat, unit string) (int, error) {
	switch {
	case stat.EphemeralOwner != 0:
		return 0, zk.ErrNoChildrenForEphemerals
	case len(data) == 0:
		return 0, nil
	}
	if n, err := strconv.Atoi(string(data)); err == nil && n > 0 {
		return n, nil
	}
	return 0, zkconn.Errorf(zkconn.ErrPathInUse, "path does not hold a %s's number of %s: %.40q", l.recipe, unit, data)
}

// writeSize writes the size over that version of the data, and carries out ops with it.
func (l *line) writeSize(ctx context.Context, s *session, n int, version int32, ops ...any) (*zk.Stat, error) {
	write := &zk.SetDataRequest{Path: l.abs(), Data: sizeData(n), Version: version}
	ops = append([]any{write}, ops...)
	o := s.Multi(ctx, ops...)
	if o.Is(zk.ErrNoAuth) {
		opened, openErr := s.OpenUp(ctx, l.abs())
		switch {
		case openErr != nil:
			return nil, openErr
		case opened:
			o = s.Multi(ctx, ops...)
		}
	}
	if !o.Applied() {
		return nil, o.Err()
	}
	return o.Stat(write), nil
}

// wrongSize returns the error of a caller that uses something of size right as if its
// size were n.
func wrongSize(recipe, unit string, right, n int) error {
	return fmt.Errorf("%w: a %s of %d %s is used as one of %d", coreErrSize, recipe, right, unit, n)
}
