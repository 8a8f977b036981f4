package zkrecipes

import (
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Visit is a member of a DoubleBarrier that has entered. It is safe for
// concurrent use.
type Visit struct {
	d        *DoubleBarrier
	l        *Lease
	openedAt int64 // czxid of the ready by which it entered

	turn    chan struct{}   // full while somebody leaves, who alone uses what follows
	leaving bool            // Leave was called
	removed <-chan struct{} // closed when the znode is deleted; nil: it is not about to be
	lost    error           // why the visit had ended before
	left    bool            // all have
}

// Context returns a context that ends with parent, and with the visit: when Leave
// is called (its cause is ErrReleased then), when it is lost (ErrLost: its session
// ended, or its znode was deleted) or the Client is closed (ErrClosed). parent
// must not be nil.
func (v *Visit) Context(parent context.Context) context.Context { return v.l.Context(parent) }

// Err returns nil while the visit lasts, an error that is ErrReleased, ErrLost or
// ErrClosed from then on. It sends nothing.
func (v *Visit) Err() error { return v.l.Err() }

// Leave ends the visit, and returns when all for whom the barrier was opened have
// left, or died. Members that came for a later opening are not waited for. It
// blocks until then, through disconnections and the end of the session.
//
// Errors: that of ctx, and then this member has left, and others have not; a
// second Leave goes on waiting. ErrLost or ErrClosed: the visit had ended before,
// and nobody is waited for.
//
// Cost: one request and one commit to leave, one of each for the last one, a
// listing and a read to begin with and two of them at each wake: one wake for most
// members; the one whose znode sorts first wakes for each member that sorts last
// when it looks.
func (v *Visit) Leave(ctx context.Context) error {
	if v == nil || v.d == nil {
		return fail("leave", "", errors.New("not made by Enter"))
	}
	return fail("leave", v.d.line.path, v.leave(ctx))
}

func (v *Visit) leave(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	ctx, done := v.d.line.c.bind(ctx)
	defer done()
	select {
	case v.turn <- struct{}{}: // also where ctx has ended: the member leaves then
	default:
		select {
		case v.turn <- struct{}{}:
		case <-ctx.Done():
			return zkconn.ContextErr(ctx)
		}
	}
	defer func() { <-v.turn }()
	p := v.l.g.place()
	if !v.leaving {
		v.leaving = true
		_, v.lost = v.l.g.removeHandle(v.l)
	}
	if v.lost != nil || v.left {
		return v.lost
	}
	err := v.wait(ctx, p)
	if err != nil {
		if v.removed == nil {
			v.removed = v.d.depart(p)
		}
		p.awaits(v.removed)
	}
	v.left = err == nil
	return err
}

// wait returns when all have left who are older than the ready by which this
// member entered.
func (v *Visit) wait(ctx context.Context, p *place) error {
	for s := p.s; ; {
		err := v.waitIn(ctx, s, p)
		if !errors.Is(err, zkconn.ErrSessionOver) {
			return err
		}
		// The znode has gone with the session, the others have not. The server of
		// the next session may be behind, and show nobody.
		if s, err = v.d.line.c.live(ctx); err == nil {
			err = s.Sync(ctx, v.d.line.abs())
		}
		if err != nil && !errors.Is(err, zkconn.ErrSessionOver) {
			return err
		}
	}
}

func (v *Visit) waitIn(ctx context.Context, s *session, p *place) error {
	for {
		ms, path, ready, err := v.d.members(ctx, s)
		switch {
		case isContextErr(ctx, err): // whatever its cause is
			return err
		case errors.Is(err, zk.ErrNoNode):
			return nil // nobody, and no path any more
		case err != nil:
			return err
		}
		own := slices.Contains(ms, p.name)
		if own && v.removed != nil { // by an earlier Leave, or about to be
			if err := v.remove(ctx, p); err != nil {
				return err
			}
			own = false
			ms = slices.DeleteFunc(ms, func(name string) bool { return name == p.name })
		}
		switch {
		case ready && (len(ms) == 0 || own && len(ms) == 1):
			err := v.clear(ctx, s, p, own, path.Version)
			if err == errArrived {
				continue
			}
			return err
		case len(ms) == 0:
			return nil
		}
		w, first, err := v.awaited(ctx, s, ms, p.name)
		switch {
		case isContextErr(ctx, err):
			return err
		case errors.Is(err, zk.ErrNoNode):
			continue // left since
		case err != nil:
			return err
		}
		// Whoever waits leaves first, but for the member that sorts first: all others
		// wait for that one.
		if own && (w == nil || !first) {
			if err := v.remove(ctx, p); err != nil {
				return err
			}
		}
		if w == nil {
			return nil // who is there has come for a later opening
		}
		select {
		case <-w.Fired():
		case <-s.Over():
			return zkconn.ErrSessionOver
		case <-ctx.Done():
			return zkconn.ContextErr(ctx)
		}
	}
}

// awaited returns the watch on the member whose leaving this one, own, has to
// wait for: the first of those who entered by the same ready, or an earlier one,
// and where that is own, as first tells, the last. nil: there is none.
func (v *Visit) awaited(ctx context.Context, s *session, ms []string, own string) (w *zkconn.Watch, first bool, err error) {
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
	return nil, first, nil
}

// older returns a watch on the member with that name if it is older than the
// ready by which this one entered.
func (v *Visit) older(ctx context.Context, s *session, name string) (*zkconn.Watch, error) {
	w, err := s.Watch(ctx, v.d.line.abs()+"/"+name)
	if err != nil || w.Stat.Czxid > v.openedAt {
		return nil, err
	}
	return w, nil
}

// remove deletes the member's znode.
func (v *Visit) remove(ctx context.Context, p *place) error {
	if v.removed == nil {
		v.removed = v.d.line.c.background(v.d.line.path, func() { p.leave(false) })
	}
	select {
	case <-v.removed:
		if v.d.line.c.closing.Err() != nil { // it may be left to its session
			return ErrClosed
		}
		return nil
	case <-ctx.Done():
		return zkconn.ContextErr(ctx)
	}
}

// errArrived: somebody may have come since the listing.
var errArrived = errors.New("somebody may have come")

// clear deletes the last member's znode, and ready, which must stay if anybody has
// come since the path had that version.
func (v *Visit) clear(ctx context.Context, s *session, p *place, own bool, version int32) error {
	nobodyCame := &zk.CheckVersionRequest{Path: v.d.line.abs(), Version: version}
	ops := []any{nobodyCame, &zk.DeleteRequest{Path: v.d.ready(), Version: -1}}
	if own {
		ops = append(ops, &zk.DeleteRequest{Path: p.path, Version: -1})
	}
	for {
		_, failed, err := s.Multi(ctx, ops...)
		switch {
		case err == nil:
			return nil
		case zkconn.Transient(err):
			continue
		case errors.Is(err, zkconn.ErrSessionOver), isContextErr(ctx, err):
			return err
		case failed == any(nobodyCame) && errors.Is(err, zk.ErrBadVersion):
			return errArrived
		case own:
			return v.remove(ctx, p)
		}
		return nil // ready is gone, or may not be deleted
	}
}
