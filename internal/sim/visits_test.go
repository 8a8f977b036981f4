package sim

import (
	"strings"
	"sync"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// visits is what the server has applied to double barriers: who came, and which
// ready there were. It is the judge's, and knows nothing of the library's code.
type visits struct {
	*gathering

	mu      sync.Mutex
	here    map[string]map[string]*visitor // by the barrier's path, and by name
	came    map[string][]*visitor          // all there ever were
	readies map[string][]int64             // the czxids of all
}

// visitor is a member. Moments are 0 until they come.
type visitor struct {
	name   string
	client string // its identity
	czxid  int64
	came   int64
	stood  int64 // when it was first one of as many as there are to be
	gone   int64
}

func newVisits(g *gathering) *visits {
	v := &visits{gathering: g, here: map[string]map[string]*visitor{}, came: map[string][]*visitor{}, readies: map[string][]int64{}}
	for _, path := range g.paths {
		v.here[path] = map[string]*visitor{}
	}
	return v
}

// applied is told each change below the barrier's path.
func (v *visits) applied(barrier, name string, c zktest.Change) {
	v.mu.Lock()
	defer v.mu.Unlock()
	here := v.here[barrier]
	switch {
	case strings.Contains(name, "/"):
		v.h.violation("%s stands in %s", name, barrier)
	case name == "ready" && c.Created:
		v.befell.add("opened")
		if len(here) < v.n[barrier] {
			v.befell.add("opened, and some had gone")
		}
		v.readies[barrier] = append(v.readies[barrier], c.Zxid)
	case name == "ready":
	case c.Created:
		m := &visitor{name: name, client: string(c.Data), czxid: c.Zxid, came: v.h.now()}
		here[name] = m
		v.came[barrier] = append(v.came[barrier], m)
		if len(here) < v.n[barrier] {
			break
		}
		now := v.h.now()
		for _, m := range here {
			if m.stood == 0 {
				m.stood = now
			}
		}
	case c.Deleted:
		here[name].gone = v.h.now()
		delete(here, name)
	}
}

// openFor returns the czxid of the first ready that is younger than a member: that
// is the oldest by which it may have passed.
func (v *visits) openFor(barrier string, m *visitor) int64 {
	for _, czxid := range v.readies[barrier] {
		if czxid > m.czxid {
			return czxid
		}
	}
	return 0
}

// awaits returns for whom m, if it has left, would have had to wait.
func (v *visits) awaits(barrier string, m *visitor) *visitor {
	if m.gone == 0 {
		return m
	}
	since := v.openFor(barrier, m)
	for _, other := range v.here[barrier] {
		if other.czxid < since {
			return other
		}
	}
	return nil
}
