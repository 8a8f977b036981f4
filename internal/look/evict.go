package look

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	elections "github.com/zkrecipes/zkrecipes/internal/election"
	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	semaphores "github.com/zkrecipes/zkrecipes/internal/semaphore"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// ErrHolder is the error of an Evict for a contender that holds.
var ErrHolder = errors.New("the contender is a holder (EvictOptions.Holder evicts it all the same)")

// Evict deletes the contender's znode, that of a holder only if holder is true. It reports false
// if the znode had gone before.
func (c Contender) Evict(ctx context.Context, client *session.Client, holder bool) (evicted bool, err error) {
	lost := false
	evicted, err = session.InSessions(ctx, client, func(s *session.Session) (bool, error) {
		path := client.Abs(c.Path)
		if err := s.Sync(ctx, path); err != nil { // the list may be of a server that is ahead
			return false, err
		}
		return c.evict(ctx, s, path, holder, &lost)
	})
	return evicted, errs.UncertainIf(lost && err != nil, err)
}

// evict deletes the contender's znode, which is at path; that of a holder only if holder is
// true. It sets lost if the znode may have been deleted although no reply says so.
func (c Contender) evict(ctx context.Context, s *session.Session, path string, holder bool, lost *bool) (evicted bool, err error) {
	for {
		stat, err := s.Exists(ctx, path)
		switch {
		case errors.Is(err, zk.ErrNoNode), err == nil && stat.Czxid != c.Czxid:
			return *lost, nil
		case err != nil:
			return false, err
		}
		checks, err := c.checks(ctx, s, path, stat, holder)
		if errors.Is(err, errNextLeader) {
			continue
		}
		if err != nil {
			return false, err
		}
		ops := append(checks, &zk.DeleteRequest{Path: path, Version: -1})
		t, err := s.Begin(ctx, ops...)
		if err != nil {
			return false, err
		}
		o := t.Wait(ctx)
		*lost = *lost || !o.Unsent() && (o.Transient() || o.SessionOver() || errs.IsContextErr(ctx, o.Err()))
		switch {
		case o.Applied():
			return true, nil
		case !o.Transient() && !o.Is(zk.ErrNoNode): // else it has gone, or the one for whom it waits, or nobody knows: look again
			return false, o.Err()
		}
	}
}

// checks returns the operations that a transaction needs in order to delete the contender's
// znode, which has that Stat, and nobody else's; that of a holder only if holder is true.
func (c Contender) checks(ctx context.Context, s *session.Session, path string, stat *zk.Stat, holder bool) ([]any, error) {
	switch {
	case !strings.HasSuffix(path, elections.LeaderName) && holder:
		return nil, nil
	case !strings.HasSuffix(path, elections.LeaderName):
		return c.checksOfWaiter(ctx, s, path)
	case holder:
		return checksOfLeader(ctx, s, path, stat)
	}
	return nil, ErrHolder
}

// checksOfWaiter returns the operations that a transaction needs in order to fail if the place
// holds by then, or ErrHolder.
func (c Contender) checksOfWaiter(ctx context.Context, s *session.Session, path string) (checks []any, err error) {
	dir := zkconn.Parent(path)
	own, ok := layout.ParsePlace(path[len(dir)+1:], layout.LockKinds)
	switch {
	case !ok && (c.Held || len(semaphores.SlotsAmong([]string{path[len(dir)+1:]})) > 0): // a member of a barrier, or a slot
		return nil, ErrHolder
	case !ok:
		return nil, nil
	}
	if stepsAside(s, own) {
		return nil, nil
	}
	names, _, err := s.Children(ctx, dir)
	if err != nil {
		return nil, err
	}
	for _, m := range layout.ParsePlaces(names, layout.LockKinds) {
		if !stepsAside(s, m) && m.Compare(own) < 0 && line.WritersBlock(own.Kind, m.Kind) && !own.SharesWith(m) {
			return []any{&zk.CheckVersionRequest{Path: dir + "/" + m.Name, Version: -1}}, nil
		}
	}
	if later, err := grantsLater(ctx, s, dir); later || err != nil {
		return nil, err
	}
	return nil, ErrHolder
}

// stepsAside reports whether a place is never granted anything, and blocks nobody, because its
// number is beyond the limit.
func stepsAside(s *session.Session, m layout.PlaceName) bool {
	return m.Ours() && line.IsBeyondLimit(s.Client, m.Number)
}

// grantsLater reports whether nobody holds in the line with that path, because those that
// stand there take something else at their turn, by a transaction that deletes their places.
func grantsLater(ctx context.Context, s *session.Session, dir string) (bool, error) {
	data, _, err := s.Get(ctx, dir)
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNoAuth) {
		return false, nil
	}
	m, _ := layout.ParseMark("", data)
	return m.Recipe == semaphore || m.Recipe == queue, err
}

// ErrLeaderLeft is the error of an Evict for a leader whose place in the line is gone.
var ErrLeaderLeft = errors.New("the leader's place in the line is gone; the next candidate replaces its znode")

var errNextLeader = errors.New("there is another leader meanwhile")

// checksOfLeader returns the operation that a transaction needs in order to delete the leader's
// znode with that Stat, and not the next leader's, which has the same name: it checks the
// leader's place. While that stands, nobody else leads.
func checksOfLeader(ctx context.Context, s *session.Session, path string, stat *zk.Stat) ([]any, error) {
	dir := zkconn.Parent(path)
	names, _, err := s.Children(ctx, dir)
	if err != nil {
		return nil, err
	}
	ms := layout.ParsePlaces(names, layout.LockKinds)
	if len(ms) == 0 {
		return nil, ErrLeaderLeft
	}
	first := dir + "/" + slices.MinFunc(ms, layout.PlaceName.Compare).Name
	place, err := s.Exists(ctx, first)
	switch {
	case errors.Is(err, zk.ErrNoNode), err == nil && place.EphemeralOwner != stat.EphemeralOwner:
		return nil, ErrLeaderLeft
	case err != nil:
		return nil, err
	}
	// The next leader may be of the same session. So the leader's znode must still be the one of before.
	now, err := s.Exists(ctx, path)
	switch {
	case errors.Is(err, zk.ErrNoNode), err == nil && now.Czxid != stat.Czxid:
		return nil, errNextLeader
	case err != nil:
		return nil, err
	}
	return []any{&zk.CheckVersionRequest{Path: first, Version: -1}}, nil
}
