//go:build unix

package serve

import (
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// change is what has happened in a line between two looks.
type change struct {
	acquired int
	waits    []time.Duration // of those that were seen waiting, up to this look
	atOnce   int             // acquired, and did not wait, or less than the time between two looks
}

// count compares this look with the last one: places are those of this one, and was and is have those of
// both by path. It counts those that hold now and did not before, and those that waited before and have
// gone: as the line moves in order, they have held in between, unless somebody whom they waited for is
// still there.
func (l *line) count(now time.Time, was, is map[string]*place, places []*place) (c change) {
	isSemaphore := l.recipe == zkrecipes.RecipeSemaphore
	leases := map[string]bool{} // of a semaphore: all slots of a lease are one acquisition
	for _, p := range places {
		old := was[p.Path]
		switch {
		case !p.Held || old != nil && old.Held:
		case isSemaphore:
			_, lease, _ := strings.Cut(p.Name, "-")
			leases[lease] = true
		default:
			c.acquired++
			c.waited(now, old)
		}
	}
	c.acquired += len(leases)
	aheadStands := false
	for _, old := range l.places {
		if is[old.Path] != nil {
			aheadStands = aheadStands || !isSemaphore || !old.Held
		} else if !old.Held && !aheadStands {
			if !isSemaphore { // there the slot is counted
				c.acquired++
			}
			c.waited(now, old)
		}
	}
	return c
}

// waited notes how long a place has waited. nil: it was not seen waiting.
func (c *change) waited(now time.Time, p *place) {
	switch {
	case p == nil:
		c.atOnce++
	case !p.arrived.IsZero():
		c.waits = append(c.waits, now.Sub(p.arrived))
	}
}

// addUnseen adds those that came and went between two looks, whose number the servers know. They
// have held unless somebody was ahead of them all the time.
func (c *change) addUnseen(l *line, was map[string]*place, places []*place, dir string, before, seen listing) {
	if dir == "/line" || l.recipe == zkrecipes.RecipeElection || seen.czxid == 0 {
		return
	}
	for _, p := range places {
		if old := was[p.Path]; old != nil && (!p.Held || !p.Shared && l.recipe != zkrecipes.RecipeSemaphore) {
			return
		}
	}
	if before.czxid != seen.czxid { // another znode
		before = listing{}
	}
	known, unseen := setOf(before.names), seen.creates-before.creates
	for _, name := range seen.names {
		if !known[name] {
			unseen--
		}
	}
	if unseen > 0 {
		c.acquired += int(unseen)
		c.atOnce += int(unseen)
	}
}
