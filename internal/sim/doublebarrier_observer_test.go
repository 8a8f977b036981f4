package sim

import (
	"strings"
	"sync"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// visits is what the server has applied to double barriers: who came, and which
// ready there were. It is the judge's, and knows nothing of the library's code.
type visitObserver struct {
	*waitWorld

	mu         sync.Mutex
	present    map[string]map[string]*visitor // by the barrier's path, and by name
	visitors   map[string][]*visitor          // all there ever were
	readyZxids map[string][]int64             // the czxids of all
}

// visitor is a member. Moments are 0 until they come.
type visitor struct {
	name       string
	client     string // its identity
	czxid      int64
	joinedAt   int64
	completeAt int64 // when it was first one of as many as there are to be
	deletedAt  int64
}

func newVisitObserver(g *waitWorld) *visitObserver {
	v := &visitObserver{waitWorld: g, present: map[string]map[string]*visitor{}, visitors: map[string][]*visitor{}, readyZxids: map[string][]int64{}}
	for _, path := range g.paths {
		v.present[path] = map[string]*visitor{}
	}
	return v
}

// applied is told each change below the barrier's path.
func (o *visitObserver) onChange(barrier, name string, c zktest.Change) {
	o.mu.Lock()
	defer o.mu.Unlock()
	here := o.present[barrier]
	switch {
	case strings.Contains(name, "/"):
		o.log.violation("%s stands in %s", name, barrier)
	case name == "ready" && c.Created:
		o.events.add("opened")
		if len(here) < o.sizes[barrier] {
			o.events.add("opened, and some had gone")
		}
		o.readyZxids[barrier] = append(o.readyZxids[barrier], c.Zxid)
	case name == "ready":
	case c.Created:
		m := &visitor{name: name, client: string(c.Data), czxid: c.Zxid, joinedAt: o.log.tick()}
		here[name] = m
		o.visitors[barrier] = append(o.visitors[barrier], m)
		if len(here) < o.sizes[barrier] {
			break
		}
		now := o.log.tick()
		for _, m := range here {
			if m.completeAt == 0 {
				m.completeAt = now
			}
		}
	case c.Deleted:
		here[name].deletedAt = o.log.tick()
		delete(here, name)
	}
}

// openFor returns the czxid of the first ready that is younger than a member: that
// is the oldest by which it may have passed.
func (o *visitObserver) firstReadyAfter(barrier string, m *visitor) int64 {
	for _, czxid := range o.readyZxids[barrier] {
		if czxid > m.czxid {
			return czxid
		}
	}
	return 0
}

// awaits returns for whom m, if it has left, would have had to wait.
func (o *visitObserver) blockedBy(barrier string, m *visitor) *visitor {
	if m.deletedAt == 0 {
		return m
	}
	since := o.firstReadyAfter(barrier, m)
	for _, other := range o.present[barrier] {
		if other.czxid < since {
			return other
		}
	}
	return nil
}
