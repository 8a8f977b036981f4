package judge

import (
	"slices"
	"time"
)

// RecipeGate is the Recipe of a gate.
const RecipeGate = "gate"

// gate judges that nobody passes a gate that was shut throughout the call.
type gate struct {
	key   string
	shut  []interval
	since map[caller]time.Duration // when the calls began
}

// interval is a time in which the gate was shut for certain; to is 0 while it lasts.
type interval struct{ from, to time.Duration }

func (j *Judge) gateOf(key string) *gate {
	return of(j.gates, key, func() *gate { return &gate{key: key, since: map[caller]time.Duration{}} })
}

func (g *gate) take(j *Judge, e Event) {
	switch {
	case e.Kind == Shut:
		g.shut = append(g.shut, interval{from: e.At})
		g.shut = slices.DeleteFunc(g.shut, func(i interval) bool { return i.to != 0 && i.to < e.At-late })
	case e.Kind == Opening:
		for i := range g.shut {
			if g.shut[i].to == 0 {
				g.shut[i].to = e.At
			}
		}
	case e.Recipe != RecipeGate:
	case e.Kind == Begin:
		g.since[e.caller()] = e.At
	case e.Kind == Granted:
		begin := g.since[e.caller()]
		for _, i := range g.shut {
			if i.from <= begin && (i.to == 0 || e.At <= i.to) {
				j.violation(e.At, "gate", []string{g.key}, "%s: %v passed, and the gate was shut from %v on", g.key, e.caller(), i.from)
			}
		}
	}
}

// Znode is what was found at the end.
type Znode struct {
	Path      string
	Ephemeral bool
	Owner     string // with Ephemeral: its session
	Data      string // with Ephemeral
}

// Remains judges that of the znodes that were found only those are left that may be, while nobody holds
// or waits for anything.
func (j *Judge) Remains(at time.Duration, found []Znode, may func(Znode) bool) {
	for _, z := range found {
		if !may(z) {
			j.violation(at, "remains", nil, "left behind: %s (ephemeral: %v, of session %s, with %q)", z.Path, z.Ephemeral, z.Owner, z.Data)
		}
	}
}

// Accuse adds a violation that was found elsewhere.
func (j *Judge) Accuse(at time.Duration, rule, key, text string) {
	j.violation(at, rule, []string{key}, "%s", text)
}
