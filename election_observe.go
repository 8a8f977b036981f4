package zkrecipes

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/election"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/watch"
)

// Leader is what an election's observers see. Observe yields the zero Leader where there is
// none.
type Leader struct {
	Value   []byte    // as campaigned with, or proclaimed last
	Token   Token     // of the Term
	Session int64     // ZooKeeper's session id
	Since   time.Time // when the term began, by the servers' clock
}

// None reports whether there is no leader.
func (l Leader) None() bool { return l.Token == 0 }

// ErrNoLeader is returned by Election.Leader if nobody leads.
var ErrNoLeader = errors.New("nobody leads")

// Leader returns the leader, or ErrNoLeader if there is none or the path does not exist. By
// the time it returns, that may have changed. It blocks until a server has caught up with
// its leader and answered. Cost: two requests.
func (e *Election) Leader(ctx context.Context) (l Leader, err error) {
	err = e.self().inSessions(ctx, "look at", func(ctx context.Context, s *session.Session, path string) error {
		path += election.LeaderName
		if err := s.Sync(ctx, path); err != nil {
			return err
		}
		data, stat, err := s.Get(ctx, path)
		switch {
		case err == nil:
			l = newLeader(data, stat)
		case !errors.Is(err, zk.ErrNoNode):
			return err
		}
		if l.None() { // also if the znode is somebody else's
			return ErrNoLeader
		}
		return nil
	})
	return l, err
}

// Observe yields the leader or none, and then each change: another leader, another value,
// or none. A slow observer sees the latest change and skips those before. Observe never
// yields a term with a lower Token than one before, or an older value, although its
// server may lag behind the others. It goes on through disconnections, during which
// nothing is yielded, and in the next session, and ends when ctx does. The path need not
// exist.
//
// A client that may not read <path>/leader may get no event when it is created, and then
// sees no leader. If it cannot go on, Observe yields an error and ends: the error of ctx,
// ErrClosed, or the servers' (zk.ErrNoAuth). It does so, too, if what a server reports is
// older than what was seen, for as long as a session timeout. Then the ensemble was probably
// restored from a backup.
//
// Cost: two or three requests when it begins and in each new session. One request each
// time that the leader's znode is created, deleted or changed, and one more if it is
// created again at once. Observers of one Client on one path share these. No request while
// nothing changes.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return sequence(func(tell func(Leader) error) error {
		o := &observation{yield: tell}
		f := &watch.Follower{Tell: o.tell}
		return e.self().inSessions(ctx, "observe", func(ctx context.Context, s *session.Session, path string) error {
			f.Path = path + election.LeaderName
			return f.Follow(ctx, s.Session)
		})
	})
}

// newLeader returns the leader whose znode that is, or none if no leader has created it.
func newLeader(data []byte, stat *zk.Stat) Leader {
	if stat == nil || stat.EphemeralOwner == 0 {
		return Leader{}
	}
	return Leader{
		Value: slices.Clone(data), Token: newToken(stat.Czxid),
		Session: stat.EphemeralOwner, Since: time.UnixMilli(stat.Ctime),
	}
}

// observation is one call of Observe.
type observation struct {
	yield   func(Leader) error
	yielded bool
	last    Leader // that was yielded
}

// tell yields what has changed.
func (o *observation) tell(s watch.State) error {
	now := newLeader(s.Data, s.Stat)
	if o.yielded && now.Token == o.last.Token && bytes.Equal(now.Value, o.last.Value) {
		return nil
	}
	o.yielded, o.last = true, now
	return o.yield(now)
}
