package sim

import (
	"strconv"
	"strings"
	"sync"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// visitObserver follows what the server applies to double barriers: which members
// there were, and when ready was created. It uses none of the library's code.
type visitObserver struct {
	*waitWorld

	mu         sync.Mutex
	present    map[string]map[string]*visitor // by the barrier's path, and by name
	visitors   map[string][]*visitor          // all there ever were, by the barrier's path
	readyZxids map[string][]int64             // czxids of all znodes ready, by the barrier's path
}

// visitor is a member. Logical times are 0 until they come.
type visitor struct {
	name       string
	n          int    // for how many it waits
	client     string // its Identity
	czxid      int64
	joinedAt   int64
	completeAt int64 // when it was first one of n that wait for n
	deletedAt  int64
}

func newVisitObserver(g *waitWorld) *visitObserver {
	v := &visitObserver{waitWorld: g, present: map[string]map[string]*visitor{}, visitors: map[string][]*visitor{}, readyZxids: map[string][]int64{}}
	for _, path := range g.paths {
		v.present[path] = map[string]*visitor{}
	}
	return v
}

// onChange follows a change below the barrier's path.
func (o *visitObserver) onChange(barrier, name string, c zktest.Change) {
	o.mu.Lock()
	defer o.mu.Unlock()
	here := o.present[barrier]
	switch {
	case strings.Contains(name, "/"):
		o.log.violation("%s was created in %s", name, barrier)
	case name == "ready" && c.Created:
		o.events.add("opened")
		if len(here) < o.size(barrier) {
			o.events.add("opened after members had gone")
		}
		o.readyZxids[barrier] = append(o.readyZxids[barrier], c.Zxid)
	case name == "ready":
	case !strings.Contains(name, "-of"): // no member
	case c.Created:
		m := &visitor{name: name, client: string(c.Data), czxid: c.Zxid, joinedAt: o.log.tick()}
		_, size, _ := strings.Cut(name, "-of")
		m.n, _ = strconv.Atoi(size[:strings.IndexByte(size, '-')])
		here[name] = m
		o.visitors[barrier] = append(o.visitors[barrier], m)
		var same []*visitor
		for _, other := range here {
			if other.n == m.n {
				same = append(same, other)
			}
		}
		if len(same) < m.n {
			break
		}
		now := o.log.tick()
		for _, m := range same {
			if m.completeAt == 0 {
				m.completeAt = now
			}
		}
	case c.Deleted:
		here[name].deletedAt = o.log.tick()
		delete(here, name)
	}
}

// firstReadyAfter returns the czxid of the first ready that is younger than a
// member. It is the oldest by which the member may have entered.
func (o *visitObserver) firstReadyAfter(barrier string, m *visitor) int64 {
	for _, czxid := range o.readyZxids[barrier] {
		if czxid > m.czxid {
			return czxid
		}
	}
	return 0
}

// blockedBy returns a member that m had to wait for before it left, or nil.
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
