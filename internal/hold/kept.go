package hold

// A thing that is kept has several grants, one after the other.

// keeper decides what becomes of a thing whose grant has ended.
type keeper interface {
	// Ended is called when the grant has ended, while the thing's events are still
	// delivered.
	Ended(g *Grant, cause error)
	// PassOn is called, after Ended, for a grant that was released. It deletes the thing or
	// makes another grant of it.
	PassOn(g *Grant) error
}

// KeepBy makes k decide what becomes of the thing after the grant. false: the grant has
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

// Successor makes the next grant of the same thing, after g has ended. Events of the
// thing go to it, so it can end before somebody has it. It returns nil if the session has
// ended, if there is no higher token, or if nothing is granted any more.
func (g *Grant) Successor() *Grant {
	if g.Token&lastGrant == lastGrant {
		return nil
	}
	next := &Grant{
		At: g.At, Session: g.Session, Token: g.Token + 1, kept: g.kept, idle: true,
		Over: make(chan struct{}), announced: make(chan struct{}), handles: map[*Handle]struct{}{}, since: g.since,
	}
	next.current.Store(g.current.Load())
	next.mu.Lock()
	defer next.mu.Unlock()
	if watchdogOf(g.Session).add(next) != nil {
		return nil
	}
	return next
}

// Activate gives a grant that Successor has made to a caller. It returns false if the grant has ended
// already, or if nothing is granted any more.
func (g *Grant) Activate() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil || !g.At.Client.Held.Begin() {
		return false
	}
	g.idle = false
	return true
}
