package hold

// What the tests beside this package see of its inside.

// Contexts returns how many contexts the handle ends.
func (h *Handle) Contexts() int { return len(h.contexts) }

// WatchNow sets the watches on what is held.
func (g *Grant) WatchNow() { g.watch() }
