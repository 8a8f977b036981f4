//go:build unix

package view

import (
	"maps"
	"slices"
	"time"

	"github.com/zkrecipes/zkrecipes"
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

	within map[Session]Session // in whose command the process of a session runs
}

// NewGraph returns the graph of the lines.
func NewGraph(lines []Line) *Graph {
	g := &Graph{Names: map[Session]string{}, Lines: lines, Waits: []Wait{}, within: map[Session]Session{}}
	for _, l := range lines {
		for _, p := range l.Places {
			if _, outer := cutOuter(p.Identity); outer != 0 {
				g.within[p.Session] = outer
			}
		}
	}
	for _, l := range lines {
		for _, p := range l.Places {
			s := g.Outermost(p.Session)
			if s == p.Session || g.Names[s] == "" {
				g.Names[s] = p.Identity
			}
		}
		g.addWaits(l)
	}
	g.Deadlocks = circles(g.stuck())
	return g
}

// Outermost returns the session as which this one counts: that of the zkr in whose command its
// process runs, if there is one.
func (g *Graph) Outermost(s Session) Session {
	for range len(g.within) { // identities may lie, and name a circle
		outer, ok := g.within[s]
		if !ok {
			break
		}
		s = outer
	}
	return s
}

// addWaits adds what the line's waiters wait for. Barriers are left out: their members wait
// for somebody who has not come.
func (g *Graph) addWaits(l Line) {
	if l.Recipe == zkrecipes.RecipeBarrier || l.Recipe == zkrecipes.RecipeDoubleBarrier {
		return
	}
	holders, taken := l.Holders(), l.Held()
	for _, p := range l.Places {
		if p.Held {
			continue
		}
		w := Wait{
			Session: g.Outermost(p.Session), Path: l.Path, Place: p.Name, For: []Session{}, Since: p.Since,
			any: l.Recipe == zkrecipes.RecipeSemaphore,
		}
		for _, s := range holders {
			if s != p.Session {
				w.For = append(w.For, g.Outermost(s))
			}
		}
		own := len(w.For) < len(holders) // another call of the process holds, which goes on as a rule
		w.free = len(w.For) == 0 || w.any && (own || taken < l.Size)
		g.Waits = append(g.Waits, w)
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
	isStuck := func(s Session) bool { return stuck[s] != nil }
	goesOn := func(s Session) bool { return stuck[s] == nil }
	ends := func(w Wait) bool {
		return w.any && slices.ContainsFunc(w.For, goesOn) || !slices.ContainsFunc(w.For, isStuck)
	}
	for moved := true; moved; {
		moved = false
		for s, waits := range stuck {
			rest := slices.DeleteFunc(waits, ends)
			moved = moved || len(rest) < len(waits)
			if stuck[s] = rest; len(rest) == 0 {
				delete(stuck, s)
			}
		}
	}
	return stuck
}

// circles returns a circle for each group of sessions that wait for each other. Each begins
// with its lowest session.
func circles(stuck map[Session][]Wait) (found [][]Session) {
	done := map[Session]bool{}
	for _, start := range slices.Sorted(maps.Keys(stuck)) {
		var path []Session
		s := start
		for ; !done[s]; s = next(stuck, s) {
			path, done[s] = append(path, s), true
		}
		if i := slices.Index(path, s); i >= 0 {
			found = append(found, fromLowest(path[i:]))
		}
	}
	return found
}

// next returns a session that is stuck and for which s waits.
func next(stuck map[Session][]Wait, s Session) Session {
	for _, w := range stuck[s] {
		for _, holder := range w.For {
			if stuck[holder] != nil {
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

// Arrow is the wait of a session for one that holds.
type Arrow struct {
	From Session `json:"from"`
	To   Session `json:"to"`
	Path string  `json:"path"`          // without what could control a terminal
	Red  bool    `json:"red,omitempty"` // it is part of a deadlock
}

// Arrows returns who waits for whom and where. Several calls of a session make one arrow.
func (g *Graph) Arrows() (arrows []Arrow) {
	drawn := map[Arrow]bool{}
	for _, w := range g.Waits {
		for _, holder := range w.For {
			a := Arrow{w.Session, holder, Clean(w.Path), g.isDeadlocked(w.Session, holder)}
			if !drawn[a] {
				drawn[a] = true
				arrows = append(arrows, a)
			}
		}
	}
	return arrows
}

// isDeadlocked reports whether a deadlock has the wait of one session for the other.
func (g *Graph) isDeadlocked(waiter, holder Session) bool {
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
