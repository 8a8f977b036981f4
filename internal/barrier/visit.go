package barrier

import (
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Visit is a member that has entered a double barrier.
type Visit struct {
	D      *DoubleBarrier
	Handle *line.Handle
	// OpenedAt is the czxid of the ready by which it entered.
	OpenedAt int64

	// turn is full during a Leave, and only that one uses what follows.
	turn    chan struct{}
	leaving bool
	// removed is closed when the znode is deleted, and nil if no deletion has begun.
	removed <-chan struct{}
	lost    error
	// others are the members that were there when Leave first listed them.
	others map[string]bool
	// left: all members have left.
	left bool
}

func (v *Visit) Leave(ctx context.Context) error {
	if ctx == nil {
		return errs.ErrNilContext
	}
	c := v.D.Line.Client
	c.Held.GoOn() // the visit ends before this member has left together with the others
	defer c.Held.End()
	ctx, done := c.Bind(ctx)
	defer done()
	select {
	case v.turn <- struct{}{}: // even if ctx has ended, because the member has to leave
	default:
		select {
		case v.turn <- struct{}{}:
		case <-ctx.Done():
			return v.D.Line.Client.ContextErr(ctx)
		}
	}
	defer func() { <-v.turn }()
	p := v.Handle.Grant.Place()
	if !v.leaving {
		v.leaving = true
		_, v.lost = v.Handle.Grant.RemoveHandle(v.Handle)
	}
	if v.lost != nil || v.left {
		return v.lost
	}
	err := v.wait(ctx, p)
	if err != nil {
		if v.removed == nil {
			v.removed = v.D.depart(p)
		}
		p.AwaitGone(ctx, v.removed)
	}
	v.left = err == nil
	return err
}

// wait returns when all members have left that are older than the ready by which this
// member entered.
func (v *Visit) wait(ctx context.Context, p *line.Place) error {
	for s := p.Session; ; {
		err := v.waitIn(ctx, s, p)
		if !errors.Is(err, zkconn.ErrSessionOver) {
			return err
		}
		// The znode has gone with the session, those of the others have not. The
		// server of the next session may lag and show no member.
		if s, err = v.D.Line.Client.Live(ctx); err == nil {
			err = s.Sync(ctx, v.D.Line.Abs())
		}
		if err != nil && !errors.Is(err, zkconn.ErrSessionOver) {
			return err
		}
	}
}

// waitIn is wait in one session.
func (v *Visit) waitIn(ctx context.Context, s *session.Session, p *line.Place) error {
	for {
		w, err := v.nextToLeave(ctx, s, p)
		switch {
		case err == errStaleListing:
			continue
		case err != nil || w == nil:
			return err
		}
		select {
		case <-w.Fired():
		case <-s.Over():
			return zkconn.ErrSessionOver
		case <-ctx.Done():
			return s.ContextErr(ctx)
		}
	}
}

// nextToLeave lists the members, deletes this one's znode as soon as its turn to leave
// has come, and returns the watch on the member to wait for, nil if there is none.
func (v *Visit) nextToLeave(ctx context.Context, s *session.Session, p *line.Place) (*zkconn.Watch, error) {
	ms, path, ready, err := v.D.Members(ctx, s)
	switch {
	case errs.IsContextErr(ctx, err):
		return nil, err
	case errors.Is(err, zk.ErrNoNode):
		return nil, nil
	case err != nil:
		return nil, err
	}
	v.noteOthers(ms, path)
	own := slices.Contains(ms, p.Name)
	isOther := func(name string) bool { return name != p.Name }
	if own && v.removed != nil { // by an earlier Leave, or about to be
		if err := v.remove(ctx, p); err != nil {
			return nil, err
		}
		own = false
		ms = slices.DeleteFunc(ms, func(name string) bool { return name == p.Name })
	}
	switch {
	case ready && !slices.ContainsFunc(ms, isOther):
		return nil, v.clear(ctx, s, p, own, path.Version)
	case len(ms) == 0:
		return nil, nil
	}
	w, stays, err := v.awaited(ctx, s, ms, p.Name)
	if err != nil {
		return nil, err
	}
	// A member deletes its znode before it waits. Only the one that sorts first keeps
	// it, because all others wait for that one.
	if own && !stays {
		if err := v.remove(ctx, p); err != nil {
			return nil, err
		}
	}
	return w, nil // nil: the members there have come for a later opening
}

// noteOthers notes the members of the first listing. Members that come later are not waited for,
// whatever their czxids: servers that have lost transactions may give zxids again, so that a
// member that has come since looks older than ready. A path whose children last changed before
// ready came tells that the opening itself is lost. Nobody is waited for then.
func (v *Visit) noteOthers(ms []string, path *zk.Stat) {
	if v.others != nil {
		return
	}
	v.others = map[string]bool{}
	if path.Pzxid < v.OpenedAt {
		return
	}
	for _, name := range ms {
		v.others[name] = true
	}
}

// awaited returns the watch on the member that this one, own, has to wait for: the
// first of those that entered by the same ready or an earlier one. If that is own, it is the
// last of them, and stays is true: own keeps its znode meanwhile. nil: there is none.
func (v *Visit) awaited(ctx context.Context, s *session.Session, ms []string, own string) (w *zkconn.Watch, stays bool, err error) {
	ms = slices.DeleteFunc(slices.Clone(ms), func(name string) bool { return name != own && !v.others[name] })
	first := false
	for _, name := range ms {
		if name == own {
			first = true
			break
		}
		if w, err := v.older(ctx, s, name); w != nil || err != nil {
			return w, false, err
		}
	}
	for _, name := range slices.Backward(ms) {
		if !first || name == own {
			break
		}
		if w, err := v.older(ctx, s, name); w != nil || err != nil {
			return w, true, err
		}
	}
	return nil, false, nil
}

// older returns a watch on the member with that name if it is older than the
// ready by which this one entered. errStaleListing: it has left since.
func (v *Visit) older(ctx context.Context, s *session.Session, name string) (*zkconn.Watch, error) {
	w, err := s.Watch(ctx, v.D.Line.Abs()+"/"+name)
	switch {
	case errs.IsContextErr(ctx, err):
		return nil, err
	case errors.Is(err, zk.ErrNoNode):
		return nil, errStaleListing
	case err != nil || w.Stat.Czxid > v.OpenedAt:
		return nil, err
	}
	return w, nil
}

// remove deletes the member's znode.
func (v *Visit) remove(ctx context.Context, p *line.Place) error {
	if v.removed == nil {
		v.removed = v.D.Line.Background(func() { p.Withdraw() })
	}
	select {
	case <-v.removed:
		if v.D.Line.Client.Closing.Err() != nil { // it may be left to its session
			return errs.ErrClosed
		}
		return nil
	case <-ctx.Done():
		return p.Session.ContextErr(ctx)
	}
}

// errStaleListing: members may have come or left since the listing.
var errStaleListing = errors.New("listing is out of date")

// clear deletes the last member's znode and ready. ready must stay if anybody has come
// since the path had that version.
func (v *Visit) clear(ctx context.Context, s *session.Session, p *line.Place, own bool, version int32) error {
	nobodyCame := &zk.CheckVersionRequest{Path: v.D.Line.Abs(), Version: version}
	ops := []any{nobodyCame, &zk.DeleteRequest{Path: v.D.Ready(), Version: -1}}
	if own {
		ops = append(ops, &zk.DeleteRequest{Path: p.Path, Version: -1})
	}
	for {
		o := s.Multi(ctx, ops...)
		switch {
		case o.Applied():
			return nil
		case o.Transient():
			continue
		case o.SessionOver(), errs.IsContextErr(ctx, o.Err()):
			return o.Err()
		case o.RefusedAt(nobodyCame, zk.ErrBadVersion):
			return errStaleListing
		case own:
			return v.remove(ctx, p)
		}
		return nil
	}
}
