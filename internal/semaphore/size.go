package semaphore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// How many slots a Semaphore has. The path's znode holds it. Each taking of slots checks
// the version that it rests on.

// Resize changes n, for this value and for all that were used before.
func (x *Semaphore) Resize(ctx context.Context, n int) error {
	if err := x.check(ctx, n); err != nil {
		return err
	}
	c := x.At.Client
	if !c.Writes.Begin() {
		return errs.ErrClosed
	}
	defer c.Writes.End()
	ctx, done := c.Bind(ctx)
	defer done()
	doubt := false // an attempt may have been carried out whose reply was lost
	for tries := 0; tries < zkconn.MaxTries; {
		sent := false
		s, err := x.At.Client.Live(ctx)
		if err == nil {
			err = x.resizeIn(ctx, s, n, &sent)
		}
		switch {
		case err == nil:
			return nil
		case errs.IsContextErr(ctx, err):
			doubt = doubt || sent
		case zkconn.Transient(err), errors.Is(err, zkconn.ErrSessionOver):
			doubt = doubt || sent
			continue
		case isOvertaken(err):
			tries++
			continue
		}
		return errs.UncertainIf(doubt, err)
	}
	return errs.UncertainIf(doubt, zkconn.ErrContended)
}

// semaphoreResized is the child of a path whose n was changed. It keeps the servers from
// deleting the path: the next to make it might not know of the change.
const semaphoreResized = "/resized"

// resizeIn writes n, if the path's data is a size. sent is set before it is sent.
func (x *Semaphore) resizeIn(ctx context.Context, s *session.Session, n int, sent *bool) error {
	data, stat, err := s.Get(ctx, x.At.Abs())
	if errors.Is(err, zk.ErrNoNode) {
		// As a parent, so that it has n and the child from the same moment on.
		if err = s.CreateContainer(ctx, x.At.Abs(), nil); err == nil {
			err = zk.ErrNodeExists // which is tried again
		}
		return err
	}
	was := 0
	if err == nil {
		was, err = layout.SizeIn(x.At.Recipe, "slots", data, stat)
	}
	if err == nil && was == 0 {
		err = x.checkUnsized(ctx, s, stat)
	}
	if err != nil {
		return err
	}
	var keep []any
	switch _, err = s.Exists(ctx, x.At.Abs()+semaphoreResized); {
	case errors.Is(err, zk.ErrNoNode):
		keep = []any{&zk.CreateRequest{Path: x.At.Abs() + semaphoreResized, Data: []byte{}, Acl: s.ACL()}}
	case err != nil:
		return err
	}
	*sent = true
	if _, err = layout.WriteSize(ctx, s.Session, x.At.Abs(), n, stat.Version, keep...); err == nil {
		x.follow(n)
	}
	return err
}

// follow makes n this value's.
func (x *Semaphore) follow(n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.n, x.agreed, x.Known = n, true, nil
}

// agree returns how many slots there are by a read of the path, and makes the path hold
// this value's n where it holds none: then errStale is returned. The two must be the same
// once. From then on this value follows, also a path that others have made anew.
func (x *Semaphore) agree(ctx context.Context, s *session.Session, path answer) (n int, err error) {
	switch {
	case errors.Is(path.err, zk.ErrNoNode):
		err = s.CreateContainer(ctx, x.At.Abs(), layout.Size(x.size()))
	case path.err != nil:
		return 0, path.err
	default:
		n, err = layout.SizeIn(x.At.Recipe, "slots", path.data, path.stat)
		if err == nil && n == 0 {
			err = x.writeFirst(ctx, s, path.stat)
			for zkconn.Transient(err) {
				err = x.writeFirst(ctx, s, path.stat)
			}
		}
	}
	switch {
	case n == 0 && (err == nil || isOvertaken(err)):
		return 0, errStale
	case err != nil:
		return 0, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if n != x.n && !x.agreed {
		return 0, layout.WrongSize("semaphore", "slots", n, x.n)
	}
	x.n, x.agreed = n, true
	return n, nil
}

// writeFirst makes a path that has that Stat, and holds no n, hold this value's.
func (x *Semaphore) writeFirst(ctx context.Context, s *session.Session, path *zk.Stat) error {
	if err := x.checkUnsized(ctx, s, path); err != nil {
		return err
	}
	_, err := layout.WriteSize(ctx, s.Session, x.At.Abs(), x.size(), path.Version)
	return err
}

// isOvertaken reports whether err says that somebody else has written, deleted or created
// the path since it was read.
func isOvertaken(err error) bool {
	return errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNodeExists)
}

// curatorsSemaphore are the children of the path of an InterProcessSemaphoreV2, whose znode
// holds nothing.
var curatorsSemaphore = []string{"leases", "locks"}

// checkUnsized returns ErrPathInUse if a path that holds no n, and has that Stat, is of
// another recipe. It costs a read if the path has children.
func (x *Semaphore) checkUnsized(ctx context.Context, s *session.Session, path *zk.Stat) error {
	if path.NumChildren == 0 {
		return nil
	}
	children, _, err := s.Children(ctx, x.At.Abs())
	if err != nil {
		return err
	}
	for _, name := range children {
		if slices.Contains(curatorsSemaphore, name) {
			return zkconn.Errorf(zkconn.ErrPathInUse, "path is used by a semaphore of Curator: it has the child %q", name)
		}
	}
	return layout.CheckChildren(ctx, s.Session, x.At.Abs(), children)
}

// tooMany returns the error of a caller that wants more slots than there are.
func tooMany(k, n int) error {
	return fmt.Errorf("%w: %d slots requested of a semaphore of %d slots", errs.ErrSize, k, n)
}

// size returns how many slots there are, as far as this value knows.
func (x *Semaphore) size() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.n
}
