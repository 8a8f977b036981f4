package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Joins whose reply was lost, or whose caller has left before it came; and waits whose
// line was deleted.

// joinOutcome waits for a transaction that takes a place, and returns the place. If none was
// taken and the join can be tried again, the outcome is Unsent.
func (l *line) joinOutcome(ctx context.Context, s *session, t *zkconn.Transaction, e *entry) (*place, zkconn.Outcome) {
	o := t.Wait(ctx)
	switch {
	case o.Applied():
		p, err := l.entered(ctx, s, e, o)
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
func (l *line) settleJoin(ctx context.Context, s *session, t *zkconn.Transaction, e *entry) (*place, error) {
	type result struct {
		p   *place
		err error
	}
	ch := make(chan result)
	end := make(chan struct{})
	l.c.tasks.Start(func() {
		defer l.c.endAbandoned(l.path, end)
		<-t.Done()
		var p *place
		o := t.Outcome()
		err := o.Err()
		switch {
		case o.Applied():
			p, err = l.newPlace(s.Lifetime(), s, e, l.nameIn(o.Created(e.create)))
		case o.Transient() && !o.Unsent():
			p, err = l.findLostJoin(s, e)
		}
		select {
		case ch <- result{p, err}:
		case <-ctx.Done():
			if p != nil {
				p.leave(false)
			}
		}
	})
	select {
	case r := <-ch:
		if r.p != nil || ctx.Err() == nil {
			return r.p, r.err
		}
	case <-ctx.Done():
		l.c.abandon(l.path, end)
	}
	return nil, s.ContextErr(ctx)
}

// findLostJoin searches for the place of a join whose reply was lost. nil and no error:
// there is none. ErrUncertain: the servers refuse the search, or to show the place, and the
// background deletes it.
func (l *line) findLostJoin(s *session, e *entry) (*place, error) {
	j := &lostJoin{l, s, e}
	name, line, err := j.search(s.Lifetime())
	if err != nil {
		if !errors.Is(err, zkconn.ErrSessionOver) {
			j.deleteLater()
		}
		return nil, fmt.Errorf("%w: a place may have been taken: %w", coreErrUncertain, err)
	}
	if name == "" {
		return nil, nil
	}
	p, err := l.newPlace(s.Lifetime(), s, e, name)
	if err != nil {
		return nil, err
	}
	p.own, err = s.Watch(s.Lifetime(), p.path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		s.NoteGone(p.path)
		return nil, nil // gone again
	case err != nil:
		l.c.tasks.Start(func() { p.leave(false) })
		return nil, fmt.Errorf("%w: a place was taken, and is deleted: %w", coreErrUncertain, err)
	case p.own.Stat.EphemeralOwner != s.ID():
		s.NoteGone(p.path)
		return nil, nil // not this session's
	}
	p.czxid, p.lineCzxid = p.own.Stat.Czxid, line.Czxid
	return p, nil
}

// lineDeleted reports whether a place was deleted together with its line, in a recipe
// that joins again then, and not alone. Most tools delete a tree znode by znode,
// leaves first, so the line gets some time to go as well.
func (p *place) lineDeleted(ctx context.Context) bool {
	if p == nil || !p.line.rejoins {
		return false
	}
	evicted := time.NewTimer(p.s.Timeout() / 10)
	defer evicted.Stop()
	for {
		w, err := p.s.Watch(ctx, p.line.abs())
		switch {
		case errors.Is(err, zk.ErrNoNode):
			p.line.forget()
			return true
		case err != nil:
			return errors.Is(err, zkconn.ErrSessionOver)
		case p.czxid != 0 && w.Stat.Czxid > p.czxid: // another client has made it anew
			return true
		}
		select {
		case <-w.Fired():
		case <-evicted.C:
			return false
		case <-p.s.Over():
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// lostJoin is a join whose reply was lost. There may be a place, which blocks the line
// until it is found and deleted, or until its session ends.
type lostJoin struct {
	line  *line
	s     *session
	entry *entry
}

// search returns the name of the join's place, if there is one, and the line's Stat. It
// must list behind a sync, since the connection may be to another server by now, which
// lags.
func (j *lostJoin) search(ctx context.Context) (name string, line *zk.Stat, err error) {
	path := j.line.abs()
	for {
		err := j.s.Sync(ctx, path)
		var children []string
		if err == nil {
			children, line, err = j.s.Children(ctx, path)
		}
		switch {
		case zkconn.Transient(err):
			continue
		case errors.Is(err, zk.ErrNoNode):
			j.s.NoteGone(j.entry.create.Path)
			return "", nil, nil
		case err != nil:
			return "", nil, err
		}
		ms := placeNames(children, j.line.kinds)
		if i := slices.IndexFunc(ms, func(m placeName) bool { return m.uuid == j.entry.uuid }); i >= 0 {
			return strings.Clone(ms[i].name), line, nil
		}
		j.s.leaveUnresolved(j.entry.uuid)
		j.s.NoteGone(j.entry.create.Path)
		return "", line, nil
	}
}

// deleteLater is for a join that the servers refuse to search for. It searches again in
// longer and longer intervals, and deletes the place. Until then, a listing that
// shows the place also deletes it.
func (j *lostJoin) deleteLater() {
	c := j.line.c
	j.s.leaveUnresolved(j.entry.uuid)
	c.addLostJoin(j)
	c.tasks.Start(func() {
		defer c.endLostJoin(j)
		for wait := 100 * time.Millisecond; ; wait = min(2*wait, j.s.Timeout()) {
			select {
			case <-time.After(wait):
			case <-j.s.Over():
				return
			case <-c.closing.Done():
				return // the place goes with the session
			}
			_, err := j.settle(j.s.Lifetime())
			if err == nil {
				return
			}
			c.log(slog.LevelError, "cannot search for a place; if there is one, it blocks the line until the session ends", "line", j.line.abs(), "err", err)
		}
	})
}

// settle searches once. If it finds the place, it deletes it in the background, and
// returns a channel that is closed when the place is gone.
func (j *lostJoin) settle(ctx context.Context) (gone <-chan struct{}, err error) {
	name, _, err := j.search(ctx)
	switch {
	case errors.Is(err, zkconn.ErrSessionOver):
		err = nil // the place has gone with the session
	case name != "":
		m, _ := parsePlaceName(name, j.line.kinds)
		p := &place{placeName: m, line: j.line, s: j.s, path: j.line.abs() + "/" + name}
		gone = j.line.c.background(j.user(), func() { p.leave(false) })
	}
	return gone, err
}

// user returns the path whose calls wait for the join. A barrier's rounds are below its
// path.
func (j *lostJoin) user() string {
	if j.line.recipe == "round" {
		return zkconn.Parent(j.line.path)
	}
	return j.line.path
}
