package line

import (
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// A caller that does not wait.

// TryAcquire is like Acquire but returns ErrLocked instead of waiting. A line that is
// held costs one read, or up to three in a long line, and no write.
func (l *Line) TryAcquire(ctx context.Context, k layout.Kind) (*hold.Grant, error) {
	return session.InSessions(ctx, l.Client, func(s *session.Session) (g *hold.Grant, err error) {
		err = l.TryInTurn(ctx, s, k, func(p *Place) error {
			g, err = p.Grant(ctx)
			return err
		})
		return g, err
	})
}

// TryInTurn is like InTurn in one session, but returns ErrLocked instead of waiting.
func (l *Line) TryInTurn(ctx context.Context, s *session.Session, k layout.Kind, f func(*Place) error) error {
	if err := l.CheckRoom(s, k); err != nil {
		return err
	}
	blocked, err := l.isBlocked(ctx, s, k)
	if err != nil {
		return err
	}
	if blocked {
		return errs.ErrLocked
	}
	p, _, err := l.Join(ctx, s, k)
	if err != nil {
		if err := l.rollOver(ctx, err, locked); err != nil {
			return err
		}
		return l.TryInTurn(ctx, s, k, f)
	}
	if !p.HasTurn {
		var pred *layout.PlaceName
		if pred, _, err = p.predecessor(ctx); err == nil && pred != nil {
			err = errs.ErrLocked
		}
	}
	if err == nil && l.Delay > 0 {
		err = p.writeHeld(ctx, false)
	}
	if err == nil {
		if err = f(p); err == nil {
			return nil
		}
	}
	l.Client.Tasks.Start(p.Withdraw)
	if errors.Is(err, errs.ErrPlaceLost) && !errors.Is(err, errs.ErrUncertain) { // as a call that waits joins again
		return l.TryInTurn(ctx, s, k, f)
	}
	return err
}

// isBlocked reports whether a place that blocks one of that kind stands in the line. It lists
// the line, unless a guess tells.
func (l *Line) isBlocked(ctx context.Context, s *session.Session, k layout.Kind) (blocked bool, err error) {
	if blocked, none, err := l.guessBlocked(ctx, s, k); blocked || none || err != nil {
		return blocked, err
	}
	ms, err := l.List(ctx, s)
	if errors.Is(err, zk.ErrNoNode) {
		return false, nil
	}
	return slices.ContainsFunc(ms, func(m layout.PlaceName) bool { return l.Blocks(k, m.Kind) }), err
}

// guessBlocked reports whether a place that blocks one of that kind certainly stands in the line.
// Without a listing it can tell only if the line may be long. none: it has no children.
func (l *Line) guessBlocked(ctx context.Context, s *session.Session, k layout.Kind) (blocked, none bool, err error) {
	state, ok, _ := l.Known()
	if long := settingsOf(l.Client).LongLine; ok && !state.crowd.isLong(long) {
		return false, false, nil
	}
	data, stat, err := s.Get(ctx, l.Abs())
	switch {
	case errors.Is(err, zk.ErrNoNode), err == nil && stat.NumChildren == 0:
		return false, true, nil
	case err != nil:
		return false, false, err
	}
	l.noteCount(int(stat.NumChildren))
	blocked, err = l.lastStands(ctx, s, k, data, stat)
	return blocked, false, err
}

// lastStands reports whether the place that joined last blocks one of that kind, and still
// stands, if these are the line's data and Stat. If nothing in the line has changed since
// that join, the Stat says so.
func (l *Line) lastStands(ctx context.Context, s *session.Session, k layout.Kind, data []byte, stat *zk.Stat) (bool, error) {
	m, ok := l.last(data, nextNumber(stat)-1)
	switch {
	case !ok || !l.mayName(k, m):
		return false, nil
	case stat.Mzxid == stat.Pzxid:
		return true, nil
	case int(stat.NumChildren) <= settingsOf(l.Client).LongLine:
		return false, nil
	}
	_, err := s.Exists(ctx, l.Abs()+"/"+m.Name)
	if errors.Is(err, zk.ErrNoNode) {
		return false, nil
	}
	return err == nil, err
}
