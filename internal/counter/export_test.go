package counter

import "github.com/zkrecipes/zkrecipes/internal/session"

// SetKnownVersion has what the client's writer knows say that the data have that version. Nothing may be
// under way.
func SetKnownVersion(c *session.Client, path string, version int32) {
	ws := writersOf(c)
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.all[path].base.version = version
}
