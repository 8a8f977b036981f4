package zkconn

import (
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// OpenUp is for a znode that the server has refused to let the session write. If the znode
// has the list by which only the library may write, the server computes the ids of digests
// by another algorithm, and nobody may: so the znode gets Config.ACL, and the session does
// without the identities from then on. It reports whether a write may succeed now. A znode
// with another list stays as it is.
func (s *Session) OpenUp(ctx context.Context, path string) (bool, error) {
	for {
		acl, stat, err := s.GetACL(ctx, path)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return true, nil // and made anew for everybody
		case errors.Is(err, zk.ErrNoAuth):
			return false, nil
		case err != nil:
			return false, err
		case slices.Equal(acl, s.cfg.ACL): // somebody was quicker, or the reply was lost
			return true, nil
		case s.owned == nil || !slices.Equal(acl, s.owned):
			return false, nil
		}
		s.unknown.Store(true)
		switch err := s.setACL(ctx, path, s.cfg.ACL, stat.Aversion); {
		case err == nil:
			return true, nil
		case errors.Is(err, zk.ErrNoAuth):
			return false, nil
		case !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrNoNode):
			return false, err
		}
	}
}

// MayOpenUp reports whether a znode with that list may be one that OpenUp gives another; nil:
// the list was the session's own.
func (s *Session) MayOpenUp(acl []zk.ACL) bool {
	return s.owned != nil && (acl == nil || slices.Equal(acl, s.owned))
}

// setACL sets a znode's ACL over that version of the list. BadVersion also is the answer
// where it was set and the reply was lost.
func (s *Session) setACL(ctx context.Context, path string, acl []zk.ACL, version int32) error {
	start := func() (*Reading, error) {
		frame := jute.AppendString(make([]byte, wire.Headroom), path)
		return s.startCall(jute.OpSetACL, jute.AppendInt32(appendACL(frame, acl), version))
	}
	return s.untilAnswered(ctx, jute.OpSetACL, start, func(d *jute.Decoder) { decodeStat(d) })
}
