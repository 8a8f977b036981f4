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

// Commit carries out the operations in one transaction, and only if the lock
// is still held when the servers apply it. ops are *zk.CreateRequest,
// *zk.SetDataRequest, *zk.DeleteRequest and *zk.CheckVersionRequest, with paths
// under Options.Prefix; a nil ACL means Options.ACL, and entries of the scheme
// "auth" are replaced by the ids of Options.Auth. The results are those of ops,
// in order. With no ops it asks the servers whether the lock is held.
//
// Errors: ErrLost, and nothing was done; an operation's own error, which names
// it, and nothing was done; a request above the servers' limit (1,048,575
// bytes) is refused before it is sent; ErrUncertain where the reply was lost,
// or ctx ended first: it may have been done. It blocks until a server answers,
// and costs one request and one commit.
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
	guarded := make([]any, 1, 1+len(ops)) // the guard comes first
	for i, op := range ops {
		mapped, err := c.mapOp(op)
		if err != nil {
			return nil, fmt.Errorf("operation %d: %w", i, err)
		}
		guarded = append(guarded, mapped)
	}
	for {
		if ctx.Err() != nil {
			return nil, zkconn.ContextErr(ctx)
		}
		if err := l.Err(); err != nil {
			return nil, errors.Unwrap(err)
		}
		check := l.Check()
		guarded[0] = check
		t, err := s.Begin(ctx, guarded...)
		if errors.Is(err, zkconn.ErrSessionOver) {
			err = l.g.check()
		}
		if err != nil { // nothing has been sent
			return nil, err
		}
		results, failed, err := t.Wait(ctx)
		switch {
		case err == nil:
			rs := results.All()[1:]
			for i := range rs {
				rs[i].String = strings.TrimPrefix(rs[i].String, c.prefix)
			}
			return rs, nil
		case failed == any(check) && errors.Is(err, zk.ErrNoNode):
			if err := l.g.settled(ctx); err != nil { // and nothing was done
				return nil, err
			}
			if l.g.place().path != check.Path { // a downgrade was quicker
				continue
			}
			l.g.placeDeleted(check.Path)
			return nil, l.g.check()
		case failed != nil && failed != any(check):
			return nil, fmt.Errorf("operation %d: %w", slices.Index(guarded, failed)-1, err)
		case errors.Is(err, zkconn.ErrNotSent):
			continue
		case zkconn.Transient(err), errors.Is(err, zkconn.ErrSessionOver), isContextErr(ctx, err):
			return nil, fmt.Errorf("%w: %w", ErrUncertain, err)
		}
		return nil, err
	}
}

// mapOp returns a user's operation as it is to be sent. It shares the data.
func (c *Client) mapOp(op any) (_ any, err error) {
	switch op := op.(type) {
	case *zk.CreateRequest:
		if op == nil {
			break
		}
		if op.Flags&^(zk.FlagEphemeral|zk.FlagSequence) != 0 {
			return nil, fmt.Errorf("create %s: flags %d: a transaction creates no containers and no TTL nodes", op.Path, op.Flags)
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
			if m.Acl, err = expandACL(op.Acl, c.auth); err != nil {
				return nil, fmt.Errorf("create %s: %w", op.Path, err)
			}
		}
		return m, nil
	case *zk.SetDataRequest:
		if op == nil {
			break
		}
		m := &zk.SetDataRequest{Data: op.Data, Version: op.Version}
		if m.Path, err = c.resolve(op.Path); err != nil {
			return nil, fmt.Errorf("set data of %q: %w", op.Path, err)
		}
		// The session may write its own places, but that is how a holder says that
		// it leaves.
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
