package line

import (
	"time"

	"github.com/zkrecipes/zkrecipes/internal/session"
)

// What the tests beside this package see of its inside.

// UsedAt makes the client believe that it has used the line then.
func (l *Line) UsedAt(t time.Time) { l.note(func(s *LineState) { s.used = t }) }

// KnownContainers returns how many containers the client knows.
func KnownContainers(c *session.Client) int {
	t := containersOf(c)
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.all)
}

// HasGrants reports whether the session has grants.
func HasGrants(s *session.Session) bool { return watchdogOf(s).hasAny() }

// EntryOf returns the entry of a place with that uuid.
func EntryOf(uuid string) *Entry { return &Entry{uuid: uuid} }

// Contexts returns how many contexts the handle ends.
func (h *Handle) Contexts() int { return len(h.contexts) }

// WatchPlace sets the watches on the grant's place.
func (g *Grant) WatchPlace() { g.watchPlace() }

// BeginDowngrade is the first half of a downgrade: the server has carried it out, and the
// client has not received the reply. The returned function is the rest.
func (g *Grant) BeginDowngrade() (end func(), err error) {
	last := g.Place()
	next := last.asReader()
	moved := make(chan struct{})
	g.mu.Lock()
	g.changing = moved
	g.mu.Unlock()
	watchdogOf(g.Session).expect(g, next.Path)
	return func() {
		g.mu.Lock()
		g.current.Store(next)
		g.changing = nil
		g.mu.Unlock()
		close(moved)
		watchdogOf(g.Session).forget(g, last.Path)
	}, last.replace(next)
}
