package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Commit carries out the operations in one transaction, and only if the lock is still
// held when the servers apply it. ops are *zk.CreateRequest, *zk.SetDataRequest,
// *zk.DeleteRequest and *zk.CheckVersionRequest, with paths under Options.Prefix. A nil
// ACL means Options.ACL, and ACL entries of the scheme "auth" are replaced by the ids
// of Options.Auth. The results are those of ops, in order. With no ops, Commit asks the
// servers whether the lock is held. It blocks until a server answers or ctx ends.
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
func (l *Lease) Commit(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	rs, err := l.commit(ctx, ops)
	if err != nil {
		return nil, l.fail("commit under", err)
	}
	return rs, nil
}

func (l *Lease) commit(ctx context.Context, ops []any) ([]zk.MultiResponse, error) {
	c, s := l.g.line.c, l.g.s
	if ctx == nil {
		return nil, errNilContext
	}
	ops, err := c.mapOps(ops)
	if err != nil {
		return nil, err
	}
	for {
		if ctx.Err() != nil {
			return nil, zkconn.ContextErr(ctx)
		}
		if err := l.Err(); err != nil {
			return nil, errors.Unwrap(err)
		}
		guard := l.guard()
		t, err := s.BeginBy(ctx, l.g.start, slices.Concat(guard, ops)...)
		if errors.Is(err, zkconn.ErrSessionOver) {
			err = l.g.checkHeld()
		}
		if err != nil { // nothing has been sent
			return nil, err
		}
		results, failed, err := t.Wait(ctx)
		check, guards := failed.(*zk.CheckVersionRequest)
		guards = guards && slices.Contains(guard, failed)
		switch {
		case err == nil:
			return c.callerResults(results.All()[len(guard):]), nil
		case guards && errors.Is(err, zk.ErrNoNode):
			if err := l.guardFailed(ctx, check); err != nil { // nothing was done
				return nil, err
			}
			continue
		case failed != nil && !guards:
			return nil, fmt.Errorf("operation %d: %w", slices.Index(ops, failed), err)
		case errors.Is(err, zkconn.ErrNotSent):
			continue
		case zkconn.Transient(err), errors.Is(err, zkconn.ErrSessionOver), isContextErr(ctx, err):
			return nil, fmt.Errorf("%w: %w", ErrUncertain, err)
		}
		return nil, err
	}
}

// guard returns the checks that Commit puts before its operations.
func (l *Lease) guard() []any {
	paths := l.g.place().paths()
	checks := make([]any, len(paths))
	for i, path := range paths {
		checks[i] = &zk.CheckVersionRequest{Path: path, Version: -1}
	}
	return checks
}

// mapOps returns a caller's operations as they are to be sent.
func (c *Client) mapOps(ops []any) ([]any, error) {
	mapped := make([]any, len(ops))
	for i, op := range ops {
		var err error
		if mapped[i], err = c.mapOp(op); err != nil {
			return nil, fmt.Errorf("operation %d: %w", i, err)
		}
	}
	return mapped, nil
}

// callerResults takes Options.Prefix off the results of a caller's operations.
func (c *Client) callerResults(rs []zk.MultiResponse) []zk.MultiResponse {
	for i := range rs {
		rs[i].String = strings.TrimPrefix(rs[i].String, c.prefix)
	}
	return rs
}

// guardFailed is for a Commit whose guard did not find its place. It returns why the
// lease has ended, nil if a downgrade was quicker and the grant has another place.
func (l *Lease) guardFailed(ctx context.Context, check *zk.CheckVersionRequest) error {
	if err := l.g.awaitChange(ctx); err != nil {
		return err
	}
	if !l.g.place().has(check.Path) {
		return nil
	}
	l.g.placeDeleted(check.Path)
	return l.g.checkHeld()
}

// mapOp returns a caller's operation as it is to be sent. The two share the data.
func (c *Client) mapOp(op any) (_ any, err error) {
	switch op := op.(type) {
	case *zk.CreateRequest:
		if op == nil {
			break
		}
		return c.mapCreate(op)
	case *zk.SetDataRequest:
		if op == nil {
			break
		}
		m := &zk.SetDataRequest{Data: op.Data, Version: op.Version}
		if m.Path, err = c.resolve(op.Path); err != nil {
			return nil, fmt.Errorf("set data of %q: %w", op.Path, err)
		}
		// The servers let the session write its own places, but such a write is the
		// signal that the holder leaves.
		if p, ok := parsePlaceName(m.Path[strings.LastIndexByte(m.Path, '/')+1:], lockKinds); ok && p.signals() {
			return nil, fmt.Errorf("set data of %q: it is a place in a line", op.Path)
		}
		return m, nil
	case *zk.DeleteRequest:
		if op == nil {
			break
		}
		m := &zk.DeleteRequest{Version: op.Version}
		if m.Path, err = c.resolve(op.Path); err != nil {
			return nil, fmt.Errorf("delete %q: %w", op.Path, err)
		}
		return m, nil
	case *zk.CheckVersionRequest:
		if op == nil {
			break
		}
		m := &zk.CheckVersionRequest{Version: op.Version}
		if m.Path, err = c.resolve(op.Path); err != nil {
			return nil, fmt.Errorf("check %q: %w", op.Path, err)
		}
		return m, nil
	default:
		return nil, fmt.Errorf("%T is none of *zk.CreateRequest, *zk.SetDataRequest, *zk.DeleteRequest, *zk.CheckVersionRequest", op)
	}
	return nil, fmt.Errorf("nil %T", op)
}

func (c *Client) mapCreate(op *zk.CreateRequest) (_ any, err error) {
	if op.Flags&^(zk.FlagEphemeral|zk.FlagSequence) != 0 {
		return nil, fmt.Errorf("create %s: flags %d: a transaction cannot create containers or TTL nodes", op.Path, op.Flags)
	}
	m := &zk.CreateRequest{Data: op.Data, Acl: c.acl, Flags: op.Flags}
	path, suffix := op.Path, ""
	if op.Flags&zk.FlagSequence != 0 && strings.HasSuffix(path, "/") {
		path, suffix = path+"0", "0" // a name that is only the number is fine
	}
	if m.Path, err = c.resolve(path); err != nil {
		return nil, fmt.Errorf("create %q: %w", op.Path, err)
	}
	m.Path = strings.TrimSuffix(m.Path, suffix)
	if op.Acl != nil {
		if m.Acl, err = expandACL(op.Acl, c.auth(), c.digest); err != nil {
			return nil, fmt.Errorf("create %s: %w", op.Path, err)
		}
	}
	return m, nil
}
