// Package watch follows a znode through changes, disconnections and sessions.
package watch

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// State is a znode, or none, at some moment. It is shared: Data and Children must not be
// changed.
type State struct {
	Data     []byte
	Children []string
	Stat     *zk.Stat // nil: there is no znode
}

// ErrWentBack is returned if all that the servers report, for as long as a session timeout,
// is older than what was told.
var ErrWentBack = errors.New("the servers report an earlier state than before")

// Follower tells what a znode is, and then what has become of it after each change. It tells
// no state that is older than one before, unless the servers have lost transactions. A slow
// caller gets the latest state and skips those between.
//
// What orders the states of a session is its connection: a server that is behind what the
// session was told refuses it. A new session, which was told nothing, may be served by a server
// that lags, so it begins with a sync. Servers take in a session by a transaction, which
// comes after all that was told before, so no leader that knows the session answers the sync
// with less than that. This also holds for "no znode", which bears no zxid of its own.
type Follower struct {
	Path     string
	Children bool
	Tell     func(State) error

	told    bool
	zxid    int64 // of the znode that was told last, see zxidOf; 0: none in this history
	history int64 // of the session then
	gone    bool
	last    *zkconn.Watch
}

// Follow follows the znode until the session ends, and returns ErrSessionOver then. Call it
// with one session after the other.
func (f *Follower) Follow(ctx context.Context, s *zkconn.Session) error {
	if err := f.Begin(ctx, s); err != nil {
		return err
	}
	for {
		now, isNew, w, err := f.Next(ctx, s)
		if err != nil {
			return err
		}
		if isNew {
			if err := f.Tell(now); err != nil {
				return err
			}
		}
		if err := zkconn.Until(ctx, s, w.Fired()); err != nil {
			return err
		}
	}
}

// Begin is for a caller that waits for more than the znode: it begins a session, in which
// Next is to be called each time that the watch which it returned has fired, or at any time.
func (f *Follower) Begin(ctx context.Context, s *zkconn.Session) error {
	f.last = nil
	return s.Sync(ctx, f.Path)
}

// Next returns what the znode is, whether that is another state than it returned before, and
// the watch that fires when it changes. It sends nothing while the last watch has not fired.
func (f *Follower) Next(ctx context.Context, s *zkconn.Session) (now State, isNew bool, w *zkconn.Watch, err error) {
	exists := f.last == nil || !f.last.HasFired() && !f.gone || f.last.HasFired() && !f.last.Deleted()
	for old := 0; ; old++ {
		now, w, err = f.look(ctx, s, exists)
		switch {
		case err != nil:
			return now, false, nil, err
		case !f.isOld(now, s.History()):
			f.last = w
			if now.Stat != nil && now.Stat.EphemeralOwner != 0 { // another session may have had one at this path
				w.FireInNewHistory()
			}
			return now, f.note(now, s.History()), w, nil
		case old == zkconn.MaxTries:
			return now, false, nil, ErrWentBack
		}
		if err := f.awaitNewer(ctx, s, w); err != nil {
			return now, false, nil, err
		}
		exists = true
	}
}

// look returns what the znode is, and a watch that fires when that changes. exists says
// whether it probably exists, which saves a request.
func (f *Follower) look(ctx context.Context, s *zkconn.Session, exists bool) (State, *zkconn.Watch, error) {
	set := s.Watch
	if f.Children {
		set = s.WatchChildren
	}
	for {
		if exists {
			w, err := set(ctx, f.Path)
			if err == nil {
				return State{w.Data, w.Children, &w.Stat}, w, nil
			}
			if !errors.Is(err, zk.ErrNoNode) {
				return State{}, nil, err
			}
		}
		w, err := s.WatchExistence(ctx, f.Path)
		if err != nil || w.Absent {
			return State{}, w, err
		}
		exists = true
	}
}

// zxidOf returns the zxid of the last change, which grows from one incarnation of the znode
// to the next, too.
func (f *Follower) zxidOf(stat *zk.Stat) int64 {
	if f.Children {
		return stat.Pzxid
	}
	return stat.Mzxid
}

// isOld reports whether something newer was told. In a new history of the session, the servers
// show all that they have not lost.
func (f *Follower) isOld(now State, history int64) bool {
	if now.Stat == nil || history > f.history {
		return false
	}
	zxid := f.zxidOf(now.Stat)
	return zxid < f.zxid || f.gone && zxid == f.zxid
}

// note notes what is to be told, and reports whether it is another state than before.
func (f *Follower) note(now State, history int64) bool {
	last := *f
	f.told, f.gone, f.history = true, now.Stat == nil, history
	switch {
	case !f.gone:
		f.zxid = f.zxidOf(now.Stat)
	case history > last.history: // the next znode's zxid may be lower
		f.zxid = 0
	}
	return !last.told || f.gone != last.gone || !f.gone && f.zxid != last.zxid
}

// awaitNewer gives the server some time to catch up.
func (f *Follower) awaitNewer(ctx context.Context, s *zkconn.Session, w *zkconn.Watch) error {
	late, cancel := context.WithTimeout(ctx, s.Timeout()/zkconn.MaxTries)
	defer cancel()
	_ = zkconn.Until(late, s, w.Fired()) // the end of ctx, or of the session, ends Sync, too
	return s.Sync(ctx, f.Path)
}
