package zkrecipes

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/election"
	"github.com/zkrecipes/zkrecipes/internal/placename"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Contenders returns the leader and then the candidates in the order of the line. The leader's
// Place and Path are those of <path>/leader, HeldSince is when its term began, by the servers'
// clock, and Identity and Since are those of its znode in the line. Identity is empty if
// somebody has deleted that. Client.Evict deposes the leader by deleting <path>/leader.
//
// A candidate at its turn that has not created <path>/leader yet does not hold. For a path
// without an election, see Leader and ErrUnused. Contenders blocks until the servers answer.
// Cost: three requests, and one for each place in the line.
func (e *Election) Contenders(ctx context.Context) ([]Contender, error) {
	return e.self().listContenders(ctx, e.contendersIn)
}

func (e *Election) contendersIn(ctx context.Context, s *session.Session) ([]Contender, error) {
	cs, err := e.self().contendersIn(ctx, s)
	if err != nil {
		return nil, err
	}
	for i := range cs { // who leads has created the leader's znode
		cs[i].Held, cs[i].HeldSince = false, time.Time{}
	}
	path := e.line.Path + election.LeaderName
	stat, err := s.Exists(ctx, e.line.Client.Abs(path))
	switch {
	case errors.Is(err, zk.ErrNoNode), err == nil && stat.EphemeralOwner == 0: // somebody else's
		return cs, nil
	case err != nil:
		return nil, err
	}
	began := time.UnixMilli(stat.Ctime)
	if len(cs) == 0 || cs[0].Session != stat.EphemeralOwner {
		cs = slices.Insert(cs, 0, Contender{Session: stat.EphemeralOwner, Since: began})
	}
	cs[0].Place, cs[0].Path = election.LeaderName[1:], path
	cs[0].Czxid, cs[0].Token = stat.Czxid, newToken(stat.Czxid)
	cs[0].Held, cs[0].HeldSince = true, began
	return cs, nil
}

var errLeaderLeft = errors.New("the leader's place in the line is gone; the next candidate replaces its znode")

// checksOfLeader returns the operation that a transaction needs in order to delete the leader's
// znode with that Stat, and not the next leader's, which has the same name: it checks the
// leader's place. While that stands, nobody else leads.
func checksOfLeader(ctx context.Context, s *session.Session, path string, stat *zk.Stat) ([]any, error) {
	dir := zkconn.Parent(path)
	names, _, err := s.Children(ctx, dir)
	if err != nil {
		return nil, err
	}
	ms := placename.ParseAll(names, placename.LockKinds)
	if len(ms) == 0 {
		return nil, errLeaderLeft
	}
	first := dir + "/" + slices.MinFunc(ms, placename.Parts.Compare).Name
	place, err := s.Exists(ctx, first)
	switch {
	case errors.Is(err, zk.ErrNoNode), err == nil && place.EphemeralOwner != stat.EphemeralOwner:
		return nil, errLeaderLeft
	case err != nil:
		return nil, err
	}
	return []any{&zk.CheckVersionRequest{Path: first, Version: -1}}, nil
}
