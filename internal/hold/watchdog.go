package hold

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/wire"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// watchdog has the grants of a session. They end with the session, when its clock runs out, and when
// their znodes are deleted.
//
// The order of locks is Grant.mu, watchdog.mu, then those of zkconn.
type watchdog struct {
	session *session.Session

	mu sync.Mutex
	// all are the grants by the paths of their znodes.
	all map[string]*Grant
	// timer calls tick at due, which is zero while no call is planned.
	timer *time.Timer
	due   time.Time
}

// AttachWatchdog makes the grants of a session end with it. It is called before the session connects, with
// what that connects with. end ends all grants.
func AttachWatchdog(s *session.Session, conn *zkconn.Config) (end func(cause error)) {
	w := watchdogOf(s)
	conn.Event, conn.OnShortened = w.onEvent, w.onShortened
	return w.end
}

func watchdogOf(s *session.Session) *watchdog {
	return session.Attached(s, func() *watchdog { return &watchdog{session: s, all: map[string]*Grant{}} })
}

// add makes g one of the session's grants (H2).
//
// A condition can change right after it was checked. Whoever changes one, by the end of the session or
// of the Client, calls end afterwards, which takes mu and so finds g. A grant that a caller gets
// counts as held before anybody can end it.
func (w *watchdog) add(g *Grant) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.session
	_, err := s.Connection()
	last := w.all[g.Path()] // of a kept lock
	switch {
	case s.Client.Held.IsStopped():
		return errs.ErrClosed // end may have run already
	case err != nil:
		return err
	case last != nil && last.deleted: // g gets no such event
		return errs.Lost(errs.ErrDeleted)
	case !g.idle && !s.Client.Held.Begin():
		return errs.ErrClosed
	}
	for _, path := range g.Thing().Paths() {
		w.all[path] = g
	}
	w.tickBy(time.Now().Add(WatchDelay(s)))
	w.tickBy(s.ValidUntil()) // a place may be granted late, by an event
	return nil
}

// drop makes g no longer one of the session's grants.
func (w *watchdog) drop(g *Grant) {
	for _, path := range g.Thing().Paths() {
		w.forget(g, path)
	}
}

// expect delivers events of path to g too, whose thing is about to be there.
func (w *watchdog) expect(g *Grant, path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all[path] = g
}

// forget stops delivering events of path to g.
func (w *watchdog) forget(g *Grant, path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all[path] == g {
		delete(w.all, path)
	}
}

// has reports whether all events of g's znodes are delivered to g.
func (w *watchdog) has(g *Grant) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !slices.ContainsFunc(g.Thing().Paths(), func(path string) bool { return w.all[path] != g })
}

// HeldSince returns when that session was granted the thing with that path; zero: it holds none.
func HeldSince(s *session.Session, path string) (since time.Time) {
	w := watchdogOf(s)
	w.mu.Lock()
	defer w.mu.Unlock()
	if g := w.all[path]; g != nil {
		since = g.since
	}
	return since
}

func (w *watchdog) list() []*Grant {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Values(w.all))
}

// end ends every grant. The session is over, or about to be: then it ends when the contexts of
// all leases have ended.
func (w *watchdog) end(cause error) {
	for _, g := range w.list() {
		g.endHeld(cause)
	}
}

// onEvent ends the grant one of whose znodes was deleted, and watches a znode again whose
// data was changed.
func (w *watchdog) onEvent(e wire.Event) {
	w.mu.Lock()
	g := w.all[e.Path]
	if g != nil && e.Type == jute.EventDeleted {
		g.deleted = true
	}
	w.mu.Unlock()
	switch {
	case g == nil:
	case e.Type == jute.EventDeleted:
		w.session.Client.Tasks.Start(func() { g.znodeGone(e.Path, &errs.Deletion{IfByOther: errs.ErrDeleted}) })
	case e.Type == jute.EventDataChanged:
		w.session.Client.Tasks.Start(g.watch)
	}
}

// WatchDelay is for how long a grant is held before its znodes are watched: short critical
// sections do not pay for the watch, and long ones learn that a znode was deleted. A waiter before
// ZooKeeper 3.9 lets as much time pass before it watches its own place.
func WatchDelay(s *session.Session) time.Duration { return s.Timeout() / 10 }

// tick ends the grants when the session's clock runs out, and watches the znodes that
// were held for long enough. One timer serves all grants. It runs on until it finds
// none, so that short critical sections do not pay for timers either.
func (w *watchdog) tick() {
	w.mu.Lock()
	w.due = time.Time{}
	if len(w.all) == 0 {
		w.mu.Unlock()
		return
	}
	now, age := time.Now(), WatchDelay(w.session)
	next := w.session.ValidUntil()
	silent := !now.Before(next)
	if silent {
		next = now.Add(age)
	}
	for _, g := range w.all {
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
		w.session.Client.Tasks.Start(g.watch)
	}
	w.tickBy(next)
	w.mu.Unlock()
	if silent {
		for _, g := range w.list() {
			g.endIfLost()
		}
	}
}

// tickBy makes tick run at that time at the latest. w.mu must be held.
func (w *watchdog) tickBy(at time.Time) {
	if !w.due.IsZero() && !at.Before(w.due) {
		return
	}
	w.due = at
	if w.timer == nil {
		w.timer = time.AfterFunc(time.Until(at), w.tick)
		return
	}
	w.timer.Reset(time.Until(at))
}

// onShortened makes the timer fire earlier, after ValidUntil has moved to an earlier time.
func (w *watchdog) onShortened() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.all) > 0 {
		w.tickBy(w.session.ValidUntil())
	}
}
