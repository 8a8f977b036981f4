package barrier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/placename"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// DoubleBarrier is a double barrier of n members.
type DoubleBarrier struct {
	Line *line.Line
	n    int
	// agreedIn is the czxid of the path where all members were last seen to wait for n.
	agreedIn atomic.Int64
}

// NewDouble returns the double barrier with that threshold and path.
func NewDouble(c *session.Client, path string, n int) *DoubleBarrier {
	return &DoubleBarrier{
		Line: &line.Line{Client: c, Path: path, Recipe: "double barrier", Kinds: []placename.Kind{MemberKindOf(n), kindMember}},
		n:    n,
	}
}

// Check refuses an n below 1.
func (d *DoubleBarrier) Check() error { return checkMembers(d.Line.Client, d.Line.Recipe, d.n, 0) }

func (d *DoubleBarrier) Ready() string { return d.Line.Abs() + "/ready" }

func (d *DoubleBarrier) Enter(ctx context.Context) (*Visit, error) {
	for {
		s, err := d.Line.Client.Live(ctx)
		if err != nil {
			return nil, err
		}
		p, err := d.Line.Join(ctx, s, MemberKindOf(d.n))
		switch {
		case err == line.ErrJoinLost: // others may have entered with it
			return nil, d.Line.Client.Expired()
		case errors.Is(err, zkconn.ErrSessionOver):
			continue
		case err != nil:
			return nil, err
		}
		v, err := d.wait(ctx, p)
		if err != nil {
			p.AwaitGone(ctx, d.depart(p))
		}
		if errors.Is(err, zkconn.ErrSessionOver) {
			err = d.Line.Client.Expired()
		}
		return v, err
	}
}

// wait returns when p has entered: by its own listing of n members, or by a ready
// that is younger than p. An older ready is of an earlier use, whose members may not
// even have left.
func (d *DoubleBarrier) wait(ctx context.Context, p *line.Place) (*Visit, error) {
	since, err := d.arrive(ctx, p)
	late := time.NewTimer(p.Session.Timeout() / 10)
	defer late.Stop()
	for err == nil && since == 0 {
		var w *zkconn.Watch
		if w, err = p.Session.WatchExistence(ctx, d.Ready()); err != nil {
			return nil, err
		}
		if w.Absent || w.Stat.Czxid < p.Czxid {
			err = p.AwaitWatch(ctx, w, late.C)
		}
		if err == nil {
			since, _, err = d.readyFor(ctx, p)
		}
	}
	if errors.Is(err, zk.ErrNoNode) { // p is gone, or the path with it
		return nil, p.WhyGone(ctx)
	}
	if err != nil {
		return nil, err
	}
	g, err := p.Grant(ctx)
	if err != nil {
		return nil, err
	}
	l, err := g.Enter(kindMember)
	if errors.Is(err, errs.ErrGone) {
		return nil, p.WhyGone(ctx)
	}
	if err != nil {
		return nil, err
	}
	return &Visit{D: d, Handle: l, OpenedAt: since, turn: make(chan struct{}, 1)}, nil
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
		ms, path, _, err := d.Members(ctx, p.Session)
		if err == nil {
			_, err = d.agreeing(ms, path)
		}
		return 0, err
	}
	return 0, nil
}

// open creates ready if n members are there that wait for n. It returns the czxid of
// that ready, or of one that exists and is younger than p; 0 if there are fewer than n
// members. A ready that is older must be replaced, because waiting members do not enter
// by it. Nobody may have come since the listing: some of the n members can have died by
// then, and a member that came after that was never one of n.
func (d *DoubleBarrier) open(ctx context.Context, p *line.Place) (int64, error) {
	c := d.Line.Client
	for {
		ms, path, older, err := d.Members(ctx, p.Session)
		if err != nil {
			return 0, err
		}
		if n, err := d.agreeing(ms, path); n < d.n {
			return 0, err
		}
		if older {
			var since int64
			if since, older, err = d.readyFor(ctx, p); since != 0 || err != nil {
				return since, err
			}
		}
		acl := p.Bears.ForPlaces(p.Session.Session)
		ready := &zk.CreateRequest{Path: d.Ready(), Data: fmt.Appendf(nil, "of%d %s", d.n, c.Identity), Acl: acl}
		nobodyCame := &zk.SetDataRequest{Path: d.Line.Abs(), Data: layout.Record(d.Line.Recipe, p.Bears.Seal, ""), Version: path.Version}
		ops := []any{ready, nobodyCame}
		if older {
			ops = slices.Insert(ops, 0, any(&zk.DeleteRequest{Path: d.Ready(), Version: -1}))
		}
		o := p.Session.Multi(ctx, ops...)
		switch {
		case o.Applied():
			d.Line.NoteWritten(p.Bears, o.Stat(nobodyCame))
			return o.Stat(nobodyCame).Mzxid, nil
		case o.Transient(), o.RefusedAt(ops[0], zk.ErrNodeExists, zk.ErrNoNode), o.Is(zk.ErrBadVersion):
		default:
			return 0, o.Err()
		}
	}
}

// depart deletes, in the background, a member that does not wait for the others to
// leave. With the last member it deletes ready, unless somebody has come since: a join
// would have written the path's data. The channel is closed when that is done.
func (d *DoubleBarrier) depart(p *line.Place) <-chan struct{} {
	return d.Line.Background(func() {
		path := &zk.SetDataRequest{Path: d.Line.Abs(), Data: layout.Record(d.Line.Recipe, p.Bears.Seal, ""), Version: -1}
		o := p.Session.Multi(p.Session.Lifetime(), &zk.DeleteRequest{Path: p.Path, Version: -1}, path)
		if o.Applied() {
			d.Line.NoteWritten(p.Bears, o.Stat(path))
		}
		switch {
		case !o.Applied():
			p.Withdraw()
		case o.Stat(path).NumChildren == 1:
			p.Session.Multi(p.Session.Lifetime(),
				&zk.CheckVersionRequest{Path: d.Line.Abs(), Version: o.Stat(path).Version},
				&zk.DeleteRequest{Path: d.Ready(), Version: -1})
		}
	})
}

// What a member of a DoubleBarrier sees of the others.

// Members returns the names of the members, sorted, the path's Stat, and whether ready
// exists. Curator's members are named by a bare uuid, and kazoo's by one without dashes.
// Any other znode is no member.
func (d *DoubleBarrier) Members(ctx context.Context, s *session.Session) (ms []string, path *zk.Stat, ready bool, err error) {
	names, stat, err := s.Children(ctx, d.Line.Abs())
	if err != nil {
		return nil, nil, false, err
	}
	ms = make([]string, 0, len(names))
	for _, name := range names {
		if _, ok := placename.Parse(name, placename.LockKinds); ok {
			return nil, nil, false, zkconn.Errorf(zkconn.ErrPathInUse, "%s stands in a %s: another recipe uses this path", name, d.Line.Recipe)
		}
		if _, ok := placename.Parse(name, MemberKinds); ok || placename.IsUUID(name) || isHexUUID(name) {
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

// agreeing returns how many of the members wait for n, or do not say for how many, and
// an error if any of them waits for another number.
func (d *DoubleBarrier) agreeing(ms []string, path *zk.Stat) (int, error) {
	agree, other := 0, 0
	for _, name := range ms {
		if size := memberSize(name); size == 0 || size == d.n {
			agree++
		} else {
			other = size
		}
	}
	if other != 0 {
		return agree, layout.WrongSize(d.Line.Recipe, "members", other, d.n)
	}
	d.agreedIn.Store(path.Czxid)
	return agree, nil
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
			return 0, true, layout.WrongSize(d.Line.Recipe, "members", n, d.n)
		}
	}
	return stat.Czxid, true, nil
}
