//go:build unix

package serve

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/view"
)

// The graph on the page leaves out what would hide the rest: sessions that only wait are
// counted, and of those that only hold the ones for which most wait are shown.
const (
	mostNodes    = 40
	mostBlockers = 10
)

// graph is the wait graph as the page gets it.
type graph struct {
	Nodes     []node       `json:"nodes"`
	Edges     []view.Arrow `json:"edges"`
	Deadlocks []deadlock   `json:"deadlocks"`
	Hidden    int          `json:"hidden"` // nodes beyond mostNodes
	Unread    int          `json:"unread"` // places whose session is not known yet
}

type node struct {
	Session  view.Session `json:"session"`
	Identity string       `json:"identity"`
	Waiters  int          `json:"waiters"` // sessions that hold nothing and wait for it
	Holds    []string     `json:"holds"`
}

type deadlock struct {
	Sentence string         `json:"sentence"`
	Since    int64          `json:"since,omitempty"` // when the last of its waits began
	Sessions []view.Session `json:"sessions"`
	Paths    []string       `json:"paths"`
}

// known returns the lines in which somebody holds or waits, with the places whose session is
// known, and how many places have yet to be read. The caller holds mu.
func (h *hub) known() (lines []view.Line, unread int) {
	for _, path := range slices.Sorted(maps.Keys(h.lines)) {
		f := h.lines[path]
		if len(f.places) == 0 || f.recipe == zkrecipes.RecipeGroup {
			continue
		}
		l := view.Line{Path: path, Recipe: f.recipe, Size: f.usage.Size}
		for _, p := range f.places {
			if p.isOverdue() {
				unread++
			}
			if p.Session != 0 {
				l.Places = append(l.Places, p.Place)
			}
		}
		lines = append(lines, l)
	}
	return lines, unread
}

// suspects returns the places that a circle in the graph consists of: in each line the one that waits,
// and those of the session for which it waits. The lines were listed at different times, so the circle
// may never have been closed. If all its places are still there when they are read later, all of them
// were there at once: a place never comes back, and nobody passes those ahead.
func suspects(g *view.Graph, circle []view.Session) (paths []string) {
	for _, w := range g.Edges(circle) {
		l := g.Lines[slices.IndexFunc(g.Lines, func(l view.Line) bool { return l.Path == w.Path })]
		for _, p := range l.Places {
			if p.Name == w.Place || p.Held {
				paths = append(paths, p.Path)
			}
		}
	}
	slices.Sort(paths)
	return paths
}

// confirm confirms circles, one after the other.
func (h *hub) confirm(ctx context.Context) {
	for {
		select {
		case paths := <-h.suspects:
			if h.areThere(ctx, paths) {
				h.mu.Lock()
				h.confirmed[keyOf(paths)], h.moved = true, true
				h.mu.Unlock()
			}
		case <-ctx.Done():
			return
		}
	}
}

// keyOf returns what is the same for the same places.
func keyOf(paths []string) string { return strings.Join(paths, " ") }

// areThere reads places again.
func (h *hub) areThere(ctx context.Context, paths []string) bool {
	if h.pay(ctx, h.places, 1+len(paths)) != nil || h.client.Ping(ctx) != nil {
		return false
	}
	return !slices.ContainsFunc(paths, func(path string) bool {
		_, _, err := h.client.Get(ctx, path)
		return err != nil
	})
}

// newGraph returns the graph of what is known. Circles that are not confirmed are no deadlocks
// yet. The caller holds mu.
func (h *hub) newGraph() graph {
	lines, unread := h.known()
	g := view.NewGraph(lines)
	known := map[string]bool{}
	g.Deadlocks = slices.DeleteFunc(g.Deadlocks, func(circle []view.Session) bool {
		paths := suspects(g, circle)
		if key := keyOf(paths); h.confirmed[key] {
			known[key] = true
			return false
		}
		select {
		case h.suspects <- paths:
		default: // it is a suspect in the next graph, too
			h.moved = true
		}
		return true
	})
	h.confirmed = known
	reduced := reduce(g)
	reduced.Unread = unread
	return reduced
}

// reduce returns what the page shows of a graph: all deadlocks, sessions that hold and wait,
// those for whom they wait, and some for whom many wait.
func reduce(g *view.Graph) graph {
	r := graph{Nodes: []node{}, Edges: []view.Arrow{}, Deadlocks: []deadlock{}}
	holds := holdsOf(g)
	rank := map[view.Session]int{} // the lowest comes first
	leaves := map[view.Session]map[view.Session]bool{}
	for _, w := range g.Waits {
		for _, holder := range w.For {
			if holds[w.Session] != nil {
				rank[w.Session], rank[holder] = 1, 1
				continue
			}
			if leaves[holder] == nil {
				leaves[holder] = map[view.Session]bool{}
			}
			leaves[holder][w.Session] = true
		}
	}
	for _, circle := range g.Deadlocks {
		r.Deadlocks = append(r.Deadlocks, newDeadlock(g, circle))
		for _, s := range circle {
			rank[s] = 0
		}
	}
	for s := range leaves {
		if _, ok := rank[s]; !ok {
			rank[s] = 2
		}
	}
	chosen := slices.SortedFunc(maps.Keys(rank), func(a, b view.Session) int {
		return cmp.Or(cmp.Compare(rank[a], rank[b]), cmp.Compare(len(leaves[b]), len(leaves[a])), cmp.Compare(a, b))
	})
	if i := slices.IndexFunc(chosen, func(s view.Session) bool { return rank[s] == 2 }); i >= 0 {
		chosen = chosen[:min(len(chosen), i+mostBlockers)]
	}
	r.Hidden = max(0, len(chosen)-mostNodes)
	chosen = chosen[:len(chosen)-r.Hidden]
	for _, s := range chosen {
		r.Nodes = append(r.Nodes, node{s, view.Clean(g.Names[s]), len(leaves[s]), holds[s]})
	}
	isChosen := setOf(chosen)
	for _, a := range g.Arrows() {
		if isChosen[a.From] && isChosen[a.To] {
			r.Edges = append(r.Edges, a)
		}
	}
	return r
}

// holdsOf returns the paths that each session holds.
func holdsOf(g *view.Graph) map[view.Session][]string {
	holds := map[view.Session][]string{}
	for _, l := range g.Lines {
		for _, s := range l.Holders() {
			s = g.Outermost(s)
			if path := view.Clean(l.Path); !slices.Contains(holds[s], path) {
				holds[s] = append(holds[s], path)
			}
		}
	}
	return holds
}

func newDeadlock(g *view.Graph, circle []view.Session) deadlock {
	d := deadlock{Sentence: g.Sentence(circle), Sessions: circle}
	for _, w := range g.Edges(circle) {
		d.Paths = append(d.Paths, w.Path)
		d.Since = max(d.Since, millis(w.Since))
	}
	return d
}
