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
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
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
	err = e.self().inSessions(ctx, "look at", func(ctx context.Context, s *line.Session, path string) error {
		path += election.LeaderName
		if err := s.Sync(ctx, path); err != nil {
			return err
		}
		data, stat, err := s.Get(ctx, path)
		switch {
		case err == nil:
			l = newSighting(data, stat).Leader
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
	return func(yield func(Leader, error) bool) {
		o := &observation{yield: yield}
		err := e.self().inSessions(ctx, "observe", o.follow)
		if !o.ended {
			yield(Leader{}, err)
		}
	}
}

// sighting is a leader's znode, or none, at some moment.
type sighting struct {
	Leader
	czxid, mzxid int64 // 0: none
}

func newSighting(data []byte, stat *zk.Stat) sighting {
	if stat.EphemeralOwner == 0 { // no leader has created it
		return sighting{}
	}
	return sighting{
		Leader: Leader{
			Value: slices.Clone(data), Token: newToken(stat.Czxid, 0),
			Session: stat.EphemeralOwner, Since: time.UnixMilli(stat.Ctime),
		},
		czxid: stat.Czxid, mzxid: stat.Mzxid,
	}
}

// observation is one call of Observe.
type observation struct {
	yield func(Leader, error) bool
	ended bool // by the caller

	yielded bool
	last    Leader // that was yielded
	// The newest leader's znode that was seen, and whether none was seen since.
	czxid, mzxid int64
	gone         bool
}

var errEndedByCaller = errors.New("the caller ended the iteration")

// follow yields what happens during a session.
func (o *observation) follow(ctx context.Context, s *line.Session, path string) error {
	path += election.LeaderName
	// This session's server may lag behind the last session's. Within a session, servers
	// do not go back.
	if err := s.Sync(ctx, path); err != nil {
		return err
	}
	exists := true
	for old := 0; ; {
		now, w, err := sight(ctx, s, path, exists)
		if err != nil {
			return err
		}
		if o.isOld(now) {
			if old++; old > zkconn.MaxTries {
				return errWentBack
			}
			if err := awaitNewer(ctx, s, path, w); err != nil {
				return err
			}
			continue
		}
		old = 0
		if err := o.tell(now); err != nil {
			return err
		}
		select {
		case <-w.Fired():
		case <-s.Over():
			return zkconn.ErrSessionOver
		case <-ctx.Done():
			return s.ContextErr(ctx)
		}
		exists = !w.Deleted()
	}
}

// sight returns what the leader's znode says, and a watch that fires when that changes.
// exists says whether it probably exists, which saves a request.
func sight(ctx context.Context, s *line.Session, path string, exists bool) (sighting, *zkconn.Watch, error) {
	for {
		if exists {
			w, err := s.Watch(ctx, path)
			if err == nil {
				return newSighting(w.Data, &w.Stat), w, nil
			}
			if !errors.Is(err, zk.ErrNoNode) {
				return sighting{}, nil, err
			}
		}
		w, err := s.WatchExistence(ctx, path)
		if err != nil || w.Absent {
			return sighting{}, w, err
		}
		exists = true
	}
}

// tell yields what has changed.
func (o *observation) tell(now sighting) error {
	if o.gone = now.None(); !o.gone {
		o.czxid, o.mzxid = now.czxid, now.mzxid
	}
	if o.yielded && now.Token == o.last.Token && bytes.Equal(now.Value, o.last.Value) {
		return nil
	}
	o.yielded, o.last = true, now.Leader
	if !o.yield(now.Leader, nil) {
		o.ended = true
		return errEndedByCaller
	}
	return nil
}

var errWentBack = errors.New("the servers report an earlier leader than before")

// isOld reports whether something newer was seen.
func (o *observation) isOld(now sighting) bool {
	switch {
	case now.czxid == 0:
		return false
	case now.czxid == o.czxid:
		return o.gone || now.mzxid < o.mzxid
	}
	return now.czxid < o.czxid
}

// awaitNewer gives the server some time to catch up.
func awaitNewer(ctx context.Context, s *line.Session, path string, w *zkconn.Watch) error {
	late := time.NewTimer(s.Timeout() / zkconn.MaxTries)
	defer late.Stop()
	select {
	case <-w.Fired():
	case <-late.C:
	case <-s.Over():
	case <-ctx.Done():
		return s.ContextErr(ctx)
	}
	return s.Sync(ctx, path)
}
