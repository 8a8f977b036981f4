package election

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/watch"
)

// Leader is what the leader's znode says.
type Leader struct {
	Value   []byte
	Czxid   int64 // 0: there is no leader
	Session int64
	Since   time.Time
}

// Find returns the leader of the election at that absolute path, as the leader of the servers
// knows it.
func Find(ctx context.Context, s *session.Session, path string) (Leader, error) {
	path += LeaderName
	if err := s.Sync(ctx, path); err != nil {
		return Leader{}, err
	}
	data, stat, err := s.Get(ctx, path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return Leader{}, nil
	case err != nil:
		return Leader{}, err
	}
	return newLeader(data, stat), nil
}

// newLeader returns the leader whose znode that is, or none if no leader has created it.
func newLeader(data []byte, stat *zk.Stat) Leader {
	if stat == nil || stat.EphemeralOwner == 0 {
		return Leader{}
	}
	return Leader{
		Value: slices.Clone(data), Czxid: stat.Czxid,
		Session: stat.EphemeralOwner, Since: time.UnixMilli(stat.Ctime),
	}
}

// Observer yields the leader or none, and then each change.
type Observer struct {
	yield   func(Leader) error
	yielded bool
	last    Leader
	znode   watch.Follower
}

// NewObserver returns an Observer for one iteration.
func NewObserver(yield func(Leader) error) *Observer {
	o := &Observer{yield: yield}
	o.znode.Tell = o.tell
	return o
}

// Follow yields until the session or ctx ends. path is that of the election, absolute.
func (o *Observer) Follow(ctx context.Context, s *session.Session, path string) error {
	o.znode.Path = path + LeaderName
	return o.znode.Follow(ctx, s.Session)
}

// tell yields what has changed.
func (o *Observer) tell(s watch.State) error {
	now := newLeader(s.Data, s.Stat)
	if o.yielded && now.Czxid == o.last.Czxid && bytes.Equal(now.Value, o.last.Value) {
		return nil
	}
	o.yielded, o.last = true, now
	return o.yield(now)
}
