package sim

import (
	"fmt"
	"iter"
	"strings"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// byHand is the value of leaders' znodes that no candidate has created.
const byHand = "by hand"

// sighting is a leader's znode. The zero sighting is that there is none.
type sighting struct {
	token zkrecipes.Token
	value string
}

func (s sighting) String() string {
	if s.token == 0 {
		return "none"
	}
	return fmt.Sprintf("0x%x %q", int64(s.token), s.value)
}

// electionObserver follows the leaders' znodes and the lines on the server.
type electionObserver struct {
	*history[string, sighting] // between two transactions, by path

	w     *world
	zxids map[string]int64 // of the last transactions that have changed them
	lines *lineObserver
}

func newElectionObserver(w *world) *electionObserver {
	return &electionObserver{newHistory[string](sighting{}), w, map[string]int64{}, newLineObserver(nil)}
}

func (o *electionObserver) onChange(path, below string, c zktest.Change) {
	if below != "leader" {
		o.lines.onChange(c)
		return
	}
	last := o.zxids[path]
	o.zxids[path] = c.Zxid
	now, _ := o.now(path)
	switch {
	case c.Deleted:
		now = sighting{}
	case c.Created:
		if last == c.Zxid {
			o.w.events.add("leader replaced")
		}
		now = sighting{zkrecipes.Token(c.Zxid << 8), string(c.Data)}
	default:
		now.value = string(c.Data)
		o.checkFirst(path, now)
	}
	if last == c.Zxid { // one transaction
		o.amend(path, now)
	} else {
		o.add(path, now)
	}
}

// checkFirst checks that a leader's znode is written by the first in line alone.
func (o *electionObserver) checkFirst(path string, s sighting) {
	first, ok := o.lines.first(path)
	switch {
	case s.value == byHand:
	case !ok:
		o.w.log.violation("%s: %v leads, and nobody is in the line", path, s)
	case s.value != "at rest" && s.value != "at last" && !strings.HasPrefix(s.value, first.client+" "):
		o.w.log.violation("%s: %v leads, and %s is the first in the line", path, s, first.client)
	}
}

// observe follows a path for the whole run, with one client after the other.
func (w *electionWorld) observe(p *process, path string) {
	var at int // the state that it has seen
	var last sighting
	follow(w.waitWorld, p, 9000, "observer of "+path, func(c *zkrecipes.Client) iter.Seq2[zkrecipes.Leader, error] {
		_, at = w.server.now(path) // the state when the call begins, or a later one
		return zkrecipes.NewElection(c, path).Observe(w.follow)
	}, func(l zkrecipes.Leader, first bool) {
		s := sighting{l.Token, string(l.Value)}
		if !first {
			at++
			if s == last {
				w.log.violation("%s: the observer of client %d sees %v twice", path, p.i, s)
			}
		}
		last, at = s, w.server.saw(w.world, p.i, path, s, at)
	})
}
