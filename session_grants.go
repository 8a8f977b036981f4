package zkrecipes

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// A session's grants end with the session, when its clock runs out, and when their
// places are deleted.

// errMoved: an event that came over an earlier connection gave the place its turn.
// Events advance no zxid, and without a grant the reconnect did no sync, so this server
// may lag behind what the grant rests on.
var errMoved = errors.New("connection has changed")

// addGrant makes g one of the session's grants.
//
// The conditions can change right after they were checked. Code that changes them takes
// s.mu afterwards and finds the grant: a reconnect asks hasGrants after it has set its
// number, and endGrants follows the end of the session and of the Client. A grant that
// somebody gets counts as held before anybody can end it.
func (s *session) addGrant(g *grant) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	conn, err := s.Connection()
	last := s.grants[g.place().path] // of a kept lock: no reconnect came without a grant
	switch {
	case s.c.held.isStopped():
		return coreErrClosed // endGrants may have run already
	case err != nil:
		return err
	case last == nil && g.place().turnBefore(conn):
		return errMoved
	case last != nil && last.deleted: // g gets no such event
		return lost(errDeleted)
	case !g.idle && !s.c.held.begin():
		return coreErrClosed
	}
	for _, path := range g.place().paths() {
		s.grants[path] = g
	}
	s.tickBy(time.Now().Add(s.watchAge()))
	s.tickBy(s.ValidUntil()) // a place may be granted late, by an event
	return nil
}

// isValid reports whether the session is known to be alive. The wall clock is looked at
// too, since the monotonic clock stands still while a machine is suspended
// (CLOCK_MONOTONIC).
func (s *session) isValid() bool {
	now, until := time.Now(), s.ValidUntil()
	return now.Before(until) && now.Round(0).Before(until.Round(0))
}

// hasMoved reports whether an event of an earlier connection said that it is p's
// turn.
func (s *session) hasMoved(p *place) bool {
	conn, _ := s.Connection()
	return p.turnBefore(conn)
}

func (s *session) dropGrant(g *grant) {
	for _, path := range g.place().paths() {
		s.forget(g, path)
	}
}

// expect delivers events of path to g too, whose place is about to move there.
func (s *session) expect(g *grant, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grants[path] = g
}

// forget stops delivering events of path to g.
func (s *session) forget(g *grant, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.grants[path] == g {
		delete(s.grants, path)
	}
}

func (s *session) hasGrants() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.grants) > 0
}

// heldSince returns when this session was granted the place at path; zero: it holds none there.
func (s *session) heldSince(path string) (since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.grants[path]; g != nil {
		since = g.since
	}
	return since
}

func (s *session) allGrants() []*grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.grants))
}

// endGrants ends every grant. No place is deleted before the contexts of all leases have
// ended.
func (s *session) endGrants(cause error) {
	var ds []departure
	for _, g := range s.allGrants() {
		if g.endHeld(cause) {
			ds = append(ds, g.departure())
		}
	}
	s.departures.add(ds...)
}

// onEvent ends the grant whose place was deleted, and watches a place again whose
// data was changed.
func (s *session) onEvent(e wire.Event) {
	s.mu.Lock()
	g := s.grants[e.Path]
	if g != nil && e.Type == jute.EventDeleted {
		g.deleted = true
	}
	s.mu.Unlock()
	switch {
	case g == nil:
	case e.Type == jute.EventDeleted:
		s.c.tasks.Start(func() { g.placeGone(e.Path, &deletion{bySomebody: errDeleted}) })
	case e.Type == jute.EventDataChanged:
		s.c.tasks.Start(g.watchPlace)
	}
}

// watchAge is how long a grant has lasted when its place is watched: short critical
// sections do not pay for the watch, and long ones learn that their place was deleted.
func (s *session) watchAge() time.Duration { return s.Timeout() / 10 }

// tick ends the grants when the session's clock runs out, and watches the places that
// were held for long enough. One timer serves all grants. It runs on until it finds
// none, so that short critical sections do not pay for timers either.
func (s *session) tick() {
	s.mu.Lock()
	s.due = time.Time{}
	if len(s.grants) == 0 {
		s.mu.Unlock()
		return
	}
	now, age := time.Now(), s.watchAge()
	next := s.ValidUntil()
	silent := !now.Before(next)
	if silent {
		next = now.Add(age)
	}
	for _, g := range s.grants {
		if g.watched {
			continue
		}
		if at := g.since.Add(age); at.After(now) {
			if at.Before(next) {
				next = at
			}
			continue
		}
		g.watched = true
		s.c.tasks.Start(g.watchPlace)
	}
	s.tickBy(next)
	s.mu.Unlock()
	if silent {
		for _, g := range s.allGrants() {
			g.checkHeld()
		}
	}
}

// tickBy makes tick run at that time at the latest. s.mu must be held.
func (s *session) tickBy(at time.Time) {
	if !s.due.IsZero() && !at.Before(s.due) {
		return
	}
	s.due = at
	if s.timer == nil {
		s.timer = time.AfterFunc(time.Until(at), s.tick)
		return
	}
	s.timer.Reset(time.Until(at))
}

// onSooner is called when the session's clock runs out earlier than it did.
func (s *session) onSooner() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.grants) > 0 {
		s.tickBy(s.ValidUntil())
	}
}

// A kept lock's place has several grants, one after the other.

// keepBy makes k decide what becomes of the place after the grant. false: the grant has
// ended already.
func (g *grant) keepBy(k keeper) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return false
	}
	g.kept = k
	return true
}

// successor makes the next grant of the same place, after g has ended. Events of the
// place go to it, so it can end before somebody has it. It returns nil if the session has
// ended, if there is no higher token, or if nothing is granted any more.
func (g *grant) successor() *grant {
	if g.token&lastGrant == lastGrant {
		return nil
	}
	next := &grant{
		line: g.line, s: g.s, token: g.token + 1, kept: g.kept, idle: true,
		over: make(chan struct{}), handles: map[*handle]struct{}{}, since: g.since,
	}
	next.current.Store(g.place())
	next.mu.Lock()
	defer next.mu.Unlock()
	if g.s.addGrant(next) != nil {
		return nil
	}
	return next
}

// begun begins a grant that successor has made. false: it has ended already, or nothing is
// granted any more.
func (g *grant) begun() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil || !g.line.c.held.begin() {
		return false
	}
	g.idle = false
	return true
}
