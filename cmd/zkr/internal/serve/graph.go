//go:build unix

package serve

import (
	"cmp"
	"context"
	"maps"
	"path"
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
	Nodes     []node     `json:"nodes"`
	Edges     []edge     `json:"edges"`
	Deadlocks []deadlock `json:"deadlocks"`
	Hidden    int        `json:"hidden"`   // nodes beyond mostNodes
	Unread    int        `json:"unread"`   // places whose session is not known yet
	Unlisted  int        `json:"unlisted"` // lines of which it is not known yet who stands in them
}

type node struct {
	Session  view.Session `json:"session"`
	Identity string       `json:"identity"`
	Waiters  int          `json:"waiters"` // sessions that hold nothing and wait for it
	Holds    []string     `json:"holds"`
}

type edge struct {
	From view.Session `json:"from"`
	To   view.Session `json:"to"`
	Path string       `json:"path"`
	Red  bool         `json:"red,omitempty"`
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
	for _, f := range h.sorted() {
		if len(f.places) == 0 || f.recipe == zkrecipes.RecipeGroup {
			continue
		}
		l := view.Line{Path: f.path, Recipe: f.recipe, Size: f.usage.Size}
		for _, p := range f.places {
			if isOverdue(p) {
				unread++
			}
			if p.session != 0 {
				l.Places = append(l.Places, view.Place{
					Name: p.name, Path: p.path, Identity: p.identity, Session: p.session, Since: p.since, Held: p.held,
				})
			}
		}
		lines = append(lines, l)
	}
	return lines, unread
}

// suspect is a circle in the graph. The lines in it were listed at different times, so it may
// never have been closed. If all its places are still there in listings that begin later, all
// of them were there at once: a place never comes back, and nobody passes those ahead.
type suspect struct {
	key    string              // the same for the same places
	places map[string][]string // names, by the directory
}

// suspectOf returns the places that a circle consists of: in each line the one that waits, and
// those of the session for which it waits.
func suspectOf(g *view.Graph, circle []view.Session) suspect {
	s := suspect{places: map[string][]string{}}
	var paths []string
	for _, w := range g.Edges(circle) {
		for _, l := range g.Lines {
			if l.Path != w.Path {
				continue
			}
			for _, p := range l.Places {
				if p.Name == w.Place || p.Held {
					paths = append(paths, p.Path)
					s.places[path.Dir(p.Path)] = append(s.places[path.Dir(p.Path)], p.Name)
				}
			}
		}
	}
	slices.Sort(paths)
	s.key = strings.Join(paths, " ")
	return s
}

// isConfirmed lists the directories of a suspect again.
func (h *hub) isConfirmed(ctx context.Context, s suspect) bool {
	if h.pay(ctx, h.places, 1+len(s.places)) != nil || h.client.Ping(ctx) != nil {
		return false
	}
	for dir, places := range s.places {
		names, _, err := h.client.Children(ctx, dir)
		if err != nil {
			return false
		}
		for _, name := range places {
			if !slices.Contains(names, name) {
				return false
			}
		}
	}
	return true
}

// confirm confirms suspects, one after the other.
func (h *hub) confirm(ctx context.Context) {
	for {
		select {
		case s := <-h.suspects:
			if h.isConfirmed(ctx, s) {
				h.mu.Lock()
				h.confirmed[s.key], h.moved = true, true
				h.mu.Unlock()
			}
		case <-ctx.Done():
			return
		}
	}
}

// newGraph returns the graph of what is known. Circles that are not confirmed are no deadlocks
// yet. The caller holds mu.
func (h *hub) newGraph() graph {
	lines, unread := h.known()
	g := view.NewGraph(lines)
	known := map[string]bool{}
	g.Deadlocks = slices.DeleteFunc(g.Deadlocks, func(circle []view.Session) bool {
		s := suspectOf(g, circle)
		if h.confirmed[s.key] {
			known[s.key] = true
			return false
		}
		select {
		case h.suspects <- s:
		default: // it is a suspect in the next graph, too
			h.moved = true
		}
		return true
	})
	h.confirmed = known
	reduced := reduce(g)
	reduced.Unread = unread
	all, looked, _ := h.progress()
	reduced.Unlisted = all - looked
	return reduced
}

// reduce returns what the page shows of a graph: all deadlocks, sessions that hold and wait,
// those for whom they wait, and some for whom many wait.
func reduce(g *view.Graph) graph {
	r := graph{Nodes: []node{}, Edges: []edge{}, Deadlocks: []deadlock{}}
	holds := map[view.Session][]string{}
	for _, l := range g.Lines {
		for _, s := range l.Holders() {
			s = g.Outermost(s)
			if !slices.Contains(holds[s], l.Path) {
				holds[s] = append(holds[s], view.Clean(l.Path))
			}
		}
	}
	rank := map[view.Session]int{} // the lowest comes first
	leaves := map[view.Session]map[view.Session]bool{}
	for _, w := range g.Waits {
		for _, holder := range w.For {
			if holds[w.Session] == nil {
				if leaves[holder] == nil {
					leaves[holder] = map[view.Session]bool{}
				}
				leaves[holder][w.Session] = true
				continue
			}
			rank[w.Session], rank[holder] = 1, 1
		}
	}
	for _, circle := range g.Deadlocks {
		r.Deadlocks = append(r.Deadlocks, newDeadlock(g, circle))
		for _, s := range circle {
			rank[s] = 0
		}
	}
	for i, s := range mostWaited(leaves, rank) {
		if i == mostBlockers {
			break
		}
		rank[s] = 2
	}
	chosen := slices.SortedFunc(maps.Keys(rank), func(a, b view.Session) int {
		return cmp.Or(cmp.Compare(rank[a], rank[b]), cmp.Compare(len(leaves[b]), len(leaves[a])), cmp.Compare(a, b))
	})
	r.Hidden = max(0, len(chosen)-mostNodes)
	chosen = chosen[:len(chosen)-r.Hidden]
	for _, s := range chosen {
		r.Nodes = append(r.Nodes, node{s, view.Clean(g.Names[s]), len(leaves[s]), holds[s]})
	}
	r.Edges = edgesAmong(g, chosen)
	return r
}

// mostWaited returns the sessions without a rank for which others wait, those with the most
// first.
func mostWaited(leaves map[view.Session]map[view.Session]bool, rank map[view.Session]int) []view.Session {
	blockers := slices.Collect(maps.Keys(leaves))
	blockers = slices.DeleteFunc(blockers, func(s view.Session) bool { _, ranked := rank[s]; return ranked })
	slices.SortFunc(blockers, func(a, b view.Session) int {
		return cmp.Or(cmp.Compare(len(leaves[b]), len(leaves[a])), cmp.Compare(a, b))
	})
	return blockers
}

func newDeadlock(g *view.Graph, circle []view.Session) deadlock {
	d := deadlock{Sentence: view.Clean(g.Sentence(circle)), Sessions: circle}
	for _, w := range g.Edges(circle) {
		d.Paths = append(d.Paths, w.Path)
		d.Since = max(d.Since, millis(w.Since))
	}
	return d
}

func edgesAmong(g *view.Graph, chosen []view.Session) []edge {
	edges := []edge{}
	among := map[view.Session]bool{}
	for _, s := range chosen {
		among[s] = true
	}
	for _, w := range g.Waits {
		for _, holder := range w.For {
			e := edge{From: w.Session, To: holder, Path: view.Clean(w.Path), Red: g.IsDeadlocked(w.Session, holder)}
			if among[e.From] && among[e.To] && !slices.Contains(edges, e) {
				edges = append(edges, e)
			}
		}
	}
	return edges
}
