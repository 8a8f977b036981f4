package barrier

import (
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Visit is a member that has entered a double barrier.
type Visit struct {
	D      *DoubleBarrier
	Handle *hold.Handle
	place  *line.Place
	// OpenedAt is the czxid of the ready by which it entered.
	OpenedAt int64

	// turn is full during a Leave, and only that one uses what follows.
	turn    chan struct{}
	leaving bool
	lost    error
	// removed is closed when the znode is deleted, and nil if no deletion has begun.
	removed <-chan struct{}
	// others has the members of the first listing. Members that come later are not waited for,
	// whatever their czxids: servers that have lost transactions may give zxids again, so that a
	// member that has come since looks older than ready. If the path's children last changed before
	// ready came, the opening itself is lost, and nobody is waited for: all are false then.
	others map[string]bool
	// left: all members have left.
	left bool
}

// Leave returns when all members have left for which the barrier was opened.
func (v *Visit) Leave(ctx context.Context) error {
	if ctx == nil {
		return errs.ErrNilContext
	}
	c := v.D.Client
	c.Held.Add() // the visit ends before this member has left together with the others
	defer c.Held.End()
	ctx, done := c.Bind(ctx)
	defer done()
	select {
	case v.turn <- struct{}{}: // even if ctx has ended, because the member has to leave
	default:
		select {
		case v.turn <- struct{}{}:
		case <-ctx.Done():
			return c.ContextErr(ctx)
		}
	}
	defer func() { <-v.turn }()
	if !v.leaving {
		v.leaving = true
		_, v.lost = v.Handle.Grant.RemoveHandle(v.Handle)
	}
	if v.lost != nil || v.left {
		return v.lost
	}
	p := v.place
	err := v.awaitOthers(ctx, p)
	v.left = err == nil
	if err != nil {
		awaitGone(ctx, p.Session, v.remove(p), p.Session.Timeout())
	}
	return err
}

// remove deletes the member's znode in the background, and closes the channel when that is gone.
func (v *Visit) remove(p *line.Place) <-chan struct{} {
	if v.removed == nil {
		v.removed = v.D.depart(p)
	}
	return v.removed
}

// awaitOthers leaves, and returns when the others have left, in the next session if one ends: the
// znode has gone with the session, those of the others have not.
func (v *Visit) awaitOthers(ctx context.Context, p *line.Place) error {
	for s := p.Session; ; {
		w, err := v.firstInside(ctx, s, p)
		if err == nil && w == nil {
			return nil
		}
		if err == nil {
			err = zkconn.Until(ctx, s.Session, w.Fired())
		}
		for errors.Is(err, zkconn.ErrSessionOver) {
			// The server of the next session may lag and show no member.
			if s, err = v.D.Client.Live(ctx); err == nil {
				err = s.Sync(ctx, v.D.Abs())
			}
		}
		if err != nil && err != errStaleListing {
			return err
		}
	}
}

// errStaleListing: a member has come or left since the listing.
var errStaleListing = errors.New("listing is out of date")

// firstInside lists the members, deletes this one, and returns the watch on the first of the others
// that are inside, nil if there is none.
func (v *Visit) firstInside(ctx context.Context, s *session.Session, p *line.Place) (*zkconn.Watch, error) {
	ms, path, ready, err := v.D.Members(ctx, s)
	switch {
	case err == nil:
		v.noteOthers(ms, path, p)
	case errs.IsContextErr(ctx, err), !errors.Is(err, zk.ErrNoNode):
		return nil, err
	}
	if ready && !slices.ContainsFunc(ms, func(name string) bool { return name != p.Name }) {
		if err := v.clear(ctx, s, p, path.Version); err != nil || v.removed == nil {
			return nil, err
		}
	}
	if err := v.D.Client.AwaitEnd(ctx, v.remove(p)); err != nil {
		return nil, err
	}
	if v.D.Client.Closing.Err() != nil { // the znode may be left to its session
		return nil, errs.ErrClosed
	}
	return v.watchFirst(ctx, s, ms)
}

// noteOthers notes who the others are, which the first listing tells.
func (v *Visit) noteOthers(ms []string, path *zk.Stat, p *line.Place) {
	if v.others != nil {
		return
	}
	v.others = map[string]bool{}
	for _, name := range ms {
		v.others[name] = name != p.Name && path.Pzxid >= v.OpenedAt
	}
}

// watchFirst returns the watch on the first of the members that entered by the same ready or an
// earlier one, nil if there is none.
func (v *Visit) watchFirst(ctx context.Context, s *session.Session, ms []string) (*zkconn.Watch, error) {
	for _, name := range ms {
		if !v.others[name] {
			continue
		}
		w, err := s.Watch(ctx, v.D.Abs()+"/"+name)
		switch {
		case err == nil && w.Stat.Czxid <= v.OpenedAt:
			return w, nil
		case err != nil && !errs.IsContextErr(ctx, err) && errors.Is(err, zk.ErrNoNode):
			return nil, errStaleListing
		case err != nil:
			return nil, err
		}
	}
	return nil, nil
}

// clear deletes ready where nobody else is left, and the member, unless that is about to be deleted.
// ready must stay if anybody has come since the path had that version.
func (v *Visit) clear(ctx context.Context, s *session.Session, p *line.Place, version int32) error {
	nobodyCame := &zk.CheckVersionRequest{Path: v.D.Abs(), Version: version}
	ops := []any{nobodyCame, &zk.DeleteRequest{Path: v.D.Ready(), Version: -1}}
	if v.removed == nil {
		ops = append(ops, &zk.DeleteRequest{Path: p.Path, Version: -1})
	}
	switch o := s.Retry(nil, ops).Wait(ctx); {
	case o.SessionOver(), errs.IsContextErr(ctx, o.Err()):
		return o.Err()
	case o.RefusedAt(nobodyCame):
		return errStaleListing
	case !o.Applied() && v.removed == nil: // as a rule ready or the member is gone
		v.remove(p)
		return errStaleListing
	}
	return nil
}
