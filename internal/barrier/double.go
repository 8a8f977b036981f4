package barrier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// DoubleBarrier is a double barrier of n members, which stand in the path itself.
type DoubleBarrier struct {
	members
	// agreedIn is the czxid of the path where all members were last seen to wait for n.
	agreedIn atomic.Int64
}

// NewDouble returns the double barrier with that threshold and path. Each join and each opening
// write the path's data, so an unchanged version tells that nobody has come.
func NewDouble(c *session.Client, path string, n int) *DoubleBarrier {
	return &DoubleBarrier{members: membersOf(c, path, "double barrier", "double barrier", n)}
}

// Check refuses an n below 1.
func (d *DoubleBarrier) Check() error { return d.check(0) }

func (d *DoubleBarrier) Enter(ctx context.Context) (*Visit, error) {
	return session.InSessions(ctx, d.Client, func(s *session.Session) (*Visit, error) {
		p, _, err := d.Join(ctx, s, d.kind())
		if err == line.ErrJoinLost { // others may have entered with it
			err = d.Client.Expired()
		}
		if err != nil {
			return nil, err
		}
		v, err := d.enter(ctx, p)
		if !errs.IsContextErr(ctx, err) && (errors.Is(err, zk.ErrNoNode) || errors.Is(err, errs.ErrGone)) {
			err = p.WhyGone(ctx)
		}
		if err != nil {
			awaitGone(ctx, s, d.depart(p), s.Timeout())
		}
		if errors.Is(err, zkconn.ErrSessionOver) {
			err = d.Client.Expired()
		}
		return v, err
	})
}

// enter returns when p has entered: by its own listing of n members, or by a ready
// that is younger than p. An older ready is of an earlier use, whose members may not
// even have left.
func (d *DoubleBarrier) enter(ctx context.Context, p *line.Place) (*Visit, error) {
	since, err := d.arrive(ctx, p)
	if err == errPending {
		since, err = await(ctx, p, func(bool) (*zkconn.Watch, error) {
			return p.Session.WatchExistence(ctx, d.Ready())
		}, func(w *zkconn.Watch) (since int64, err error) {
			if w == nil || !w.Absent && w.Stat.Czxid >= p.Czxid {
				since, _, err = d.readyFor(ctx, p)
			}
			if err == nil && since == 0 {
				err = errPending
			}
			return since, err
		})
	}
	if err != nil {
		return nil, err
	}
	g, err := p.Grant(ctx)
	if err != nil {
		return nil, err
	}
	l, err := g.AddHandle(false)
	if err != nil {
		return nil, err
	}
	return &Visit{D: d, Handle: l, place: p, OpenedAt: since, turn: make(chan struct{}, 1)}, nil
}

// arrive opens the barrier if p makes n members, and returns as open does. A member
// that is not alone must see once that the others wait for as many, since the path may
// have been deleted and used for another n.
func (d *DoubleBarrier) arrive(ctx context.Context, p *line.Place) (int64, error) {
	switch { // LineCount includes ready
	case p.LineCount < 0 || p.LineCount >= d.n:
		return d.open(ctx, p)
	case p.LineCount == 1:
		d.agreedIn.Store(p.LineCzxid)
	case p.LineCzxid != d.agreedIn.Load():
		if _, _, _, err := d.agreeing(ctx, p.Session); err != nil {
			return 0, err
		}
	}
	return 0, errPending
}

// open creates ready if n members are there that wait for n. It returns the czxid of
// that ready, or of one that exists and is younger than p, or errPending if there are fewer than n
// members. A ready that is older must be replaced, because waiting members do not enter
// by it. Nobody may have come since the listing: some of the n members can have died by
// then, and a member that came after that was never one of n.
func (d *DoubleBarrier) open(ctx context.Context, p *line.Place) (int64, error) {
	for {
		there, version, older, err := d.agreeing(ctx, p.Session)
		switch {
		case err != nil:
			return 0, err
		case there < d.n:
			return 0, errPending
		case older:
			var since int64
			if since, older, err = d.readyFor(ctx, p); since != 0 || err != nil {
				return since, err
			}
		}
		acl := p.ACL.ForPlaces(p.Session.Session)
		ready := &zk.CreateRequest{Path: d.Ready(), Data: fmt.Appendf(nil, "of%d %s", d.n, d.Client.Identity), Acl: acl}
		nobodyCame := d.mark(p, version)
		ops := []any{ready, nobodyCame}
		if older {
			ops = slices.Insert(ops, 0, any(&zk.DeleteRequest{Path: d.Ready(), Version: -1}))
		}
		o := p.Session.Multi(ctx, ops...)
		switch {
		case o.Applied():
			d.NoteWritten(p.ACL, o.Stat(nobodyCame))
			return o.Stat(nobodyCame).Mzxid, nil
		case o.Transient(), o.RefusedAt(ops[0], zk.ErrNodeExists, zk.ErrNoNode), o.Is(zk.ErrBadVersion):
		default:
			return 0, o.Err()
		}
	}
}

// mark returns the operation that writes the path's data over that version.
func (d *DoubleBarrier) mark(p *line.Place, version int32) *zk.SetDataRequest {
	return &zk.SetDataRequest{Path: d.Abs(), Data: layout.Record(d.recipe, p.ACL.Fingerprint, ""), Version: version}
}

// depart deletes, in the background, a member that does not wait for the others to
// leave. With the last member it deletes ready, unless somebody has come since: a join
// would have written the path's data. The channel is closed when that is done.
func (d *DoubleBarrier) depart(p *line.Place) <-chan struct{} {
	return d.Background(func() {
		s, path := p.Session, d.mark(p, -1)
		o := s.Multi(s.UntilAnswered(), &zk.DeleteRequest{Path: p.Path, Version: -1}, path)
		var left *zk.Stat
		if o.Applied() {
			left = o.Stat(path)
			d.NoteWritten(p.ACL, left)
		} else { // then it is not known whether it was the last
			p.Withdraw()
			left, _ = s.Exists(s.UntilAnswered(), d.Abs())
		}
		if left != nil && left.NumChildren == 1 {
			nobodyCame := &zk.CheckVersionRequest{Path: d.Abs(), Version: left.Version}
			s.Retry(nil, []any{nobodyCame, &zk.DeleteRequest{Path: d.Ready(), Version: -1}}).Wait(s.UntilAnswered())
		}
	})
}

// Members returns the names of the members, sorted, the path's Stat, and whether ready
// exists. Curator's members are named by a bare uuid, and kazoo's by one without dashes.
// Any other znode is no member.
func (d *DoubleBarrier) Members(ctx context.Context, s *session.Session) (ms []string, path *zk.Stat, ready bool, err error) {
	names, stat, err := s.Children(ctx, d.Abs())
	if err != nil {
		return nil, nil, false, err
	}
	ms = make([]string, 0, len(names))
	for _, name := range names {
		if _, ok := layout.ParsePlace(name, layout.LockKinds); ok {
			return nil, nil, false, zkconn.Errorf(zkconn.ErrPathInUse, "%s stands in a %s: another recipe uses this path", name, d.recipe)
		}
		if _, ok := layout.ParsePlace(name, MemberKinds); ok || layout.IsUUID(name) || isHexUUID(name) {
			ms = append(ms, name)
		}
	}
	slices.Sort(ms)
	return ms, stat, slices.Contains(names, "ready"), nil
}

// isHexUUID reports whether name is a uuid in the form that kazoo writes.
func isHexUUID(name string) bool {
	return len(name) == 32 && strings.Trim(name, "0123456789abcdef") == ""
}

// agreeing returns how many members wait for n, or do not say for how many, the path's version,
// and whether ready exists. If there are fewer than n and any of them waits for another number,
// it is an error.
func (d *DoubleBarrier) agreeing(ctx context.Context, s *session.Session) (there int, version int32, ready bool, err error) {
	ms, path, ready, err := d.Members(ctx, s)
	if err != nil {
		return 0, 0, false, err
	}
	other := slices.IndexFunc(ms, func(name string) bool { return !d.counts(name) })
	there = len(slices.DeleteFunc(slices.Clone(ms), func(name string) bool { return !d.counts(name) }))
	switch {
	case other < 0:
		d.agreedIn.Store(path.Czxid)
	case there < d.n:
		return 0, 0, false, d.wrongSize(memberSize(ms[other]))
	}
	return there, path.Version, ready, nil
}

// readyFor returns the czxid of ready if p enters by it, 0 if it is older than p or does
// not exist, and whether it exists. Others' ready does not say for how many it is.
func (d *DoubleBarrier) readyFor(ctx context.Context, p *line.Place) (czxid int64, exists bool, err error) {
	data, stat, err := p.Session.Get(ctx, d.Ready())
	if errors.Is(err, zk.ErrNoAuth) {
		stat, err = p.Session.Exists(ctx, d.Ready())
	}
	switch {
	case errs.IsContextErr(ctx, err):
		return 0, false, err
	case errors.Is(err, zk.ErrNoNode):
		return 0, false, nil
	case err != nil:
		return 0, false, err
	case stat.Czxid < p.Czxid:
		return 0, true, nil
	}
	if size, _, ok := strings.Cut(string(data), " "); ok && strings.HasPrefix(size, "of") {
		if n, err := strconv.Atoi(size[len("of"):]); err == nil && n != d.n {
			return 0, true, d.wrongSize(n)
		}
	}
	return stat.Czxid, true, nil
}
