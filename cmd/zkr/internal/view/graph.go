//go:build unix

package view

import (
	"maps"
	"slices"
	"time"
)

// Wait is a session that waits in a line for those who hold there. Sessions of programs that
// a command of zkr runs count as that of this zkr. A session is not a thread:
// if a process holds and waits in calls that have nothing to do with each other, it looks as
// if it held while it waits.
type Wait struct {
	Session Session   `json:"session"`
	Path    string    `json:"path"`
	Place   string    `json:"place"`
	For     []Session `json:"for"`
	Since   time.Time `json:"-"` // when the place joined the line

	any  bool // one of For is enough: the slots of a semaphore
	free bool // it waits for nobody: the line is about to move
}

// Graph says who waits for whom.
type Graph struct {
	Names map[Session]string `json:"names"` // the identity of each session
	Lines []Line             `json:"lines"`
	Waits []Wait             `json:"waits"`
	// Deadlocks are the circles of sessions that wait for each other and cannot go on.
	Deadlocks [][]Session `json:"deadlocks"`

	outermost func(Session) Session
}

// Outermost returns the session as which this one counts: that of the zkr in whose command its
// process runs, if there is one.
func (g *Graph) Outermost(s Session) Session { return g.outermost(s) }

// NewGraph returns the graph of the lines.
func NewGraph(lines []Line) *Graph {
	root := outermost(lines)
	g := &Graph{Names: map[Session]string{}, Lines: lines, Waits: []Wait{}, outermost: root}
	for _, l := range lines {
		for _, p := range l.Places {
			s := root(p.Session)
			if s == p.Session || g.Names[s] == "" {
				g.Names[s] = p.Identity
			}
		}
		g.addWaits(l, root)
	}
	g.Deadlocks = circles(g.stuck())
	return g
}

// addWaits adds what the line's waiters wait for. Barriers are left out: their members wait
// for somebody who has not come.
func (g *Graph) addWaits(l Line, root func(Session) Session) {
	if l.Recipe == "barrier" || l.Recipe == "doublebarrier" {
		return
	}
	holders, taken := l.Holders(), l.Held()
	isSemaphore := l.Recipe == "semaphore"
	for _, p := range l.Places {
		if p.Held {
			continue
		}
		others := slices.DeleteFunc(slices.Clone(holders), func(s Session) bool { return s == p.Session })
		own := len(others) < len(holders) // another call of the process holds, which goes on as a rule
		for i, s := range others {
			others[i] = root(s)
		}
		g.Waits = append(g.Waits, Wait{
			Session: root(p.Session), Path: l.Path, Place: p.Name, For: others, Since: p.Since,
			any: isSemaphore, free: len(others) == 0 || isSemaphore && (own || taken < l.Size),
		})
	}
}

// stuck returns the waits that cannot end, because those who hold wait themselves for ever.
// A session goes on if all that it waits for is given up. That is so for a lock if all its
// holders go on, and for a semaphore if one of them does.
func (g *Graph) stuck() map[Session][]Wait {
	stuck := map[Session][]Wait{}
	for _, w := range g.Waits {
		if !w.free {
			stuck[w.Session] = append(stuck[w.Session], w)
		}
	}
	isStuck := func(s Session) bool { return len(stuck[s]) > 0 }
	for moved := true; moved; {
		moved = false
		for s, waits := range stuck {
			rest := slices.DeleteFunc(slices.Clone(waits), func(w Wait) bool {
				if w.any {
					return !all(w.For, isStuck)
				}
				return !slices.ContainsFunc(w.For, isStuck)
			})
			if len(rest) < len(waits) {
				moved = true
				stuck[s] = rest
			}
		}
	}
	maps.DeleteFunc(stuck, func(_ Session, waits []Wait) bool { return len(waits) == 0 })
	return stuck
}

func all(sessions []Session, f func(Session) bool) bool {
	return !slices.ContainsFunc(sessions, func(s Session) bool { return !f(s) })
}

// circles returns a circle for each group of sessions that wait for each other. Each begins
// with its lowest session.
func circles(stuck map[Session][]Wait) (found [][]Session) {
	done := map[Session]bool{}
	for _, start := range slices.Sorted(maps.Keys(stuck)) {
		var path []Session
		for s := start; !done[s]; s = next(stuck, s) {
			if i := slices.Index(path, s); i >= 0 {
				found = append(found, fromLowest(path[i:]))
				break
			}
			path = append(path, s)
		}
		for _, s := range path {
			done[s] = true
		}
	}
	return found
}

// next returns a session that is stuck and for which s waits.
func next(stuck map[Session][]Wait, s Session) Session {
	for _, w := range stuck[s] {
		for _, holder := range w.For {
			if len(stuck[holder]) > 0 {
				return holder
			}
		}
	}
	return s // not reached: a stuck session waits for one that is stuck
}

func fromLowest(circle []Session) []Session {
	i := slices.Index(circle, slices.Min(circle))
	return append(slices.Clone(circle[i:]), circle[:i]...)
}

// Edges returns the waits along a circle: that of each session for the next one.
func (g *Graph) Edges(circle []Session) (waits []Wait) {
	for i, s := range circle {
		waits = append(waits, g.Waits[slices.IndexFunc(g.Waits, func(w Wait) bool {
			return w.Session == s && slices.Contains(w.For, circle[(i+1)%len(circle)])
		})])
	}
	return waits
}

// IsDeadlocked reports whether a deadlock has the wait of one session for the other.
func (g *Graph) IsDeadlocked(waiter, holder Session) bool {
	return slices.ContainsFunc(g.Deadlocks, func(circle []Session) bool {
		i := slices.Index(circle, waiter)
		return i >= 0 && circle[(i+1)%len(circle)] == holder
	})
}

// Confirm removes the deadlocks that a later graph of the same lines does not show. Lines are
// read one after the other, so a circle in one graph may never have been closed. If each of
// its waits, of the same place, and each hold is in both graphs, all were there at once: when
// the first reading had ended.
func (g *Graph) Confirm(later *Graph) {
	g.Deadlocks = slices.DeleteFunc(g.Deadlocks, func(circle []Session) bool {
		for _, w := range g.Edges(circle) {
			if !slices.ContainsFunc(later.Waits, func(l Wait) bool {
				return l.Place == w.Place && l.Path == w.Path && slices.Equal(l.For, w.For)
			}) {
				return true
			}
		}
		return false
	})
}
