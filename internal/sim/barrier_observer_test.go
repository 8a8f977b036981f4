package sim

import (
	"strconv"
	"strings"
	"sync"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// roundObserver follows what the server applies to barriers: which members there
// were, and with which of them each round was opened. It uses none of the library's
// code.
type roundObserver struct {
	*waitWorld

	mu      sync.Mutex
	current map[string]*round    // by the barrier's path
	members map[string][]*member // all there ever were, by the barrier's path
}

type round struct {
	readyExists bool // the znode ready exists
	opened      bool
	present     map[int64]*member // by number
}

// member is a member of a round. Logical times are 0 until they come.
type member struct {
	name                         string
	client                       string // its Identity
	number                       int64
	joinedAt, namedAt, deletedAt int64
	index, of                    int // in the round that was opened with the member, and how many were
}

func newRoundObserver(w *waitWorld) *roundObserver {
	return &roundObserver{waitWorld: w, current: map[string]*round{}, members: map[string][]*member{}}
}

// onChange follows a change below the barrier's path.
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
			o.log.violation("%s: a round was deleted that had ready %v and %d members", barrier, r.readyExists, len(r.present))
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
			o.log.violation("%s: %s joined a round that had ready %v and was open %v", barrier, name, r.readyExists, r.opened)
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

// roundOpened follows the write to ready that opens the round. It has to name as
// many members as the barrier waits for, all of them present.
func (o *roundObserver) roundOpened(barrier string, r *round, data string) {
	if r.opened {
		o.log.violation("%s: opened twice", barrier)
		return
	}
	r.opened = true
	if len(r.present) > o.size(barrier) {
		o.events.add("surplus member")
	}
	o.events.add("round opened")
	now, index := o.log.tick(), 0
	var named []*member
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
				o.log.violation("%s: opened with %q, of which %d is not present", barrier, data, number)
				return
			}
			m.namedAt, m.index = now, index
			named = append(named, m)
			index++
		}
	}
	for _, m := range named {
		m.of = index
	}
	if index != o.size(barrier) {
		o.log.violation("%s: opened with %q, %d members", barrier, data, index)
	}
}
