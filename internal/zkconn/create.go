package zkconn

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// CreateContainer creates a container znode, and containers without data above it
// where they are missing. zk.ErrNodeExists is returned where it exists. The
// servers may reap a container before its first child is created, so this is
// repeated, at most MaxTries times.
func (s *Session) CreateContainer(ctx context.Context, path string, data []byte, acl []zk.ACL) error {
	if n := 8 + CreateSize(path, data, acl); n > jute.MaxFrame {
		return TooLarge(n)
	}
	if err := s.CheckIDs(ctx, acl); err != nil {
		return err
	}
	for tries := 0; tries < MaxTries; {
		_, err := await(ctx, s, func(conn *zk.Conn) (string, error) {
			return conn.CreateContainer(path, data, zk.FlagContainer, acl)
		})
		err = quotaError(err)
		switch {
		case Transient(err): // the next attempt shows whether it was created
			continue
		case errors.Is(err, zk.ErrNoNode) && Parent(path) != "":
			err := s.CreateContainer(ctx, Parent(path), nil, acl)
			if err != nil && !errors.Is(err, zk.ErrNodeExists) {
				return err
			}
			tries++
		default:
			return err
		}
	}
	return ErrContended
}

// CreateSize returns the size of a create request's record.
func CreateSize(path string, data []byte, acl []zk.ACL) int {
	n := 4 + len(path) + 4 + len(data) + 4 + 4
	for _, a := range acl {
		n += 4 + 4 + len(a.Scheme) + 4 + len(a.ID)
	}
	return n
}
