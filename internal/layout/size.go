package layout

import (
	"context"
	"fmt"
	"strconv"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// The size of a Barrier or Semaphore is the data of its path, as decimal text.

// Size returns the data of a path with that size.
func Size(n int) []byte { return []byte(strconv.Itoa(n)) }

// IsSize reports whether data are a size.
func IsSize(data []byte) bool {
	n, err := strconv.Atoi(string(data))
	return err == nil && n > 0 && strconv.Itoa(n) == string(data)
}

// SizeIn returns the size of such a recipe in the data of the path's znode, which was read
// with stat: 0 if the znode is empty, because it was created as the parent of another one.
func SizeIn(recipe, unit string, data []byte, stat *zk.Stat) (int, error) {
	switch {
	case stat.EphemeralOwner != 0:
		return 0, zk.ErrNoChildrenForEphemerals
	case len(data) == 0:
		return 0, nil
	}
	if n, err := strconv.ParseInt(string(data), 10, 32); err == nil && n > 0 {
		return int(n), nil
	}
	return 0, zkconn.Errorf(zkconn.ErrPathInUse, "path does not hold a %s's number of %s: %.40q", recipe, unit, data)
}

// WriteSize writes the size of the path over that version of its data, and carries out ops
// with it.
func WriteSize(ctx context.Context, s *zkconn.Session, path string, n int, version int32, ops ...any) (*zk.Stat, error) {
	write := &zk.SetDataRequest{Path: path, Data: Size(n), Version: version}
	ops = append([]any{write}, ops...)
	o := s.Multi(ctx, ops...)
	if !o.Applied() {
		return nil, o.Err()
	}
	return o.Stat(write), nil
}

// WrongSize returns the error of a caller that uses something of size right as if its
// size were n.
func WrongSize(recipe, unit string, right, n int) error {
	return fmt.Errorf("%w: a %s of %d %s is used as one of %d", errs.ErrSize, recipe, right, unit, n)
}
