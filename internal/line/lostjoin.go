package line

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// The search for the place of a join whose reply was lost. Until it is found and deleted, or until
// its session ends, such a place blocks the line.

// findLostJoin searches for the place of a join whose reply was lost, until the servers answer.
// It returns ErrNotSent if there is none, so the join can be sent again. If the servers refuse the
// search, or to show the place, it returns ErrUncertain, and the background deletes the place.
func (l *Line) findLostJoin(s *session.Session, e *JoinRequest) (*Place, error) {
	name, line, err := l.search(s, e)
	switch {
	case errors.Is(err, zkconn.ErrNotSent), errors.Is(err, zkconn.ErrSessionOver):
		return nil, err
	case err != nil:
		l.Background(func() { l.deleteLostJoin(s, e) })
		return nil, fmt.Errorf("%w: a place may have been taken: %w", errs.ErrUncertain, err)
	}
	p, err := l.newPlace(s.UntilAnswered(), s, e, name, line.Czxid)
	if err != nil {
		return nil, err
	}
	p.Own, err = s.Watch(s.UntilAnswered(), p.Path)
	switch {
	case errors.Is(err, zk.ErrNoNode), err == nil && p.Own.Stat.EphemeralOwner != s.ID():
		s.NoteAbsent(p.Path)
		return nil, zkconn.ErrNotSent
	case err != nil:
		l.Client.Tasks.Start(p.Withdraw)
		return nil, fmt.Errorf("%w: a place was taken, and is deleted: %w", errs.ErrUncertain, err)
	}
	p.Czxid = p.Own.Stat.Czxid
	return p, nil
}

// search returns the name of the join's place and the line's Stat, or ErrNotSent if there is no
// place. It must list behind a sync (I1), since the connection may be to another server by now, which
// lags.
func (l *Line) search(s *session.Session, e *JoinRequest) (name string, line *zk.Stat, err error) {
	var children []string
	for err = zkconn.ErrNotSent; zkconn.Transient(err); { // it has not been sent yet
		if err = s.Sync(s.UntilAnswered(), l.Abs()); err == nil {
			children, line, err = s.Children(s.UntilAnswered(), l.Abs())
		}
	}
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return "", nil, err
	}
	ms := layout.ParsePlaces(children, l.Kinds)
	i := slices.IndexFunc(ms, func(m layout.PlaceName) bool { return m.UUID == e.uuid })
	if i < 0 {
		s.NoteAbsent(e.Create.Path)
		return "", nil, zkconn.ErrNotSent
	}
	s.NoteFound(l.Abs() + "/" + ms[i].Name)
	return strings.Clone(ms[i].Name), line, nil
}

// deleteLostJoin deletes the place of a join for which the servers refuse to search. It searches
// in longer and longer intervals, until they answer.
func (l *Line) deleteLostJoin(s *session.Session, e *JoinRequest) {
	p := &Place{Line: l, Znode: hold.Znode{Session: s}}
	for wait := 100 * time.Millisecond; p.Pause(wait); wait = min(2*wait, s.Timeout()) {
		name, _, err := l.search(s, e)
		switch {
		case err == nil:
			p.Path = l.Abs() + "/" + name
			p.Withdraw()
			return
		case errors.Is(err, zkconn.ErrNotSent), errors.Is(err, zkconn.ErrSessionOver):
			return
		}
		l.Client.Log(slog.LevelError, "cannot search for a place; if there is one, it blocks the line until the session ends", "line", l.Abs(), "err", err)
	}
}

// settleJoin finds out what became of a join whose caller has left, or whose reply was lost. If
// ctx ends first, the background does, and deletes the place.
func (l *Line) settleJoin(ctx context.Context, s *session.Session, t *zkconn.Transaction, e *JoinRequest) (*Place, error) {
	type result struct {
		p   *Place
		err error
	}
	ch := make(chan result)
	end := make(chan struct{})
	l.Client.Tasks.Start(func() {
		defer l.EndAbandoned(end)
		<-t.Done()
		var p *Place
		o := t.Outcome()
		err := o.Err()
		switch {
		case o.Applied():
			p, err = l.entered(s.UntilAnswered(), s, e, o)
		case o.Transient() && !o.Unsent():
			l.Client.Log(slog.LevelDebug, "reply to a join is missing; its place is looked for", "session", s.Name(), "line", l.Abs(), "err", err)
			p, err = l.findLostJoin(s, e)
		}
		select {
		case ch <- result{p, err}:
		case <-ctx.Done():
			if p != nil {
				p.Withdraw()
			}
		}
	})
	select {
	case r := <-ch:
		if r.p != nil || ctx.Err() == nil {
			return r.p, r.err
		}
	case <-ctx.Done():
		l.Abandon(end)
	}
	return nil, s.ContextErr(ctx)
}
