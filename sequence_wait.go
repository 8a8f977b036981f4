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

// awaitTurn returns when it is the place's turn.
func (p *place) awaitTurn(ctx context.Context) error {
	for queued := false; !p.first; {
		pred, ahead := p.guessed, p.ahead
		guessed := pred != nil
		p.guessed = nil
		if pred == nil {
			var err error
			if pred, ahead, err = p.predecessor(ctx); err != nil {
				return err
			}
			if pred == nil {
				break
			}
		}
		before, err := p.watchPredecessor(ctx, *pred)
		if err != nil {
			return err
		}
		if before == nil {
			if guessed {
				p.line.noteBrief(true)
			}
			continue
		}
		if !queued {
			queued = true
			p.tellQueued(ctx, ahead)
		}
		if err := p.awaitPredecessor(ctx, *pred, before); err != nil {
			return err
		}
	}
	return nil
}

// guess returns the place that joined right before, if these are the line's data and Stat
// from before the join. Nobody can stand between two numbers in a row, since they count
// what is created in the line. But the place may have left by now, and what the data say
// may be wrong: it is a guess until the place with that name and number is watched. nil: no
// guess, because another place has joined since, or because of the data.
func (p *place) guess(data []byte, stat *zk.Stat) *placeName {
	m, ok := p.line.tail(data, p.number-1)
	if !ok || p.number != nextNumber(stat) {
		return nil
	}
	p.line.noteTail(m.kind)
	if !p.line.mayName(p.kind, m) {
		return nil
	}
	return &m
}

// tail returns the name of the place that has joined last, as the line's data tell, if it has
// that number. The name may be invalid.
func (l *line) tail(data []byte, number int32) (m placeName, ok bool) {
	name, ok := l.recorded(data)
	if !ok || number < 0 {
		return placeName{}, false
	}
	m, _ = parsePlaceName(fmt.Sprintf("%s%010d", name, number), l.kinds)
	return m, true
}

// mayName reports whether m, from the line's data, is the name of a place of this library that
// blocks one of that kind.
func (l *line) mayName(k kind, m placeName) bool {
	return m.kind != "" && m.ours() && isUUID(m.uuid) && !l.foreign(m.kind) && l.blocks(k, m.kind)
}

// nextNumber returns the number that the next znode in a line with that Stat gets: of how many
// were created in it. The Stat has twice as many, and it may wrap: see DataNode.copyStat.
func nextNumber(line *zk.Stat) int32 { return int32(uint32(line.Cversion+line.NumChildren) / 2) }

// predecessor lists the line and returns the place's predecessor: the nearest place ahead
// that blocks it. nil: it is the place's turn. ahead is how many places are ahead in
// all.
func (p *place) predecessor(ctx context.Context) (pred *placeName, ahead int, err error) {
	nearest, ahead, err := p.predecessors(ctx, nil, 0)
	return nearest[0], ahead, err
}

// predecessors lists the line and returns the two nearest places ahead that block the
// place, the nearest first, and the nth nearest of all if n is not 0. ahead is how many
// places are ahead in all. Those whose names are in skip do not count.
func (p *place) predecessors(ctx context.Context, skip []string, n int) (nearest [3]*placeName, ahead int, err error) {
	ms, err := p.line.list(ctx, p.s)
	if errors.Is(err, zk.ErrNoNode) {
		return nearest, 0, p.whyGone(ctx)
	}
	if err != nil {
		return nearest, 0, err
	}
	if !slices.ContainsFunc(ms, func(m placeName) bool { return m.name == p.name }) {
		return nearest, 0, p.whyGone(ctx)
	}
	ms = p.onlyAhead(ms, skip)
	if n > 0 && len(ms) >= n {
		slices.SortFunc(ms, func(a, b placeName) int { return b.compare(a) })
		nearest[2] = &ms[n-1]
	}
	nearest[0], nearest[1] = p.nearestBlocking(ms)
	p.noteLast(ms)
	for i, pred := range nearest {
		if pred != nil { // a copy, because it is kept for as long as the wait lasts
			m, _ := parsePlaceName(strings.Clone(pred.name), p.line.kinds)
			nearest[i] = &m
		}
	}
	return nearest, len(ms), nil
}

// onlyAhead returns the places that are ahead of this one, except those whose names are in
// skip. It overwrites ms.
func (p *place) onlyAhead(ms []placeName, skip []string) []placeName {
	return slices.DeleteFunc(ms, func(m placeName) bool {
		return m.compare(p.placeName) >= 0 || slices.Contains(skip, m.name)
	})
}

// nearestBlocking returns the two nearest of the places ahead, which are in any order, that
// block the place.
func (p *place) nearestBlocking(ahead []placeName) (nearest, second *placeName) {
	for i, m := range ahead {
		switch {
		case !p.line.blocks(p.kind, m.kind):
		case nearest == nil || nearest.compare(m) < 0:
			nearest, second = &ahead[i], nearest
		case second == nil || second.compare(m) < 0:
			second = &ahead[i]
		}
	}
	return nearest, second
}

// noteLast notes which of the places ahead, of any kind, has joined last. The next guess
// depends on it.
func (p *place) noteLast(ahead []placeName) {
	var last placeName
	if len(ahead) > 0 {
		last = slices.MaxFunc(ahead, placeName.compare)
	}
	p.line.noteTail(last.kind)
	if last.ours() && last.number == p.number-1 { // else a guess would fail again
		p.line.noteBrief(false)
	}
}

// watchPredecessor watches the own place and the predecessor, by requests that are under
// way together. nil and no error: the predecessor has gone.
//
// Both watches must be answered before an event is believed. Otherwise, if somebody
// deletes this place, its successor may watch the predecessor too, and both see it leave.
func (p *place) watchPredecessor(ctx context.Context, pred placeName) (*zkconn.Watch, error) {
	own := p.startOwn()
	before := p.s.StartWatch(p.line.abs() + "/" + pred.name)
	if err := p.awaitOwn(ctx, own); err != nil {
		return nil, err
	}
	before, err := p.s.Await(ctx, before)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return before, err
}

// awaitPredecessor waits for the predecessor to go. It sets p.first if the predecessor
// said, as it left, that this place is next. Otherwise the line must be listed again.
func (p *place) awaitPredecessor(ctx context.Context, pred placeName, before *zkconn.Watch) error {
	trusted := pred.signals() && p.s.EnforcesACLs(ctx, p.line.abs())
	select {
	case <-before.Fired():
	case <-p.own.Fired():
	case <-p.s.Over():
		return zkconn.ErrSessionOver
	case <-ctx.Done():
		return p.s.ContextErr(ctx)
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
func (p *place) watchOwn(ctx context.Context) error { return p.awaitOwn(ctx, p.startOwn()) }

func (p *place) startOwn() *zkconn.Watch {
	if p.own != nil && !p.own.HasFired() {
		return p.own
	}
	return p.s.StartWatch(p.path)
}

func (p *place) awaitOwn(ctx context.Context, own *zkconn.Watch) error {
	own, err := p.s.Await(ctx, own)
	if errors.Is(err, zk.ErrNoNode) {
		return p.whyGone(ctx)
	}
	if err != nil {
		return err
	}
	p.own = own
	return nil
}

// whyGone distinguishes an eviction from the end of the session, which deletes the place as
// well, and of which the client may learn later. It sends a write, because the servers carry
// out none for a session that has ended.
func (p *place) whyGone(ctx context.Context) error {
	for {
		err := p.s.Multi(ctx, &zk.DeleteRequest{Path: p.path, Version: -1}).Err()
		switch {
		case err == nil, errors.Is(err, zk.ErrNoNode):
			return coreErrEvicted
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
			return p.s.ContextErr(ctx)
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
	return p.awaitAnyOr(ctx, watches, nil)
}

// awaitAnyOr is awaitAny for a caller that has set the watch on the own place, or that
// can do without it. It also returns when something is received from other.
func (p *place) awaitAnyOr(ctx context.Context, watches []*zkconn.Watch, other <-chan struct{}) error {
	fired := make(chan struct{}, 1) // one for all: there may be a hundred thousand watches
	defer func() {
		for _, w := range watches {
			w.StopNotify(fired)
		}
	}()
	for _, w := range watches {
		w.Notify(fired)
	}
	return p.awaitEither(ctx, fired, other)
}

// awaitFired is like awaitAny for a channel that receives when a watch has fired.
func (p *place) awaitFired(ctx context.Context, fired <-chan struct{}) error {
	if err := p.watchOwn(ctx); err != nil {
		return err
	}
	return p.awaitEither(ctx, fired, nil)
}

func (p *place) awaitEither(ctx context.Context, fired, other <-chan struct{}) error {
	select {
	case <-fired:
	case <-other:
	case <-p.own.Fired():
	case <-p.s.Over():
	case <-ctx.Done():
	}
	switch {
	case ctx.Err() != nil:
		return p.s.ContextErr(ctx)
	case p.s.IsOver():
		return zkconn.ErrSessionOver
	case p.own != nil && p.own.HasFired() && p.own.Deleted():
		return p.whyGone(ctx)
	}
	return nil
}

// waiter is notified that a place waits for it.
type waiter interface {
	Queued(p *place, ahead int)
}

// waiterKey is the key of the waiter in a context.
type waiterKey struct{}

// withWaiter returns a context with w, for the rest of a call.
func withWaiter(ctx context.Context, w waiter) context.Context {
	return context.WithValue(ctx, waiterKey{}, w)
}

// waiterIn returns the waiter in a context, nil if there is none.
func waiterIn(ctx context.Context) waiter {
	w, _ := ctx.Value(waiterKey{}).(waiter)
	return w
}

// tellQueued tells the waiter in ctx, if there is one, that the place waits. It does so once.
func (p *place) tellQueued(ctx context.Context, ahead int) {
	if p.queued {
		return
	}
	p.queued = true
	if w := waiterIn(ctx); w != nil {
		w.Queued(p, ahead)
	}
}
