//go:build unix

package serve

import (
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
// znode who it is, which is read once. A leader has the name of its place in the line.
type place struct {
	view.Place
	line    string    // its path
	read    bool      // the identity, without what could control a terminal, the session and Since are known
	arrived time.Time // when it was first seen; zero if it was there at the first look
	heldAt  time.Time // when it was first seen to hold; zero if it did at the first look
	goneAt  time.Time // a member: when it was first seen to have gone
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
	polled   polled   // if it is shown
	gone     []*place // members of a group that have gone, the latest last
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

// standing returns the places that the listings show, holders first: readers may hold behind one that
// waits.
func (l *line) standing() []*place {
	var holding, waiting []*place
	add := func(dir, name string, isShared, holds bool) {
		p := &place{line: l.path, Place: view.Place{Name: name, Path: l.path + dir + "/" + name, Shared: isShared, Held: holds}}
		if holds {
			holding = append(holding, p)
		} else {
			waiting = append(waiting, p)
		}
	}
	switch names := l.listings[""].names; l.recipe {
	case zkrecipes.RecipeSemaphore:
		for _, name := range l.listings["/slots"].names {
			if slot, _, ok := strings.Cut(name, "-"); ok && strings.Trim(slot, "0123456789") == "" {
				add("/slots", name, false, true)
			}
		}
		for _, m := range inOrder(l.listings["/line"].names) {
			add("/line", m.Name, false, false)
		}
	case zkrecipes.RecipeGroup:
		for _, name := range names {
			add("", name, false, true)
		}
	case zkrecipes.RecipeElection:
		for i, m := range inOrder(names) {
			add("", m.Name, false, i == 0 && slices.Contains(names, leader))
		}
	default:
		ms := inOrder(names)
		for i, m := range ms {
			waits := slices.ContainsFunc(ms[:i], func(ahead layout.PlaceName) bool {
				return (m.Kind.Exclusive() || ahead.Kind.Exclusive()) && !m.SharesWith(ahead)
			})
			add("", m.Name, m.Kind.Shared(), !waits)
		}
	}
	return append(holding, waiting...)
}

// inOrder returns the places of locks among names, in the order of the line.
func inOrder(names []string) []layout.PlaceName {
	ms := slices.DeleteFunc(layout.ParsePlaces(names, layout.LockKinds), func(m layout.PlaceName) bool {
		return !m.Kind.Exclusive() && !m.Kind.Shared()
	})
	slices.SortFunc(ms, layout.PlaceName.Compare)
	return ms
}

func byPath(places []*place) map[string]*place {
	all := map[string]*place{}
	for _, p := range places {
		all[p.Path] = p
	}
	return all
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
	places := l.standing()
	was, is := byPath(l.places), byPath(places)
	switch {
	case !l.looked:
	case l.recipe == zkrecipes.RecipeGroup:
		l.sawMembers(now, was, is, seen.creates-before.creates)
	default:
		c = l.count(now, was, is, places)
		c.addUnseen(l, was, places, dir, before, seen)
	}
	for i, p := range places {
		old := was[p.Path]
		switch {
		case old != nil:
			if p.Held && !old.Held {
				old.heldAt = now
			}
			old.Held = p.Held
			places[i] = old
		case l.looked:
			p.arrived = now
			if p.Held {
				p.heldAt = now
			}
		}
	}
	l.places, l.looked = places, true
	return c
}

// sawMembers notes which members of a group have gone since the last look. was and is are the members
// then and now by path, and created is how many were created since.
func (l *line) sawMembers(now time.Time, was, is map[string]*place, created int64) {
	for _, old := range l.places {
		if is[old.Path] == nil {
			old.goneAt = now
			l.gone = append(l.gone, old)
		}
	}
	for path := range is {
		if was[path] != nil {
			continue
		}
		created--
		if len(l.gone) > 0 { // it is back, or another one has taken its place
			back := max(0, slices.IndexFunc(l.gone, func(g *place) bool { return g.Path == path }))
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
