//go:build unix

package serve

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/view"
	"github.com/zkrecipes/zkrecipes/internal/layout"
)

// leader is the child of an election's path that its leader creates. Client.Evict deposes the
// leader by deleting it.
const leader = "leader"

// place is one that stands in a line, or has a slot. Its name tells who is next, and only its
// znode who it is, which is read once.
type place struct {
	name, path   string // the znode's; for a leader those of its place in the line
	held, shared bool
	arrived      time.Time // when it was first seen; zero if it was there at the first look
	heldAt       time.Time // when it was first seen to hold; zero if it did at the first look
	goneAt       time.Time // a member: when it was first seen to have gone

	read     bool
	identity string
	session  view.Session
	since    time.Time // by the servers' clock
}

// listing is what a watch has last seen of a directory.
type listing struct {
	names []string
	// creates is how many children were created there, ever. A Stat tells it: Cversion counts
	// creations and deletions.
	creates int64
	czxid   int64
}

func newListing(c zkrecipes.Children) listing {
	if c.None() {
		return listing{}
	}
	return listing{c.Names, (int64(c.Stat.Cversion) + int64(c.Stat.NumChildren)) / 2, c.Stat.Czxid}
}

// line is a recipe at a path, as it was last seen.
type line struct {
	path   string
	recipe zkrecipes.Recipe
	usage  zkrecipes.Usage // of the last walk or poll

	listings map[string]listing // by directory below the path
	places   []*place           // holders first, then waiters in order
	looked   bool               // all directories were listed
	last     time.Time          // when it was last seen to exist
	failed   string             // why it is not watched
	history  history

	entries []zkrecipes.Entry // the first items of a queue that is shown
	read    []view.Place      // those at a barrier that is shown
	says    string            // what view.Line.Says, if it is shown
	gone    []*place          // members of a group that have gone, the latest last
}

// watchedDirs returns the directories whose children tell who holds and who waits. Other recipes
// are polled.
func watchedDirs(recipe zkrecipes.Recipe) []string {
	switch recipe {
	case zkrecipes.RecipeMutex, zkrecipes.RecipeRWLock, zkrecipes.RecipeElection, zkrecipes.RecipeGroup:
		return []string{""}
	case zkrecipes.RecipeSemaphore:
		return []string{"/slots", "/line"}
	}
	return nil
}

// standing returns the places that the listings show, holders first.
func (l *line) standing() (places []*place) {
	if l.recipe == zkrecipes.RecipeSemaphore {
		for _, name := range l.listings["/slots"].names {
			if slot, _, ok := strings.Cut(name, "-"); ok && strings.Trim(slot, "0123456789") == "" {
				places = append(places, &place{name: name, path: l.path + "/slots/" + name, held: true})
			}
		}
		for _, m := range inOrder(l.listings["/line"].names) {
			places = append(places, &place{name: m.Name, path: l.path + "/line/" + m.Name})
		}
		return places
	}
	names := l.listings[""].names
	if l.recipe == zkrecipes.RecipeGroup {
		for _, name := range names {
			places = append(places, &place{name: name, path: l.path + "/" + name, held: true})
		}
		return places
	}
	ms := inOrder(names)
	leads := l.recipe == zkrecipes.RecipeElection && slices.Contains(names, leader)
	for i, m := range ms {
		p := &place{name: m.Name, path: l.path + "/" + m.Name, shared: m.Kind.Shared()}
		if l.recipe == zkrecipes.RecipeElection {
			p.held = leads && i == 0
		} else {
			p.held = !slices.ContainsFunc(ms[:i], func(ahead layout.PlaceName) bool {
				return (m.Kind.Exclusive() || ahead.Kind.Exclusive()) && !m.SharesWith(ahead)
			})
		}
		places = append(places, p)
	}
	// Readers may hold behind one that waits.
	slices.SortStableFunc(places, func(a, b *place) int { return cmp.Compare(bit(b.held), bit(a.held)) })
	return places
}

// inOrder returns the places of locks among names, in the order of the line.
func inOrder(names []string) []layout.PlaceName {
	ms := slices.DeleteFunc(layout.ParsePlaces(names, layout.LockKinds), func(m layout.PlaceName) bool {
		return !m.Kind.Exclusive() && !m.Kind.Shared()
	})
	slices.SortFunc(ms, layout.PlaceName.Compare)
	return ms
}

// observe takes what a watch has seen, and returns what has happened since the last look.
func (l *line) observe(now time.Time, dir string, seen listing) (c change) {
	before := l.listings[dir]
	l.listings[dir] = seen
	if seen.czxid != 0 {
		l.last = now
	}
	if len(l.listings) < len(watchedDirs(l.recipe)) {
		return c
	}
	was := map[string]*place{}
	for _, p := range l.places {
		was[p.path] = p
	}
	places := l.standing()
	switch {
	case !l.looked:
	case l.recipe == zkrecipes.RecipeGroup:
		l.sawMembers(now, was, places, seen.creates-before.creates)
	default:
		c = l.count(now, was, places)
		c.addUnseen(l, was, places, dir, before, seen)
	}
	for i, p := range places {
		old := was[p.path]
		switch {
		case old == nil && l.looked:
			p.arrived = now
			if p.held {
				p.heldAt = now
			}
		case old != nil:
			if p.held && !old.held {
				old.heldAt = now
			}
			old.held, old.shared = p.held, p.shared
			places[i] = old
		}
	}
	l.places, l.looked = places, true
	return c
}

// sawMembers notes which members of a group have gone since the last look. created is how many were
// created since.
func (l *line) sawMembers(now time.Time, was map[string]*place, places []*place, created int64) {
	there := map[string]bool{}
	for _, p := range places {
		there[p.path] = true
	}
	for _, old := range l.places {
		if !there[old.path] {
			old.goneAt = now
			l.gone = append(l.gone, old)
		}
	}
	for _, p := range places {
		if was[p.path] != nil {
			continue
		}
		created--
		if len(l.gone) > 0 { // it is back, or another one has taken its place
			back := max(0, slices.IndexFunc(l.gone, func(g *place) bool { return g.path == p.path }))
			l.gone = slices.Delete(l.gone, back, back+1)
		}
	}
	if created > 0 { // one is back under the same name, in another session
		for _, p := range l.places {
			p.read, p.arrived = false, now
		}
	}
}

// missing returns the members of a group that have gone within the time that the page shows.
func (l *line) missing(now time.Time) []*place {
	l.gone = slices.DeleteFunc(l.gone, func(p *place) bool { return now.Sub(p.goneAt) > forgetting })
	return l.gone
}
