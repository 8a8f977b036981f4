package line

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/errs"
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
// s.mu afterwards and finds the grant: a reconnect asks HasGrants after it has set its
// number, and EndGrants follows the end of the session and of the Client. A grant that
// somebody gets counts as held before anybody can end it.
func (s *Session) addGrant(g *Grant) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	conn, err := s.Connection()
	last := s.grants[g.Place().Path] // of a kept lock: no reconnect came without a grant
	switch {
	case s.Client.Held.IsStopped():
		return errs.ErrClosed // EndGrants may have run already
	case err != nil:
		return err
	case last == nil && g.Place().turnBefore(conn):
		return errMoved
	case last != nil && last.deleted: // g gets no such event
		return errs.Lost(errs.ErrDeleted)
	case !g.idle && !s.Client.Held.Begin():
		return errs.ErrClosed
	}
	for _, path := range g.Place().Paths() {
		s.grants[path] = g
	}
	s.tickBy(time.Now().Add(s.WatchAge()))
	s.tickBy(s.ValidUntil()) // a place may be granted late, by an event
	return nil
}

// IsValid reports whether the session is known to be alive. The wall clock is looked at
// too, since the monotonic clock stands still while a machine is suspended
// (CLOCK_MONOTONIC).
func (s *Session) IsValid() bool {
	now, until := time.Now(), s.ValidUntil()
	return now.Before(until) && now.Round(0).Before(until.Round(0))
}

// HasMoved reports whether an event of an earlier connection said that it is p's
// turn.
func (s *Session) HasMoved(p *Place) bool {
	conn, _ := s.Connection()
	return p.turnBefore(conn)
}

func (s *Session) dropGrant(g *Grant) {
	for _, path := range g.Place().Paths() {
		s.forget(g, path)
	}
}

// expect delivers events of path to g too, whose place is about to move there.
func (s *Session) expect(g *Grant, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grants[path] = g
}

// forget stops delivering events of path to g.
func (s *Session) forget(g *Grant, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.grants[path] == g {
		delete(s.grants, path)
	}
}

func (s *Session) hasGrants() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.grants) > 0
}

// HeldSince returns when this session was granted the place at path; zero: it holds none there.
func (s *Session) HeldSince(path string) (since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.grants[path]; g != nil {
		since = g.since
	}
	return since
}

func (s *Session) allGrants() []*Grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.grants))
}

// endGrants ends every grant. No place is deleted before the contexts of all leases have
// ended.
func (s *Session) endGrants(cause error) {
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
func (s *Session) onEvent(e wire.Event) {
	s.mu.Lock()
	g := s.grants[e.Path]
	if g != nil && e.Type == jute.EventDeleted {
		g.deleted = true
	}
	s.mu.Unlock()
	switch {
	case g == nil:
	case e.Type == jute.EventDeleted:
		s.Client.Tasks.Start(func() { g.PlaceGone(e.Path, &errs.Deletion{BySomebody: errs.ErrDeleted}) })
	case e.Type == jute.EventDataChanged:
		s.Client.Tasks.Start(g.watchPlace)
	}
}

// WatchAge is how long a grant has lasted when its place is watched: short critical
// sections do not pay for the watch, and long ones learn that their place was deleted.
func (s *Session) WatchAge() time.Duration { return s.Timeout() / 10 }

// tick ends the grants when the session's clock runs out, and watches the places that
// were held for long enough. One timer serves all grants. It runs on until it finds
// none, so that short critical sections do not pay for timers either.
func (s *Session) tick() {
	s.mu.Lock()
	s.due = time.Time{}
	if len(s.grants) == 0 {
		s.mu.Unlock()
		return
	}
	now, age := time.Now(), s.WatchAge()
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
		s.Client.Tasks.Start(g.watchPlace)
	}
	s.tickBy(next)
	s.mu.Unlock()
	if silent {
		for _, g := range s.allGrants() {
			g.CheckHeld()
		}
	}
}

// tickBy makes tick run at that time at the latest. s.mu must be held.
func (s *Session) tickBy(at time.Time) {
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
func (s *Session) onSooner() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.grants) > 0 {
		s.tickBy(s.ValidUntil())
	}
}

// A kept lock's place has several grants, one after the other.

// KeepBy makes k decide what becomes of the place after the grant. false: the grant has
// ended already.
func (g *Grant) KeepBy(k keeper) bool {
	g.Mu.Lock()
	defer g.Mu.Unlock()
	if g.Err != nil {
		return false
	}
	g.kept = k
	return true
}

// Successor makes the next grant of the same place, after g has ended. Events of the
// place go to it, so it can end before somebody has it. It returns nil if the session has
// ended, if there is no higher token, or if nothing is granted any more.
func (g *Grant) Successor() *Grant {
	if g.Token&lastGrant == lastGrant {
		return nil
	}
	next := &Grant{
		Line: g.Line, Session: g.Session, Token: g.Token + 1, kept: g.kept, idle: true,
		Over: make(chan struct{}), handles: map[*Handle]struct{}{}, since: g.since,
	}
	next.current.Store(g.Place())
	next.Mu.Lock()
	defer next.Mu.Unlock()
	if g.Session.addGrant(next) != nil {
		return nil
	}
	return next
}

// Begun begins a grant that successor has made. false: it has ended already, or nothing is
// granted any more.
func (g *Grant) Begun() bool {
	g.Mu.Lock()
	defer g.Mu.Unlock()
	if g.Err != nil || !g.Line.Client.Held.Begin() {
		return false
	}
	g.idle = false
	return true
}
