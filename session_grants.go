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
// The conditions can change right after they were checked. Whoever changes them takes
// s.mu afterwards and finds the grant: a reconnect asks hasGrants after it has set its
// number, and endGrants follows the end of the session and of the Client.
func (s *session) addGrant(g *grant) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	conn, err := s.Connection()
	switch {
	case s.c.closing.Err() != nil:
		return ErrClosed // endGrants may have run already
	case err != nil:
		return err
	case g.place().turnBefore(conn):
		return errMoved
	}
	s.grants[g.place().path] = g
	if !s.ticking {
		s.ticking = true
		time.AfterFunc(s.Timeout()/10, s.tick)
	}
	return nil
}

// hasMoved reports whether an event of an earlier connection said that it is p's
// turn.
func (s *session) hasMoved(p *place) bool {
	conn, _ := s.Connection()
	return p.turnBefore(conn)
}

func (s *session) dropGrant(g *grant) { s.forget(g, g.place().path) }

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

func (s *session) allGrants() []*grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.grants))
}

// endGrants ends every grant.
func (s *session) endGrants(cause error) {
	for _, g := range s.allGrants() {
		g.end(cause)
	}
}

// onEvent ends the grant whose place was deleted, and watches a place again whose
// data was changed.
func (s *session) onEvent(e wire.Event) {
	s.mu.Lock()
	g := s.grants[e.Path]
	s.mu.Unlock()
	switch {
	case g == nil:
	case e.Type == jute.EventDeleted:
		s.c.tasks.Start(func() { g.placeDeleted(e.Path) })
	case e.Type == jute.EventDataChanged:
		s.c.tasks.Start(g.watchPlace)
	}
}

// tick ends the grants when the session's clock runs out, and watches the places that
// were held for a tenth of its timeout: short critical sections do not pay for the watch,
// and long ones learn that their place was deleted. One timer serves all grants. It runs
// on until it finds none, so that short critical sections do not pay for timers either.
func (s *session) tick() {
	age := s.Timeout() / 10
	s.mu.Lock()
	if len(s.grants) == 0 {
		s.ticking = false
		s.mu.Unlock()
		return
	}
	now := time.Now()
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
	time.AfterFunc(next.Sub(now), s.tick)
	s.mu.Unlock()
	if silent {
		for _, g := range s.allGrants() {
			g.checkHeld()
		}
	}
}
