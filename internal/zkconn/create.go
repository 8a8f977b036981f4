package zkconn

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"
)

// CreateContainer creates a container znode, and containers without data above it
// where they are missing, with the session's ACL. zk.ErrNodeExists is returned where
// it exists. The servers may reap a container that is not in use, so this is repeated, at
// most MaxTries times.
//
// Before ZooKeeper 3.10 the servers never reap a container that has had no child
// (ContainerManager.getCandidates), and the caller may never come to create one. So the
// transaction that creates the container also creates a child, and deletes it.
func (s *Session) CreateContainer(ctx context.Context, path string, data []byte) error {
	acl := s.ACL()
	create := &zk.CreateRequest{Path: path, Data: data, Acl: acl, Flags: zk.FlagContainer}
	ops := []any{create,
		&zk.CreateRequest{Path: path + "/x", Acl: acl},
		&zk.DeleteRequest{Path: path + "/x", Version: -1}}
	for tries := 0; tries < MaxTries; {
		o := s.Multi(ctx, ops...)
		switch {
		case o.Applied():
			s.cfg.Created(path, data, o.results[0].Stat)
			return nil
		case o.Transient(): // the next attempt shows whether it was created
			continue
		case o.RefusedIn(ops[1:], zk.ErrNoAuth): // the ACL forbids this session to use it
			ops = ops[:1]
		case o.Is(zk.ErrNoNode) && Parent(path) != "":
			err := s.CreateContainer(ctx, Parent(path), nil)
			if err != nil && !errors.Is(err, zk.ErrNodeExists) {
				return err
			}
			tries++
		default:
			return o.Err()
		}
	}
	return ErrContended
}

// CreateParents creates the znodes above path that are missing, without data and with the session's
// ACL. They are persistent.
func (s *Session) CreateParents(ctx context.Context, path string) error {
	above := Parent(path)
	if above == "" {
		return nil
	}
	for tries := 0; tries < MaxTries; {
		_, err := s.Exists(ctx, above)
		if !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		if err := s.CreateParents(ctx, above); err != nil {
			return err
		}
		o := s.Multi(ctx, &zk.CreateRequest{Path: above, Acl: s.ACL()})
		switch {
		case o.Applied(), o.Is(zk.ErrNodeExists):
			return nil
		case o.Transient(): // the next attempt shows whether it was created
		case o.Is(zk.ErrNoNode): // somebody has deleted what is above
			tries++
		default:
			return o.Err()
		}
	}
	return ErrContended
}

// CreateSize returns the size of a create request's record.
func CreateSize(path string, data []byte, acl []zk.ACL) int {
	return len(appendOp(nil, &zk.CreateRequest{Path: path, Data: data, Acl: acl}))
}
