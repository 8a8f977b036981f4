package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Joins whose reply was lost, or whose caller has left before it came; and waits whose
// line was deleted.

// joinOutcome waits for a transaction that takes a place, and returns the place. No place
// and no error: none was taken, and the join can be tried again.
func (l *line) joinOutcome(ctx context.Context, s *session, t *zkconn.Transaction, e *entry) (p *place, failed any, err error) {
	rs, failed, err := t.Wait(ctx)
	switch {
	case err == nil:
		p, err = l.entered(ctx, s, e, rs)
		return p, nil, err
	case errors.Is(err, zkconn.ErrNotSent):
		return nil, nil, nil
	case ctx.Err() != nil, zkconn.Transient(err):
		p, err = l.settleJoin(ctx, s, t, e)
		return p, nil, err
	}
	return nil, failed, err
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
		rs, _, err := t.Result()
		switch {
		case err == nil:
			p, err = l.newPlace(s.Lifetime(), s, l.nameIn(rs.Created(e.create)))
		case zkconn.Transient(err) && !errors.Is(err, zkconn.ErrNotSent):
			p, err = l.findLostJoin(s, e.uuid)
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
	return nil, zkconn.ContextErr(ctx)
}

// findLostJoin searches for the place of a join whose reply was lost. nil and no error:
// there is none. It must list behind a sync, since the connection may be to another
// server by now, which lags.
func (l *line) findLostJoin(s *session, uuid string) (*place, error) {
	for {
		err := s.Sync(s.Lifetime(), l.abs())
		var children []string
		var stat *zk.Stat
		if err == nil {
			children, stat, err = s.Children(s.Lifetime(), l.abs())
		}
		switch {
		case zkconn.Transient(err):
			continue
		case errors.Is(err, zk.ErrNoNode):
			return nil, nil
		case err != nil: // the place stays until a listing shows it or the session ends
			s.leaveUnresolved(uuid)
			return nil, fmt.Errorf("%w: a place may have been taken: %w", ErrUncertain, err)
		}
		ms := placeNames(children, l.kinds)
		i := slices.IndexFunc(ms, func(m placeName) bool { return m.uuid == uuid })
		if i < 0 {
			s.leaveUnresolved(uuid)
			return nil, nil
		}
		p, err := l.newPlace(s.Lifetime(), s, strings.Clone(ms[i].name))
		if err != nil {
			return nil, err
		}
		p.own, err = s.Watch(s.Lifetime(), p.path)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return nil, nil // gone again
		case err != nil:
			l.c.tasks.Start(func() { p.leave(false) })
			return nil, err
		case p.own.Stat.EphemeralOwner != s.ID():
			return nil, nil // not this session's
		}
		p.token, p.lineCzxid = Token(p.own.Stat.Czxid), stat.Czxid
		return p, nil
	}
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
		case p.token != 0 && Token(w.Stat.Czxid) > p.token: // another client has made it anew
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
