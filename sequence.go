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

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// The ordering core: join a line, learn one's place, wait for one's turn,
// leave. The protocol was model-checked; sentences with "must" are there
// because leaving them out lets two in at once or leaves one waiting for ever.

// place is an ephemeral sequential znode in a line.
type place struct {
	member
	line  *line
	s     *session
	path  string // absolute
	token Token  // 0: not known yet
	era   int64  // czxid of the line's znode; 0: not known
	count int    // of the line's children when it came, itself too; -1: not known
	first bool   // known to be first in the line
	heard uint64 // the connection whose event told so, 0 if a reply did
	own   *watch // on path; nil: none yet

	claims string // of a queue's item that it holds: the path of the claim, see claim.go
}

// heardBefore reports that an event of another connection than this told that it is
// the place's turn.
func (p *place) heardBefore(conn uint64) bool { return p.heard != 0 && p.heard != conn }

// enter joins the line and waits for its turn; see inTurn.
func (l *line) enter(ctx context.Context, k kind) (g *grant, err error) {
	err = l.inTurn(ctx, k, nil, func(p *place) error {
		g, err = p.grant(ctx)
		return err
	})
	return g, err
}

// inTurn joins the line, unless the caller has a place in it already, and calls
// f when it is the place's turn. When the session ends it joins again in the
// next one, at the tail, for as long as ctx lives. On any error the place is
// deleted, in the background if need be.
func (l *line) inTurn(ctx context.Context, k kind, p *place, f func(*place) error) error {
	for ; ; p = nil {
		var err error
		if p == nil {
			var s *session
			if s, err = l.c.live(ctx); err != nil {
				return err
			}
			p, err = l.join(ctx, s, k)
		}
		done := false // perhaps: what f was to do is not for the next session then
		if err == nil {
			if err = p.wait(ctx); err == nil {
				err = f(p)
				done = errors.Is(err, ErrUncertain)
			}
			if err == nil {
				return nil
			}
			gone := p
			l.c.tasks.start(func() { gone.leave(false) })
		}
		if done || !errors.Is(err, errSessionOver) && !(errors.Is(err, ErrEvicted) && p.vanished(ctx)) {
			return err
		}
	}
}

// tryEnter is enter for who does not wait: ErrLocked where a place is ahead. A
// line that is held costs one read and no write.
func (l *line) tryEnter(ctx context.Context, k kind) (*grant, error) {
	for {
		s, err := l.c.live(ctx)
		if err != nil {
			return nil, err
		}
		g, err := l.tryEnterIn(ctx, s, k)
		if !errors.Is(err, errSessionOver) {
			return g, err
		}
	}
}

func (l *line) tryEnterIn(ctx context.Context, s *session, k kind) (*grant, error) {
	ms, err := l.list(ctx, s)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, err
	}
	if slices.ContainsFunc(ms, func(m member) bool { return l.blocks(k, m.kind) }) {
		return nil, ErrLocked
	}
	p, err := l.join(ctx, s, k)
	if err != nil {
		return nil, err
	}
	if !p.first {
		var pred *member
		if pred, _, err = p.look(ctx); err == nil && pred != nil {
			err = ErrLocked
		}
	}
	if err == nil {
		var g *grant
		if g, err = p.grant(ctx); err == nil {
			return g, nil
		}
	}
	l.c.tasks.start(func() { p.leave(false) })
	return nil, err
}

// list returns the places in the line, in no order.
func (l *line) list(ctx context.Context, s *session) ([]member, error) {
	children, _, err := s.children(ctx, l.abs())
	if err != nil {
		return nil, err
	}
	ms := members(children, l.kinds)
	for _, m := range ms {
		if l.foreign(m.kind) {
			return nil, fmt.Errorf("%s stands in a line of a %s: another recipe uses this path", m.name, l.recipe)
		}
	}
	l.sweep(s, ms)
	return ms, nil
}

// leaveOpen remembers the uuid of a join that was not found, and is to be
// deleted should it show up after all. A sync stood before the search, so none
// ever should; a bounded number is kept.
func (s *session) leaveOpen(uuid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.unresolved) >= maxUnresolved {
		for other := range s.unresolved {
			delete(s.unresolved, other)
			break
		}
	}
	s.unresolved[uuid] = struct{}{}
}

const maxUnresolved = 1000

// sweep deletes places of joins that were given up as not done and have shown
// up after all.
func (l *line) sweep(s *session, ms []member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.unresolved) == 0 {
		return
	}
	for _, m := range ms {
		if _, ok := s.unresolved[m.uuid]; ok {
			delete(s.unresolved, m.uuid)
			m, _ := parseMember(strings.Clone(m.name), l.kinds)
			ghost := &place{member: m, line: l, s: s, path: l.abs() + "/" + m.name}
			s.c.tasks.start(func() { ghost.leave(false) })
		}
	}
}

// join takes a place: one transaction, in which the line's data is set too,
// because the Stat that this returns tells whether the place is alone and what
// its czxid is. Where ctx ends before it is known whether a place was taken, the
// background finds out, and leaves.
func (l *line) join(ctx context.Context, s *session, k kind) (*place, error) {
	// Close waits for it: what it starts in the background is to be waited for too.
	l.c.tasks.add()
	defer l.c.tasks.finish()
	for tries := 0; tries < maxTries; {
		state, err := l.look(ctx, s)
		if err != nil {
			return nil, err
		}
		// Each attempt has a name of its own, so that one whose outcome is open is
		// never taken for another.
		e := l.entry(s, k, state)
		t, err := s.begin(ctx, e.ops...)
		if err != nil {
			return nil, err
		}
		p, rs, failed, err := l.outcome(ctx, s, t, 0, e.uuid)
		switch {
		case p != nil:
			if rs != nil {
				l.taken(p, e, rs)
			}
			return p, nil
		case err == nil:
		case l.refused(failed, err):
			tries++
		case errors.Is(err, errSessionOver):
			return nil, errJoinLost
		default:
			return nil, err
		}
	}
	return nil, errContended
}

// errJoinLost: the session ended before the answer came, so there may have been a
// place.
var errJoinLost = fmt.Errorf("the answer to a join was lost: %w", errSessionOver)

// entry is what takes a place, as a transaction or as the last part of one.
type entry struct {
	uuid  string
	state lineState
	ops   []any
}

func (l *line) entry(s *session, k kind, state lineState) entry {
	uuid := newUUID()
	ops := []any{&zk.CreateRequest{
		Path:  l.abs() + "/_c_" + uuid + "-" + string(k),
		Data:  []byte(l.c.identity),
		Acl:   placeACL(l.c.acl, s.ownerID()),
		Flags: zk.FlagEphemeral | zk.FlagSequence,
	}}
	if !state.guest {
		ops = append(ops, &zk.SetDataRequest{Path: l.abs(), Data: l.marker(), Version: state.version})
	}
	return entry{uuid, state, ops}
}

// refused reports that an entry failed, at its operation of that index, because
// the line is not what it was known to be. The next one may do.
func (l *line) refused(failed int, err error) bool {
	switch {
	case failed == 1 && errors.Is(err, zk.ErrNoAuth):
		l.remember(lineState{guest: true})
	case errors.Is(err, zk.ErrNoNode), failed == 1 && errors.Is(err, zk.ErrBadVersion):
		l.forget()
	default:
		return false
	}
	return true
}

// entered makes the place of an entry that was answered.
func (l *line) entered(ctx context.Context, s *session, e entry, rs []zk.MultiResponse) (*place, error) {
	p, err := l.newPlace(ctx, s, rs[0].String[len(l.abs())+1:])
	if err == nil {
		l.taken(p, e, rs)
	}
	return p, err
}

// taken notes what the line's Stat after an entry tells of its place.
func (l *line) taken(p *place, e entry, rs []zk.MultiResponse) {
	if e.state.guest {
		return
	}
	if e.state.version != -1 {
		l.remember(lineState{version: -1})
	}
	p.arrived(rs[1].Stat)
	p.first = p.count == 1
}

// arrived notes the Stat of the line that was written in the transaction that
// created the place.
func (p *place) arrived(stat *zk.Stat) {
	p.token, p.era, p.count = Token(stat.Mzxid), stat.Czxid, int(stat.NumChildren)
}

// outcome waits for a transaction that creates a place by its operation at, and
// returns the place, and the results where the reply was not lost. No place and
// no error: there is none, and it can be tried again.
func (l *line) outcome(ctx context.Context, s *session, t *transaction, at int, uuid string) (p *place, rs []zk.MultiResponse, failed int, err error) {
	rs, failed, err = t.wait(ctx)
	switch {
	case err == nil:
		p, err = l.newPlace(ctx, s, rs[at].String[len(l.abs())+1:])
		return p, rs, -1, err
	case errors.Is(err, errNotSent):
		return nil, nil, -1, nil
	case ctx.Err() != nil, unsettled(err):
		p, err = l.settle(ctx, s, t, at, uuid)
		return p, nil, -1, err
	}
	return nil, nil, failed, err
}

// settle finds out what became of a join that was left, or whose reply was
// lost. nil and no error: there is no place. Where ctx ends first, the
// background leaves.
func (l *line) settle(ctx context.Context, s *session, t *transaction, at int, uuid string) (*place, error) {
	type result struct {
		p   *place
		err error
	}
	ch := make(chan result)
	end := make(chan struct{})
	l.c.tasks.start(func() {
		defer l.c.settle(l.path, end)
		<-t.call.Done()
		var p *place
		rs, _, err := t.result()
		switch {
		case err == nil:
			p, err = l.newPlace(context.Background(), s, rs[at].String[len(l.abs())+1:])
		case unsettled(err) && !errors.Is(err, errNotSent):
			p, err = l.recover(s, uuid)
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
		l.c.leave(l.path, end)
	}
	return nil, ended(ctx)
}

// newPlace makes a place of a znode's name. Beyond the limit it is given up:
// near the end of ZooKeeper's counter the same number comes again and again,
// and negative ones sort before the holder's.
func (l *line) newPlace(ctx context.Context, s *session, name string) (*place, error) {
	m, ok := parseMember(name, l.kinds)
	p := &place{member: m, line: l, s: s, path: l.abs() + "/" + name, count: -1}
	if !ok || m.number < 0 || m.number > l.c.last {
		if _, _, err := s.multi(ctx, &zk.DeleteRequest{Path: p.path, Version: -1}); err != nil {
			l.c.tasks.start(func() { p.leave(false) })
		}
		return nil, fmt.Errorf("%w: %s", ErrExhausted, name)
	}
	return p, nil
}

// recover finds out what became of a join whose reply was lost. nil and no
// error: there is no place. It must ask behind a sync, since the connection may
// be to another server now, one that lags.
func (l *line) recover(s *session, uuid string) (*place, error) {
	for {
		err := s.sync(context.Background(), l.abs())
		var children []string
		var stat *zk.Stat
		if err == nil {
			children, stat, err = s.children(context.Background(), l.abs()) // ends with the session
		}
		switch {
		case unsettled(err):
			continue
		case errors.Is(err, zk.ErrNoNode):
			return nil, nil
		case err != nil: // it stays until a listing shows it or the session ends
			s.leaveOpen(uuid)
			return nil, fmt.Errorf("%w: a place may have been taken: %w", ErrUncertain, err)
		}
		ms := members(children, l.kinds)
		i := slices.IndexFunc(ms, func(m member) bool { return m.uuid == uuid })
		if i < 0 {
			s.leaveOpen(uuid)
			return nil, nil
		}
		p, err := l.newPlace(context.Background(), s, strings.Clone(ms[i].name))
		if err != nil {
			return nil, err
		}
		p.own, err = s.watch(context.Background(), p.path) // ends with the session
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return nil, nil // gone again
		case err != nil:
			l.c.tasks.start(func() { p.leave(false) })
			return nil, err
		case p.own.stat.EphemeralOwner != s.wire.ID():
			return nil, nil // not this session's
		}
		p.token, p.era = Token(p.own.stat.Czxid), stat.Czxid
		return p, nil
	}
}

// wait returns when it is the place's turn.
func (p *place) wait(ctx context.Context) error {
	for queued := false; !p.first; {
		pred, ahead, err := p.look(ctx)
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
		if err := p.until(ctx, *pred); err != nil {
			return err
		}
	}
	return nil
}

// look lists the line and returns the place that this one has to see go, nil
// when it is its turn, and how many are ahead in all.
func (p *place) look(ctx context.Context) (pred *member, ahead int, err error) {
	ms, err := p.line.list(ctx, p.s)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, 0, p.gone(ctx)
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
		if m.compare(p.member) > 0 {
			continue
		}
		ahead++
		if p.line.blocks(p.kind, m.kind) && (pred == nil || pred.compare(m) < 0) {
			pred = &ms[i]
		}
	}
	if !found {
		return nil, 0, p.gone(ctx)
	}
	if pred != nil { // it is kept for as long as the wait lasts
		m, _ := parseMember(strings.Clone(pred.name), p.line.kinds)
		pred = &m
	}
	return pred, ahead, nil
}

// until waits for pred to go. p.first is set where its leaving says that this
// place is next; else the line must be listed again.
//
// Both watches must be answered before an event is believed, the own one asked
// for first: else somebody's deletion of this place lets the one behind it
// watch pred too, and both hear it leave.
func (p *place) until(ctx context.Context, pred member) error {
	if err := p.watchOwn(ctx); err != nil {
		return err
	}
	before, err := p.s.watch(ctx, p.line.abs()+"/"+pred.name)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	trusted := pred.signals() && p.s.enforced(ctx)
	select {
	case <-before.done:
	case <-p.own.done:
	case <-p.s.over:
		return errSessionOver
	case <-ctx.Done():
		return ended(ctx)
	}
	if p.own.fired() { // must be looked at first
		if p.own.deleted() {
			return p.gone(ctx)
		}
		return nil // changed by a super user
	}
	// A holder sets data on its place in the transaction in which it deletes it,
	// and watches fire once, for each operation: so a change is the holder's
	// farewell, and a deletion anything else. It must be believed only on the
	// connection on which both watches were answered: go-zookeeper arms them
	// again in any order, and in chunks.
	e := before.event
	p.first = trusted && e.Type == jute.EventDataChanged &&
		before.confirmed == e.Conn && p.own.confirmed == e.Conn
	if p.first {
		p.heard = e.Conn
	}
	return nil
}

// watchOwn sets the watch on the own place, if there is none.
func (p *place) watchOwn(ctx context.Context) error {
	if p.own != nil && !p.own.fired() {
		return nil
	}
	own, err := p.s.watch(ctx, p.path)
	if errors.Is(err, zk.ErrNoNode) {
		return p.gone(ctx)
	}
	if err != nil {
		return err
	}
	p.own = own
	return nil
}

// gone tells an eviction from the end of the session, which deletes the place
// as well and may be heard of later. A write tells: none is carried out for a
// session that has ended.
func (p *place) gone(ctx context.Context) error {
	for {
		_, _, err := p.s.multi(ctx, &zk.DeleteRequest{Path: p.path, Version: -1})
		switch {
		case err == nil, errors.Is(err, zk.ErrNoNode):
			return ErrEvicted
		case !unsettled(err):
			return err
		}
	}
}

// grant makes a lease of a place whose turn it is. The clock must be looked at
// first: a process that slept finds the event although its session is gone. The
// wall clock is looked at too, since the monotonic one stands still while a
// machine is suspended (CLOCK_MONOTONIC); one that jumped costs a read.
func (p *place) grant(ctx context.Context) (*grant, error) {
	if p.token == 0 {
		own, err := p.s.watch(ctx, p.path)
		if errors.Is(err, zk.ErrNoNode) {
			return nil, p.gone(ctx)
		}
		if err != nil {
			return nil, err
		}
		p.own, p.token = own, Token(own.stat.Czxid)
	}
	for {
		now, until := time.Now(), p.s.wire.ValidUntil()
		if now.Before(until) && now.Round(0).Before(until.Round(0)) {
			g, err := newGrant(p)
			if !errors.Is(err, errMoved) {
				return g, err
			}
			if err := p.s.sync(ctx, p.path); err != nil {
				return nil, err
			}
			p.heard = 0 // the answer has advanced the zxid
			continue
		}
		_, _, err := read(ctx, p.s, func(conn *zk.Conn) ([]byte, *zk.Stat, error) { return conn.Get(p.path) })
		if errors.Is(err, zk.ErrNoNode) {
			return nil, p.gone(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
}

// leaveLater is leave in the background; see Client.settled.
func (p *place) leaveLater(signal bool) {
	p.line.c.background(p.line.path, func() { p.leave(signal) })
}

// leave deletes the place, until it is gone or its session is. With signal, of
// a holder that gives up what it holds, the next in line hears that it is next.
// Where the servers refuse, it goes on in longer and longer intervals.
func (p *place) leave(signal bool) {
	for wait := 100 * time.Millisecond; ; {
		err := p.remove(signal, func(ops ...any) (*transaction, error) {
			return p.s.begin(context.Background(), ops...) // ends with the session
		})
		switch {
		case err == nil, errors.Is(err, zk.ErrNoNode), errors.Is(err, errSessionOver):
			return
		case unsettled(err):
			continue
		}
		p.line.c.hooks.log(slog.LevelError, "cannot delete a place; it blocks the line until the session ends", "place", p.path, "err", err)
		select {
		case <-time.After(wait):
		case <-p.s.over:
			return
		case <-p.line.c.closing.Done():
			return // it goes with the session
		}
		wait = min(2*wait, p.s.wire.Timeout())
	}
}

// remove deletes the place, once, by a transaction that begin sends.
func (p *place) remove(signal bool, begin func(...any) (*transaction, error)) error {
	if p.claims != "" {
		return p.giveBack(begin)
	}
	ops := p.farewell(signal)
	t, err := begin(ops...)
	if err != nil {
		return err
	}
	_, _, err = t.wait(context.Background())
	switch {
	case err == nil, unsettled(err), errors.Is(err, zk.ErrNoNode), errors.Is(err, errSessionOver), len(ops) == 1:
		return err
	}
	// The signal is refused: by an ACL, by a quota. The place can go without.
	return p.remove(false, begin)
}

// farewell is what deletes the place, as a transaction or as a part of one.
func (p *place) farewell(signal bool) []any {
	gone := &zk.DeleteRequest{Path: p.path, Version: -1}
	if signal && p.kind.exclusive() && p.s.ownerID() != "" {
		return []any{&zk.SetDataRequest{Path: p.path, Data: []byte("released"), Version: -1}, gone}
	}
	return []any{gone}
}

// event fills in what a Trace function is told of a place.
func (p *place) event(e TraceEvent) TraceEvent {
	e.Session, e.Path, e.Place, e.Token = p.s.wire.ID(), p.line.path, p.name, p.token
	return e
}

// vanished tells that a place was deleted with its line, which is then to be
// joined again where the recipe says so, from the eviction of this place alone.
// Most tools delete a tree one znode after the other, the leaves first: so the
// line gets some time to go as well.
func (p *place) vanished(ctx context.Context) bool {
	if p == nil || !p.line.rejoins {
		return false
	}
	evicted := time.NewTimer(p.s.wire.Timeout() / 10)
	defer evicted.Stop()
	for {
		w, err := p.s.watch(ctx, p.line.abs())
		switch {
		case errors.Is(err, zk.ErrNoNode):
			p.line.forget()
			return true
		case err != nil:
			return errors.Is(err, errSessionOver)
		case p.token != 0 && Token(w.stat.Czxid) > p.token: // somebody else has made it anew
			return true
		}
		select {
		case <-w.done:
		case <-evicted.C:
			return false
		case <-p.s.over:
			return true
		case <-ctx.Done():
			return false
		}
	}
}
