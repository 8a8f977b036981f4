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
	"github.com/zkrecipes/zkrecipes/internal/placename"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Joins whose reply was lost, or whose caller has left before it came.

// JoinOutcome waits for a transaction that takes a place, and returns the place. If none was
// taken and the join can be tried again, the outcome is Unsent.
func (l *Line) JoinOutcome(ctx context.Context, s *session.Session, t *zkconn.Transaction, e *Entry) (*Place, zkconn.Outcome) {
	o := t.Wait(ctx)
	switch {
	case o.Applied():
		p, err := l.Entered(ctx, s, e, o)
		return p, zkconn.Failure(err)
	case o.Unsent():
		return nil, o
	case ctx.Err() != nil, o.Transient():
		p, err := l.settleJoin(ctx, s, t, e)
		if p == nil && err == nil {
			err = zkconn.ErrNotSent // or not applied: it can be sent again, too
		}
		return p, zkconn.Failure(err)
	}
	return nil, o
}

// settleJoin finds out what became of a join whose caller has left, or whose reply was
// lost. nil and no error: there is no place. If ctx ends first, the background deletes
// the place.
func (l *Line) settleJoin(ctx context.Context, s *session.Session, t *zkconn.Transaction, e *Entry) (*Place, error) {
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
			p, err = l.newPlace(s.Lifetime(), s, e, l.nameIn(o.Created(e.Create)))
		case o.Transient() && !o.Unsent():
			p, err = l.FindLostJoin(s, e)
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

// FindLostJoin searches for the place of a join whose reply was lost. nil and no error:
// there is none. ErrUncertain: the servers refuse the search, or to show the place, and the
// background deletes it.
func (l *Line) FindLostJoin(s *session.Session, e *Entry) (*Place, error) {
	j := &lostJoin{l, s, e}
	name, line, err := j.search(s.Lifetime())
	if err != nil {
		if !errors.Is(err, zkconn.ErrSessionOver) {
			l.DeleteLost(s, e)
		}
		return nil, fmt.Errorf("%w: a place may have been taken: %w", errs.ErrUncertain, err)
	}
	if name == "" {
		return nil, nil
	}
	p, err := l.newPlace(s.Lifetime(), s, e, name)
	if err != nil {
		return nil, err
	}
	p.Own, err = s.Watch(s.Lifetime(), p.Path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, nil
	case err != nil:
		l.Client.Tasks.Start(p.Withdraw)
		return nil, fmt.Errorf("%w: a place was taken, and is deleted: %w", errs.ErrUncertain, err)
	case p.Own.Stat.EphemeralOwner != s.ID():
		return nil, nil // not this session's
	}
	p.Czxid, p.LineCzxid = p.Own.Stat.Czxid, line.Czxid
	return p, nil
}

// lostJoin is a join whose reply was lost. There may be a place, which blocks the line
// until it is found and deleted, or until its session ends.
type lostJoin struct {
	line    *Line
	session *session.Session
	entry   *Entry
}

// search returns the name of the join's place, if there is one, and the line's Stat. It
// must list behind a sync, since the connection may be to another server by now, which
// lags.
func (j *lostJoin) search(ctx context.Context) (name string, line *zk.Stat, err error) {
	path := j.line.Abs()
	for {
		err := j.session.Sync(ctx, path)
		var children []string
		if err == nil {
			children, line, err = j.session.Children(ctx, path)
		}
		switch {
		case zkconn.Transient(err):
			continue
		case errors.Is(err, zk.ErrNoNode):
			return "", nil, nil
		case err != nil:
			return "", nil, err
		}
		ms := placename.ParseAll(children, j.line.Kinds)
		if i := slices.IndexFunc(ms, func(m placename.Parts) bool { return m.UUID == j.entry.uuid }); i >= 0 {
			return strings.Clone(ms[i].Name), line, nil
		}
		unresolvedOf(j.session).add(j.entry.uuid)
		return "", line, nil
	}
}

// DeleteLost is for a join that the servers refuse to search for. It searches again in
// longer and longer intervals, and deletes the place. Until then, a listing that
// shows the place also deletes it.
func (l *Line) DeleteLost(s *session.Session, e *Entry) {
	c, j := l.Client, &lostJoin{l, s, e}
	unresolvedOf(j.session).add(j.entry.uuid)
	backgroundOf(c).addLostJoin(j)
	c.Tasks.Start(func() {
		defer backgroundOf(c).endLostJoin(j)
		for wait := 100 * time.Millisecond; ; wait = min(2*wait, j.session.Timeout()) {
			select {
			case <-time.After(wait):
			case <-j.session.Over():
				return
			case <-c.Closing.Done():
				return
			}
			_, err := j.deleteIfFound(j.session.Lifetime())
			if err == nil {
				return
			}
			c.Log(slog.LevelError, "cannot search for a place; if there is one, it blocks the line until the session ends", "line", j.line.Abs(), "err", err)
		}
	})
}

// deleteIfFound searches once. If it finds the place, it deletes it in the background, and
// returns a channel that is closed when the place is gone.
func (j *lostJoin) deleteIfFound(ctx context.Context) (gone <-chan struct{}, err error) {
	name, _, err := j.search(ctx)
	switch {
	case errors.Is(err, zkconn.ErrSessionOver):
		err = nil
	case name != "":
		m, _ := placename.Parse(name, j.line.Kinds)
		p := &Place{Parts: m, Line: j.line, Session: j.session, Path: j.line.Abs() + "/" + name}
		gone = backgroundFor(j.line.Client, j.user(), p.Withdraw)
	}
	return gone, err
}

// user returns the path whose calls wait for the join. A barrier's rounds are below its
// path.
func (j *lostJoin) user() string {
	if j.line.Recipe == "round" {
		return zkconn.Parent(j.line.Path)
	}
	return j.line.Path
}
