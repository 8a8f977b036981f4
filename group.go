package zkrecipes

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/group"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// The recipe: a member is an ephemeral znode, which its Client creates again in each session
// (internal/group, keep.go). Those that watch list the path and read what is new (view.go).

// Group says which processes are there. Each member has an ephemeral znode below the path, with
// the member's id as its name and the member's data. Members of Curator's GroupMember on the same path are
// in the same group. A Group is only a name. Values are safe for concurrent use.
//
// Presence is no lock. A member whose session has ended is present again in the next one, and
// watchers may take a process for present that is cut off, for as long as its session lasts. If
// only one process may act, use a Mutex or an Election.
//
// Use a path of its own. Every child of the path is a member, whoever has created it. The
// path is a container without data: the Client or the servers delete it when it has been empty
// for a while. That changes nothing for those who watch.
type Group struct{ at session.At }

// NewGroup returns the group with that path. It sends nothing. An invalid path is reported on
// first use.
func NewGroup(c *Client, path string) *Group {
	return &Group{session.At{Client: c.core(), Path: path, Recipe: "group"}}
}

// Path returns the path as the caller gave it, without Options.Prefix.
func (g *Group) Path() string { return g.self().Path }

// Member is what a Group's members and watchers see of a member.
type Member struct {
	ID      string    // the name of its znode
	Data    []byte    // as joined with, or updated last
	Session int64     // ZooKeeper's session id; 0: this Client may not read the znode
	Since   time.Time // when the znode was created, by the servers' clock
}

// JoinOption is an option of Group.Join, which MemberID returns. The zero value does nothing.
type JoinOption struct{ id string }

// MemberID makes id the member's id. It must be valid as the name of a znode, and no other
// member may have it. Without the option, or if id is empty, the id is Options.Identity and a random
// text, so it is another one for each call of Join. Join returns an error if there are two ids.
func MemberID(id string) JoinOption { return JoinOption{id} }

// Join makes the caller a member, and returns once its znode is there. It is there until Leave
// is called or the Client is closed: if the session ends, or somebody else deletes the znode,
// the Client creates it again, with the data that were written last.
//
// Join blocks through disconnections and into the next session. It also waits while a znode of
// another session has the id: for example that of the same process before it was restarted, until
// its session has timed out.
//
//   - The error of ctx is returned if it ended first. The znode is deleted, or will be.
//   - ErrClosed is returned if the Client was closed, or is being shut down.
//   - zk.ErrNodeExists is returned if this Client has a member with that id.
//   - ErrSessionFull is returned if the session has no room for the znode, and ErrTooLarge
//     for data too large for one request.
//   - ErrPathInUse is returned if the id is the name of a znode that is not ephemeral.
//   - An error of the servers, such as zk.ErrNoAuth, is returned if they refuse the znode. If
//     they refuse it in a later session, the Logger gets a warning, and the Client tries again
//     each second.
//
// Join costs two requests and one commit, and two of each more if the path does not exist, and
// for each missing parent. The same again in each new session.
func (g *Group) Join(ctx context.Context, data []byte, opts ...JoinOption) (*Membership, error) {
	r := g.self()
	if err := r.check(ctx); err != nil {
		return nil, fail("join", r.Path, err)
	}
	opts = slices.DeleteFunc(slices.Clone(opts), func(o JoinOption) bool { return o == JoinOption{} })
	if len(opts) > 1 {
		return nil, fail("join", r.Path, errors.New("MemberID is given more than once"))
	}
	id := group.NewID(r.Client.Identity)
	for _, o := range opts {
		id = o.id
	}
	if err := group.CheckID(id); err != nil {
		return nil, fail("join", r.Path, err)
	}
	ctx, done := r.Client.BindWait(ctx)
	defer done()
	m, err := group.Join(ctx, r.Client, r.Abs(), id, data)
	if err != nil {
		return nil, fail("join", r.Path, err)
	}
	return &Membership{m, id, r.Path}, nil
}

// Members returns the members, in the order of their ids. None is no error, nor is a path that
// does not exist. It blocks until a server has caught up with its leader and answered. By the
// time it returns, the answer may have changed. Cost: two requests, and one for each member.
func (g *Group) Members(ctx context.Context) (ms []Member, err error) {
	err = g.self().inSessions(ctx, "list", func(ctx context.Context, s *session.Session, path string) error {
		present, err := group.List(ctx, s, path)
		ms = newMembers(present)
		return err
	})
	return ms, err
}

func newMembers(present []group.Present) []Member {
	ms := make([]Member, len(present))
	for i, p := range present {
		ms[i] = Member{ID: p.ID, Data: slices.Clone(p.Data), Session: p.Stat.EphemeralOwner}
		if p.Stat.Ctime != 0 {
			ms[i].Since = time.UnixMilli(p.Stat.Ctime)
		}
	}
	return ms
}

// Watch yields the members, in the order of their ids, and then again after each change: members
// have come or left, have other data, or are there in another session. What happens within a tenth
// of a second is yielded together. The rules and the errors are those of Client.Watch. The members
// are read one by one, so they may not all have been there at one moment.
//
// Cost: two or three requests when it begins and in each new session, and one for each member.
// Then one listing for a change, one read for each new member, and one for each that was
// updated. Listings are a tenth of a second apart: a thousand members that restart within a
// second cost each watcher eleven at most. The server keeps a watch on the path and one on each
// member for each session, which the calls of a Client share.
func (g *Group) Watch(ctx context.Context) iter.Seq2[[]Member, error] {
	return sequence(func(tell func([]Member) error) error {
		return g.follow(ctx, func(present []group.Present) error { return tell(newMembers(present)) })
	})
}

// follow calls tell with the members, and again after each change. It returns when ctx ends or tell fails.
func (g *Group) follow(ctx context.Context, tell func([]group.Present) error) error {
	var v *group.View
	return g.self().inSessions(ctx, "watch", func(ctx context.Context, s *session.Session, path string) error {
		if v == nil {
			v = group.NewView(path, tell)
		}
		return v.Follow(ctx, s)
	})
}

func (g *Group) self() recipe {
	if g == nil {
		return recipe{}
	}
	return recipe{At: g.at}
}

// Membership is a member of a Group that this Client keeps present. It is safe for concurrent use.
type Membership struct {
	member *group.Member
	id     string
	path   string // of the group
}

// ID returns the member's id.
func (m *Membership) ID() string {
	if m == nil {
		return ""
	}
	return m.id
}

// Update gives the member other data. It blocks, through disconnections and into the next session,
// until the servers have them, or those of a later Update. If ctx ends first, or the servers refuse
// the member, the error is returned, and the member will have these data all the same, once it is
// there. ErrTooLarge is returned for data too large for one request, and ErrClosed if the Client
// was closed. After Leave, Update returns ErrReleased. It costs one request and one commit, and one
// read of each watcher.
func (m *Membership) Update(ctx context.Context, data []byte) error {
	switch {
	case m == nil || m.member == nil:
		return fail("update", "", errZeroValue)
	case ctx == nil:
		return fail("update", m.path, errs.ErrNilContext)
	}
	return fail("update", m.path, m.member.Update(ctx, data))
}

// Leave ends the membership. While connected, it blocks until the znode is deleted. While
// disconnected it returns at once, and the znode is deleted in the background or with its session.
// It takes no context on purpose, like Lease.Release. A second Leave does nothing. nil is returned,
// too, if the Client was closed before. If the servers refuse to delete the znode, Leave returns
// why, and the Client tries again until the session ends. It costs one request and one commit.
func (m *Membership) Leave() error {
	if m == nil || m.member == nil {
		return fail("leave", "", errZeroValue)
	}
	return fail("leave", m.path, m.member.Leave())
}
