package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// DoubleBarrier lets its members enter together, when n are there, and leave
// together, when all have come to leave. n is a threshold: more may enter while
// n or more stand. It is only a name; values are safe for concurrent use, and
// each call of Enter is a member of its own.
//
// Members of Curator's DistributedDoubleBarrier on the same path are members like
// any others. To use it again without a pause is safe among members of this
// library only: Curator's pass by a ready znode that the last use has left, or
// delete one that the next use has made, so that one enters alone, or waits for
// ever. Here a member passes by a ready that is younger than itself, and deletes
// it only where nobody has come since it saw that nobody was there.
//
// The path is a container, which the servers delete when it has been idle; one
// that holds data of its own is an error at the first use.
type DoubleBarrier struct {
	line *line
	n    int
}

// NewDoubleBarrier returns the double barrier with that threshold and path. It
// sends nothing; a path that is none, and an n below 1, are errors at the first
// use.
func NewDoubleBarrier(c *Client, path string, n int) *DoubleBarrier {
	return &DoubleBarrier{
		line: &line{c: c, path: path, recipe: "double barrier", kinds: memberKinds},
		n:    n,
	}
}

// Enter joins, and returns a Visit once n members are there. It blocks until
// then, through disconnections.
//
// Errors: that of ctx; zk.ErrSessionExpired: the session ended while it waited;
// ErrEvicted: its znode was deleted by somebody else; ErrLost: the servers were
// silent for so long as it entered that the session may have ended; ErrClosed. On
// any error the znode is gone, which is waited for while connected, or will be, and
// this Client's next Enter begins when it is; members that stood beside it may have
// entered with it.
//
// Cost: one request and one commit, one request more in each session that has
// members waiting; two more, with one commit, for the last to come.
func (d *DoubleBarrier) Enter(ctx context.Context) (*Visit, error) {
	r := d.self()
	if err := d.check(ctx); err != nil {
		return nil, fail("enter", r.path(), err)
	}
	ctx, done := r.c.bind(ctx)
	defer done()
	// A member whose Enter or Leave was given up counts until it is deleted.
	err := r.c.awaitAbandoned(ctx, r.path())
	var v *Visit
	if err == nil {
		v, err = d.enter(ctx)
	}
	return v, fail("enter", r.path(), err)
}

func (d *DoubleBarrier) self() recipe {
	if d == nil {
		return recipe{}
	}
	return recipe{d.line}
}

func (d *DoubleBarrier) check(ctx context.Context) error {
	if err := d.self().check(ctx); err != nil {
		return err
	}
	return checkMembers(d.line.recipe, d.n, 0)
}

func (d *DoubleBarrier) ready() string { return d.line.abs() + "/ready" }

func (d *DoubleBarrier) enter(ctx context.Context) (*Visit, error) {
	for {
		s, err := d.line.c.live(ctx)
		if err != nil {
			return nil, err
		}
		p, err := d.join(ctx, s)
		switch {
		case err == errJoinLost: // others may have entered with it
			return nil, d.line.c.expired()
		case errors.Is(err, zkconn.ErrSessionOver):
			continue // there was nobody yet
		case err != nil:
			return nil, err
		}
		v, err := d.wait(ctx, p)
		if err != nil {
			p.awaits(d.depart(p))
		}
		if errors.Is(err, zkconn.ErrSessionOver) {
			err = d.line.c.expired()
		}
		return v, err
	}
}

// join becomes a member. The path must bear this library's marker: each join, and
// each opening, sets it, by which the version tells that nobody came.
func (d *DoubleBarrier) join(ctx context.Context, s *session) (*place, error) {
	state, err := d.line.ensure(ctx, s)
	if err != nil {
		return nil, err
	}
	if state.guest {
		return nil, errors.New("the znode holds data of its own, or may not be written")
	}
	p, err := d.line.join(ctx, s, kindMember)
	if err == nil && p.token == 0 {
		p.leaveLater(false)
		return nil, errors.New("the znode may not be written")
	}
	return p, err
}

// wait returns when p has entered: by its own listing of n members, or by a
// ready that is younger than it. An older one is of an earlier use, whose members
// may not even have left.
func (d *DoubleBarrier) wait(ctx context.Context, p *place) (*Visit, error) {
	since := int64(0)                          // the ready by which it enters
	if p.lineCount < 0 || p.lineCount >= d.n { // with ready, should there be one
		var err error
		if since, err = d.open(ctx, p); errors.Is(err, zk.ErrNoNode) { // nor is p's
			return nil, p.whyGone(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
	late := time.NewTimer(p.s.Timeout() / 10)
	defer late.Stop()
	for since == 0 {
		w, err := p.s.WatchExistence(ctx, d.ready())
		if err != nil {
			return nil, err
		}
		if !w.Absent && w.Stat.Czxid > int64(p.token) {
			since = w.Stat.Czxid
			break
		}
		err = p.awaitWatch(ctx, w, late.C)
		if errors.Is(err, zk.ErrNoNode) {
			return nil, p.whyGone(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
	g, err := p.grant(ctx)
	if err != nil {
		return nil, err
	}
	l, err := g.enter(kindMember)
	if errors.Is(err, errDeleted) {
		return nil, p.whyGone(ctx)
	}
	if err != nil {
		return nil, err
	}
	return &Visit{d: d, l: l, openedAt: since, turn: make(chan struct{}, 1)}, nil
}

// open creates ready if n members are there, and returns its czxid, or that of
// one that is younger than p; 0 if there are fewer. One that is older must be
// replaced: those who wait do not pass by it. Nobody may have come since the
// listing: some of the n can have died by then, and who came after that was never
// one of n.
func (d *DoubleBarrier) open(ctx context.Context, p *place) (int64, error) {
	c := d.line.c
	for {
		ms, path, older, err := d.members(ctx, p.s)
		if err != nil || len(ms) < d.n {
			return 0, err
		}
		if older {
			ready, err := p.s.Exists(ctx, d.ready())
			switch {
			case errors.Is(err, zk.ErrNoNode):
				older = false
			case err != nil:
				return 0, err
			case ready.Czxid > int64(p.token):
				return ready.Czxid, nil
			}
		}
		ready := &zk.CreateRequest{Path: d.ready(), Data: []byte(c.identity), Acl: c.acl}
		nobodyCame := &zk.SetDataRequest{Path: d.line.abs(), Data: d.line.marker(), Version: path.Version}
		ops := []any{ready, nobodyCame}
		if older {
			ops = slices.Insert(ops, 0, any(&zk.DeleteRequest{Path: d.ready(), Version: -1}))
		}
		rs, failed, err := p.s.Multi(ctx, ops...)
		switch {
		case err == nil:
			return rs.Stat(nobodyCame).Mzxid, nil // of the same transaction
		case zkconn.Transient(err),
			failed == ops[0] && (errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNoNode)),
			errors.Is(err, zk.ErrBadVersion):
		default:
			return 0, err
		}
	}
}

// depart deletes, in the background, a member that is not waited for, and ready
// with the last: unless somebody has come since, whose join would have set the
// path's data. What it returns is closed when that is done.
func (d *DoubleBarrier) depart(p *place) <-chan struct{} {
	return d.line.c.background(d.line.path, func() {
		path := &zk.SetDataRequest{Path: d.line.abs(), Data: d.line.marker(), Version: -1}
		rs, _, err := p.s.Multi(p.s.Lifetime(), &zk.DeleteRequest{Path: p.path, Version: -1}, path)
		switch {
		case err != nil:
			p.leave(false)
		case rs.Stat(path).NumChildren == 1:
			p.s.Multi(p.s.Lifetime(),
				&zk.CheckVersionRequest{Path: d.line.abs(), Version: rs.Stat(path).Version},
				&zk.DeleteRequest{Path: d.ready(), Version: -1})
		}
	})
}

// awaits waits until gone is closed, for until then the place is counted; or until
// there is no connection, or for as long as a session lasts that the server does not
// answer.
func (p *place) awaits(gone <-chan struct{}) {
	tooLong := time.NewTimer(p.s.Timeout())
	defer tooLong.Stop()
	for {
		up, flipped := p.s.Connected()
		if !up {
			return
		}
		select {
		case <-gone:
			return
		case <-flipped:
		case <-tooLong.C:
			return
		}
	}
}

// members lists who is there, in the order of their names, the path's Stat, and
// whether ready is there. Curator's members bear a bare uuid; what bears another
// name is none.
func (d *DoubleBarrier) members(ctx context.Context, s *session) (ms []string, path *zk.Stat, ready bool, err error) {
	names, stat, err := s.Children(ctx, d.line.abs())
	if err != nil {
		return nil, nil, false, err
	}
	ms = make([]string, 0, len(names))
	for _, name := range names {
		if _, ok := parsePlaceName(name, lockKinds); ok {
			return nil, nil, false, fmt.Errorf("%s stands in a %s: another recipe uses this path", name, d.line.recipe)
		}
		if _, ok := parsePlaceName(name, memberKinds); ok || isUUID(name) {
			ms = append(ms, name)
		}
	}
	slices.Sort(ms)
	return ms, stat, slices.Contains(names, "ready"), nil
}
