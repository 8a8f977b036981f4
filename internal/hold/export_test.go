package hold

import (
	"maps"
	"slices"

	"github.com/zkrecipes/zkrecipes/internal/session"
)

// What the tests beside this package see of its inside.

// Watched returns the paths by which the session knows its grants.
func Watched(s *session.Session) (paths []string) {
	w := watchdogOf(s)
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.all))
}

// Contexts returns how many contexts the handle ends.
func (h *Handle) Contexts() int { return len(h.contexts) }
