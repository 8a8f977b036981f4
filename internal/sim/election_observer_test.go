package sim

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

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
	w *world

	mu     sync.Mutex
	states map[string][]electionState  // by path, the oldest first
	lines  map[string][]candidatePlace // by path, in order
}

// electionState is a leader's znode between two transactions.
type electionState struct {
	sighting
	zxid, moment int64 // of the transaction
}

// candidatePlace is a place in a line, and the identity of its client.
type candidatePlace struct {
	linePlace
	identity string
}

func newElectionObserver(w *world, paths []string) *electionObserver {
	o := &electionObserver{w: w, states: map[string][]electionState{}, lines: map[string][]candidatePlace{}}
	for _, path := range paths {
		o.states[path] = []electionState{{}}
	}
	return o
}

func (o *electionObserver) onChange(path, below string, c zktest.Change) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if below != "leader" {
		o.changeLine(path, below, c)
		return
	}
	all := o.states[path]
	last := all[len(all)-1]
	now := electionState{last.sighting, c.Zxid, o.w.log.tick()}
	switch {
	case c.Deleted:
		now.sighting = sighting{}
	case c.Created:
		if last.zxid == c.Zxid {
			o.w.events.add("leader replaced")
		}
		now.sighting = sighting{zkrecipes.Token(c.Zxid << 8), string(c.Data)}
	default:
		now.value = string(c.Data)
		o.checkFirst(path, now.sighting)
	}
	if last.zxid == c.Zxid { // one transaction
		all[len(all)-1] = now
		return
	}
	o.states[path] = append(all, now)
}

func (o *electionObserver) changeLine(path, name string, c zktest.Change) {
	place, ok := parsePlace(name)
	if !ok {
		return
	}
	switch {
	case c.Created:
		o.lines[path] = append(o.lines[path], candidatePlace{place, string(c.Data)})
		slices.SortFunc(o.lines[path], func(a, b candidatePlace) int { return cmp.Compare(a.number, b.number) })
	case c.Deleted:
		o.lines[path] = slices.DeleteFunc(o.lines[path], func(other candidatePlace) bool { return other.linePlace == place })
	}
}

// checkFirst checks that a leader's znode is written by the first in line alone.
func (o *electionObserver) checkFirst(path string, s sighting) {
	line := o.lines[path]
	switch {
	case s.value == byHand:
	case len(line) == 0:
		o.w.log.violation("%s: %v leads, and nobody is in the line", path, s)
	case s.value != "at rest" && s.value != "at last" && !strings.HasPrefix(s.value, line[0].identity+" "):
		o.w.log.violation("%s: %v leads, and %s is the first in the line", path, s, line[0].identity)
	}
}

// now returns the number of the latest state.
func (o *electionObserver) now(path string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.states[path]) - 1
}

// find returns the number of the first state from one on in which the server had that.
func (o *electionObserver) find(path string, s sighting, from int) (n int, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for n := from; n < len(o.states[path]); n++ {
		if o.states[path][n].sighting == s {
			return n, true
		}
	}
	return 0, false
}

// follower is a call of Observe in a process.
type follower struct {
	process int
	path    string
}

// observe follows a path for the whole run, with one client after the other.
func (w *electionWorld) observe(p *process, path string) {
	f := &follower{p.i, path}
	var at int
	follow(w.waitWorld, p, 9000, "observer of "+path, func(c *zkrecipes.Client) iter.Seq2[zkrecipes.Leader, error] {
		at = w.server.now(path) // the state when the call begins, or a later one
		return zkrecipes.NewElection(c, path).Observe(w.follow)
	}, func(l zkrecipes.Leader, first bool) { at = w.saw(f, l, at, first) })
}

// saw checks what an observer has seen, whose last state was at.
func (w *electionWorld) saw(f *follower, l zkrecipes.Leader, at int, first bool) int {
	s := sighting{l.Token, string(l.Value)}
	w.log.note("observer %d of %s sees %v", f.process, f.path, s)
	n, ok := w.server.find(f.path, s, at)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch last := w.seen[f]; {
	case !ok:
		w.log.violation("%s: the observer of client %d sees %v, which was not so since state %d", f.path, f.process, s, at)
		n = at
	case !first && s == last:
		w.log.violation("%s: the observer of client %d sees %v twice", f.path, f.process, s)
	case n > at+1:
		w.events.add("observer skipped")
	}
	if l.None() {
		w.events.add("seen none")
	} else {
		w.events.add("seen")
	}
	w.seen[f] = s
	return n
}
