package zkconn

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// CreateContainer creates a container znode, and containers without data above it
// where they are missing, with the session's ACL. zk.ErrNodeExists is returned where
// it exists. The servers may reap a container before its first child is created, so
// this is repeated, at most MaxTries times.
func (s *Session) CreateContainer(ctx context.Context, path string, data []byte) error {
	acl := s.ACL()
	if err := s.CheckIDs(ctx, acl); err != nil {
		return err
	}
	for tries := 0; tries < MaxTries; {
		stat, err := s.createContainer(ctx, &zk.CreateRequest{Path: path, Data: data, Acl: acl, Flags: zk.FlagContainer})
		switch {
		case err == nil:
			s.cfg.Created(path, data, stat)
			return nil
		case Transient(err): // the next attempt shows whether it was created
			continue
		case errors.Is(err, zk.ErrNoNode) && Parent(path) != "":
			err := s.CreateContainer(ctx, Parent(path), nil)
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

// createContainer sends one request, and returns the Stat of the new znode.
func (s *Session) createContainer(ctx context.Context, create *zk.CreateRequest) (stat *zk.Stat, err error) {
	frame := appendCreate(make([]byte, wire.Headroom, wire.Headroom+CreateSize(create.Path, create.Data, create.Acl)), create)
	if err := s.Ready(ctx); err != nil {
		return nil, err
	}
	call, err := s.send(jute.OpCreateContainer, frame)
	if err != nil {
		return nil, err
	}
	select {
	case <-call.Done():
	case <-ctx.Done():
		return nil, s.ContextErr(ctx)
	}
	err = (&Reading{call}).result(func(d *jute.Decoder) {
		_ = d.String()
		stat = decodeStat(d)
	})
	if s.IsOver() && Transient(err) {
		err = ErrSessionOver
	}
	s.backOff(ctx, jute.OpCreateContainer, err)
	return stat, err
}

// CreateSize returns the size of a create request's record.
func CreateSize(path string, data []byte, acl []zk.ACL) int {
	n := 4 + len(path) + 4 + len(data) + 4 + 4
	for _, a := range acl {
		n += 4 + 4 + len(a.Scheme) + 4 + len(a.ID)
	}
	return n
}
