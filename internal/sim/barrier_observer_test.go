package sim

import (
	"strconv"
	"strings"
	"sync"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// rounds is what the server has applied to barriers: who came, and with whom each
// round was opened. It is the judge's, and knows nothing of the library's code.
type roundObserver struct {
	*waitWorld

	mu      sync.Mutex
	current map[string]*round    // the one that stands, by the barrier's path
	members map[string][]*member // all there ever were
}

type round struct {
	readyExists bool // its znode stands
	opened      bool
	present     map[int64]*member // by number
}

// member is a member of a round. Moments are 0 until they come.
type member struct {
	name                         string
	client                       string // its identity
	number                       int64
	joinedAt, namedAt, deletedAt int64
	index                        int // in the round that was opened with it
}

func newRoundObserver(g *waitWorld) *roundObserver {
	return &roundObserver{waitWorld: g, current: map[string]*round{}, members: map[string][]*member{}}
}

// applied is told each change below the barrier's path.
func (o *roundObserver) onChange(barrier, below string, c zktest.Change) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.current[barrier]
	name, child := strings.CutPrefix(below, "round/")
	switch {
	case below == "round" && c.Created:
		o.current[barrier] = &round{present: map[int64]*member{}}
	case below == "round" && c.Deleted:
		if r.readyExists || len(r.present) > 0 {
			o.log.violation("%s: a round was deleted that has ready %v and %d members", barrier, r.readyExists, len(r.present))
		}
		delete(o.current, barrier)
	case !child:
	case name == "ready" && c.Created:
		r.readyExists = true
	case name == "ready" && c.Deleted:
		r.readyExists = false
	case name == "ready":
		o.roundOpened(barrier, r, string(c.Data))
	case c.Created:
		number, err := strconv.ParseInt(name[strings.LastIndexByte(name, '-')+1:], 10, 64)
		if err != nil || !r.readyExists || r.opened {
			o.log.violation("%s: %s comes to a round that has ready %v and is open %v", barrier, name, r.readyExists, r.opened)
		}
		m := &member{name: name, client: string(c.Data), number: number, joinedAt: o.log.tick()}
		r.present[number] = m
		o.members[barrier] = append(o.members[barrier], m)
	case c.Deleted:
		for number, m := range r.present {
			if m.name == name {
				m.deletedAt = o.log.tick()
				delete(r.present, number)
			}
		}
	}
}

// opened notes whom ready names: as many as there are to be, all of whom stand.
func (o *roundObserver) roundOpened(barrier string, r *round, data string) {
	if r.opened {
		o.log.violation("%s: opened twice", barrier)
		return
	}
	r.opened = true
	if len(r.present) > o.sizes[barrier] {
		o.events.add("one too many")
	}
	o.events.add("round opened")
	now, index := o.log.tick(), 0
	for part := range strings.SplitSeq(data, ",") {
		from, to, ok := strings.Cut(part, "-")
		if !ok {
			to = from
		}
		low, err1 := strconv.ParseInt(from, 10, 64)
		high, err2 := strconv.ParseInt(to, 10, 64)
		if err1 != nil || err2 != nil || low > high {
			o.log.violation("%s: opened with %q", barrier, data)
			return
		}
		for number := low; number <= high; number++ {
			m := r.present[number]
			if m == nil || m.namedAt > 0 {
				o.log.violation("%s: opened with %q, of whom %d does not stand", barrier, data, number)
				return
			}
			m.namedAt, m.index = now, index
			index++
		}
	}
	if index != o.sizes[barrier] {
		o.log.violation("%s: opened with %q, %d members", barrier, data, index)
	}
}
