package session

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// RepeatWrite sends a write at path until its outcome is known, in the next session too, because
// what it writes belongs to no session. It creates missing parents. already is the error of the
// server if there is nothing to do.
func (c *Client) RepeatWrite(ctx context.Context, path string, already error, write func(s *Session, path string) any) error {
	doubt := false
	for tries := 0; tries < zkconn.MaxTries; {
		s, err := c.Live(ctx)
		if err == nil {
			var lost bool
			lost, err = writeOnce(ctx, s, write(s, path))
			doubt = doubt || lost
		}
		switch {
		case err == nil:
			return nil
		case errs.IsContextErr(ctx, err): // no matter what its cause is
		case errors.Is(err, already):
			return nil
		case errors.Is(err, zk.ErrNoNode) && zkconn.Parent(path) != "":
			err = s.CreateContainer(ctx, zkconn.Parent(path), nil)
			tries++
			if err == nil || errors.Is(err, zk.ErrNodeExists) {
				continue
			}
		}
		if errs.IsContextErr(ctx, err) || !isInterruption(err) {
			return errs.UncertainIf(doubt, err)
		}
	}
	return errs.UncertainIf(doubt, zkconn.ErrContended)
}

// writeOnce sends a write once. If it may have been carried out, and the reply did
// not come, lost is true.
func writeOnce(ctx context.Context, s *Session, write any) (lost bool, err error) {
	t, err := s.Begin(ctx, write)
	if err != nil {
		return false, err
	}
	o := t.Wait(ctx)
	if o.Unsent() {
		return false, o.Err()
	}
	return isInterruption(o.Err()) || errs.IsContextErr(ctx, o.Err()), o.Err()
}

// isInterruption reports whether err says that the connection was lost, or the session has
// ended, so that the write can be repeated.
func isInterruption(err error) bool {
	return zkconn.Transient(err) || errors.Is(err, zkconn.ErrSessionOver)
}
