package line

import (
	"strings"
	"sync"

	"github.com/zkrecipes/zkrecipes/internal/placename"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// unresolved are the joins of a session that the search did not find, or that cannot be
// searched for. A place of theirs is deleted if a listing shows it after all. A search that
// finds nothing ran behind a sync, so no place ever should. A bounded number is kept.
type unresolved struct {
	mu    sync.Mutex
	uuids map[string]struct{}
}

const maxUnresolved = 1000

func unresolvedOf(s *session.Session) *unresolved {
	return session.Attached(s, func() *unresolved { return &unresolved{uuids: map[string]struct{}{}} })
}

func (u *unresolved) add(uuid string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.uuids) >= maxUnresolved {
		for other := range u.uuids {
			delete(u.uuids, other)
			break
		}
	}
	u.uuids[uuid] = struct{}{}
}

// hasAny reports whether a listing might show such a place.
func (u *unresolved) hasAny() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.uuids) > 0
}

// sweep deletes those of the places in the line that are such a join's.
func (u *unresolved) sweep(l *Line, s *session.Session, ms []placename.Parts) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.uuids) == 0 {
		return
	}
	for _, m := range ms {
		if _, ok := u.uuids[m.UUID]; ok {
			delete(u.uuids, m.UUID)
			m, _ := placename.Parse(strings.Clone(m.Name), l.Kinds)
			p := &Place{Parts: m, Line: l, Session: s, Path: l.Abs() + "/" + m.Name}
			s.Client.Tasks.Start(p.Withdraw)
		}
	}
}
