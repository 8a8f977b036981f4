package zkrecipes

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// awaitTurn returns when it is the place's turn.
func (p *place) awaitTurn(ctx context.Context) error {
	for queued := false; !p.first; {
		pred, ahead, err := p.predecessor(ctx)
		if err != nil {
			return err
		}
		if pred == nil {
			break
		}
		if !queued {
			queued = true
			h := &p.line.c.hooks
			h.tell(h.trace.Queued, p.event(TraceEvent{Ahead: ahead}))
		}
		if err := p.awaitPredecessor(ctx, *pred); err != nil {
			return err
		}
	}
	return nil
}

// predecessor lists the line and returns the place's predecessor: the nearest place ahead
// that blocks it. nil: it is the place's turn. ahead is how many places are ahead in
// all.
func (p *place) predecessor(ctx context.Context) (pred *placeName, ahead int, err error) {
	ms, err := p.line.list(ctx, p.s)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, 0, p.whyGone(ctx)
	}
	if err != nil {
		return nil, 0, err
	}
	found := false
	for i, m := range ms {
		if m.name == p.name {
			found = true
			continue
		}
		if m.compare(p.placeName) > 0 {
			continue
		}
		ahead++
		if p.line.blocks(p.kind, m.kind) && (pred == nil || pred.compare(m) < 0) {
			pred = &ms[i]
		}
	}
	if !found {
		return nil, 0, p.whyGone(ctx)
	}
	if pred != nil { // a copy, because it is kept for as long as the wait lasts
		m, _ := parsePlaceName(strings.Clone(pred.name), p.line.kinds)
		pred = &m
	}
	return pred, ahead, nil
}

// awaitPredecessor waits for the predecessor to go. It sets p.first if the predecessor
// said, as it left, that this place is next. Otherwise the line must be listed again.
//
// Both watches must be answered before an event is believed, the own one first.
// Otherwise, if somebody deletes this place, its successor may watch the predecessor
// too, and both see it leave.
func (p *place) awaitPredecessor(ctx context.Context, pred placeName) error {
	if err := p.watchOwn(ctx); err != nil {
		return err
	}
	before, err := p.s.Watch(ctx, p.line.abs()+"/"+pred.name)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	trusted := pred.signals() && p.s.EnforcesACLs(ctx)
	select {
	case <-before.Fired():
	case <-p.own.Fired():
	case <-p.s.Over():
		return zkconn.ErrSessionOver
	case <-ctx.Done():
		return zkconn.ContextErr(ctx)
	}
	if p.own.HasFired() { // must come first
		if p.own.Deleted() {
			return p.whyGone(ctx)
		}
		return nil // changed by a super user
	}
	// A holder sets data on its place in the transaction that deletes it. Watches fire
	// once, on the first of the two: so a change means that the holder leaves, and a
	// deletion means anything else. The change must be believed only on the connection
	// on which both watches were answered: go-zookeeper re-arms them in any order and in
	// chunks.
	conn, changed := before.Changed()
	p.first = trusted && changed && before.ConfirmedOn(conn) && p.own.ConfirmedOn(conn)
	if p.first {
		p.turnConn = conn
	}
	return nil
}

// watchOwn sets the watch on the own place, if there is none.
func (p *place) watchOwn(ctx context.Context) error {
	if p.own != nil && !p.own.HasFired() {
		return nil
	}
	own, err := p.s.Watch(ctx, p.path)
	if errors.Is(err, zk.ErrNoNode) {
		return p.whyGone(ctx)
	}
	if err != nil {
		return err
	}
	p.own = own
	return nil
}

// whyGone tells an eviction from the end of the session, which deletes the place as well
// and may be learned of later. It sends a write, because the servers carry out none
// for a session that has ended.
func (p *place) whyGone(ctx context.Context) error {
	for {
		_, _, err := p.s.Multi(ctx, &zk.DeleteRequest{Path: p.path, Version: -1})
		switch {
		case err == nil, errors.Is(err, zk.ErrNoNode):
			return ErrEvicted
		case !zkconn.Transient(err):
			return err
		}
	}
}

// awaitWatch waits until the watch fires. The place is watched too, once late says that
// the wait has lasted for a while, so that short waits do not pay for it. zk.ErrNoNode:
// the place was deleted.
func (p *place) awaitWatch(ctx context.Context, w *zkconn.Watch, late <-chan time.Time) (err error) {
	for {
		select {
		case <-w.Fired():
			return nil
		case <-late:
		case <-p.own.Fired():
		case <-p.s.Over():
			return zkconn.ErrSessionOver
		case <-ctx.Done():
			return zkconn.ContextErr(ctx)
		}
		if p.own, err = p.s.Watch(ctx, p.path); err != nil {
			return err
		}
	}
}

// awaitAny waits until one of the watches fires. It watches the own place, too: no other
// event would tell the first in line that its place was deleted.
func (p *place) awaitAny(ctx context.Context, watches []*zkconn.Watch) error {
	if err := p.watchOwn(ctx); err != nil {
		return err
	}
	cases := make([]reflect.SelectCase, 0, len(watches)+3)
	for _, done := range []<-chan struct{}{p.own.Fired(), p.s.Over(), ctx.Done()} {
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(done)})
	}
	for _, w := range watches {
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(w.Fired())})
	}
	reflect.Select(cases)
	switch {
	case ctx.Err() != nil:
		return zkconn.ContextErr(ctx)
	case p.s.IsOver():
		return zkconn.ErrSessionOver
	case p.own.HasFired() && p.own.Deleted():
		return p.whyGone(ctx)
	}
	return nil
}
