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

// count compares places, those of this look, with was, those of the last one by path. It counts those
// that hold now and did not before, and those that waited before and have gone: as the line moves in order,
// they have held in between, unless somebody whom they waited for is still there.
func (l *line) count(now time.Time, was map[string]*place, places []*place) (c change) {
	isSemaphore := l.recipe == zkrecipes.RecipeSemaphore
	stands, holds := map[string]bool{}, map[string]bool{}
	for _, p := range places {
		stands[p.path] = true
		old := was[p.path]
		switch {
		case !p.held || old != nil && old.held:
		case isSemaphore: // all slots of a lease are one acquisition
			_, lease, _ := strings.Cut(p.name, "-")
			holds[lease] = true
		default:
			c.acquired++
			c.waited(now, old)
		}
	}
	c.acquired += len(holds)
	aheadStands := false
	for _, old := range l.places {
		if stands[old.path] {
			aheadStands = aheadStands || !isSemaphore || !old.held
		} else if !old.held && !aheadStands {
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
		if old := was[p.path]; old != nil && (!p.held || !p.shared && l.recipe != zkrecipes.RecipeSemaphore) {
			return
		}
	}
	known := map[string]bool{}
	since := int64(0)
	if before.czxid == seen.czxid {
		since = before.creates
		for _, name := range before.names {
			known[name] = true
		}
	}
	unseen := seen.creates - since
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

// add adds what has happened to a history.
func (h *history) add(now time.Time, c change) {
	h.acquire(now, c.acquired)
	for _, waited := range c.waits {
		h.wait(now, waited, 1)
	}
	h.wait(now, 0, c.atOnce)
}
