package line

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// grants are those of a session. They end with the session, when its clock runs out, and when
// their places are deleted.
//
// The order of locks is Grant.mu, grants.mu, then those of zkconn.
type grants struct {
	session *session.Session

	mu    sync.Mutex
	all   map[string]*Grant // by the paths of the places
	timer *time.Timer       // calls tick
	due   time.Time         // when it does; zero: it does not
}

func grantsOf(s *session.Session) *grants {
	return session.Attached(s, func() *grants { return &grants{session: s, all: map[string]*Grant{}} })
}

// errMoved: an event that came over an earlier connection gave the place its turn.
// Events advance no zxid, and without a grant the reconnect did no sync, so this server
// may lag behind what the grant rests on.
var errMoved = errors.New("connection has changed")

// add makes g one of the session's grants.
//
// The conditions can change right after they were checked. Code that changes them takes
// mu afterwards and finds the grant: a reconnect calls hasAny after it has set its
// number, and end follows the end of the session and of the Client. A grant that
// somebody gets counts as held before anybody can end it.
func (gs *grants) add(g *Grant) error {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	s := gs.session
	conn, err := s.Connection()
	last := gs.all[g.Place().Path] // of a kept lock: no reconnect came without a grant
	switch {
	case s.Client.Held.IsStopped():
		return errs.ErrClosed // end may have run already
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
		gs.all[path] = g
	}
	gs.tickBy(time.Now().Add(WatchAge(s)))
	gs.tickBy(s.ValidUntil()) // a place may be granted late, by an event
	return nil
}

// drop makes g no longer one of the session's grants.
func (gs *grants) drop(g *Grant) {
	for _, path := range g.Place().Paths() {
		gs.forget(g, path)
	}
}

// expect delivers events of path to g too, whose place is about to move there.
func (gs *grants) expect(g *Grant, path string) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	gs.all[path] = g
}

// forget stops delivering events of path to g.
func (gs *grants) forget(g *Grant, path string) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if gs.all[path] == g {
		delete(gs.all, path)
	}
}

func (gs *grants) hasAny() bool {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	return len(gs.all) > 0
}

// HeldSince returns when that session was granted the place at path; zero: it holds none there.
func HeldSince(s *session.Session, path string) (since time.Time) {
	gs := grantsOf(s)
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if g := gs.all[path]; g != nil {
		since = g.since
	}
	return since
}

func (gs *grants) list() []*Grant {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	return slices.Collect(maps.Values(gs.all))
}

// end ends every grant. No place is deleted before the contexts of all leases have
// ended.
func (gs *grants) end(cause error) {
	var ds []leaving
	for _, g := range gs.list() {
		if g.endHeld(cause) {
			ds = append(ds, g.leaving())
		}
	}
	departuresOf(gs.session).add(ds...)
}

// onEvent ends the grant whose place was deleted, and watches a place again whose
// data was changed.
func (gs *grants) onEvent(e wire.Event) {
	gs.mu.Lock()
	g := gs.all[e.Path]
	if g != nil && e.Type == jute.EventDeleted {
		g.deleted = true
	}
	gs.mu.Unlock()
	switch {
	case g == nil:
	case e.Type == jute.EventDeleted:
		gs.session.Client.Tasks.Start(func() { g.placeGone(e.Path, &errs.Deletion{BySomebody: errs.ErrDeleted}) })
	case e.Type == jute.EventDataChanged:
		gs.session.Client.Tasks.Start(g.watchPlace)
	}
}

// WatchAge is how long a grant has lasted when its place is watched: short critical
// sections do not pay for the watch, and long ones learn that their place was deleted.
func WatchAge(s *session.Session) time.Duration { return s.Timeout() / 10 }

// tick ends the grants when the session's clock runs out, and watches the places that
// were held for long enough. One timer serves all grants. It runs on until it finds
// none, so that short critical sections do not pay for timers either.
func (gs *grants) tick() {
	gs.mu.Lock()
	gs.due = time.Time{}
	if len(gs.all) == 0 {
		gs.mu.Unlock()
		return
	}
	now, age := time.Now(), WatchAge(gs.session)
	next := gs.session.ValidUntil()
	silent := !now.Before(next)
	if silent {
		next = now.Add(age)
	}
	for _, g := range gs.all {
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
		gs.session.Client.Tasks.Start(g.watchPlace)
	}
	gs.tickBy(next)
	gs.mu.Unlock()
	if silent {
		for _, g := range gs.list() {
			g.CheckHeld()
		}
	}
}

// tickBy makes tick run at that time at the latest. gs.mu must be held.
func (gs *grants) tickBy(at time.Time) {
	if !gs.due.IsZero() && !at.Before(gs.due) {
		return
	}
	gs.due = at
	if gs.timer == nil {
		gs.timer = time.AfterFunc(time.Until(at), gs.tick)
		return
	}
	gs.timer.Reset(time.Until(at))
}

// onSooner is called when the session's clock runs out earlier than it did.
func (gs *grants) onSooner() {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if len(gs.all) > 0 {
		gs.tickBy(gs.session.ValidUntil())
	}
}

// A kept lock's place has several grants, one after the other.

// KeepBy makes k decide what becomes of the place after the grant. false: the grant has
// ended already.
func (g *Grant) KeepBy(k keeper) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
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
	next.mu.Lock()
	defer next.mu.Unlock()
	if grantsOf(g.Session).add(next) != nil {
		return nil
	}
	return next
}

// Begun begins a grant that successor has made. false: it has ended already, or nothing is
// granted any more.
func (g *Grant) Begun() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil || !g.Line.Client.Held.Begin() {
		return false
	}
	g.idle = false
	return true
}
