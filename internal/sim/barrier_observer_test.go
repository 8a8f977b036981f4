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
	readyExists bool  // the znode ready exists
	signalOf    int   // the n of its signal, 0 if there is none
	raisedAt    int64 // the zxid
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
	case strings.HasPrefix(name, "ready/"):
		o.signalChanged(barrier, r, strings.TrimPrefix(name, "ready/"), c)
	case name == "ready" && c.Created:
		r.readyExists = true
	case name == "ready" && c.Deleted:
		r.readyExists = false
	case name == "ready":
		o.roundOpened(barrier, r, string(c.Data), c.Zxid)
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
func (o *roundObserver) roundOpened(barrier string, r *round, data string, zxid int64) {
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
	o.checkSignal(barrier, r, named, zxid)
	if index != o.size(barrier) {
		o.log.violation("%s: opened with %q, %d members", barrier, data, index)
	}
}

// signalChanged follows a change below ready.
func (o *roundObserver) signalChanged(barrier string, r *round, name string, c zktest.Change) {
	n, child, _ := strings.Cut(strings.TrimPrefix(name, "signal-of"), "/")
	of, err := strconv.Atoi(n)
	switch {
	case err != nil:
		o.log.violation("%s: %s below ready", barrier, name)
	case child != "" && c.Created:
		r.raisedAt = c.Zxid
		if r.opened {
			o.log.violation("%s: %s raised in an open round", barrier, name)
		}
	case c.Created:
		r.signalOf = of
	case c.Deleted && child == "":
		r.signalOf = 0
		if !r.opened {
			o.events.add("signal deleted")
		}
	}
}

// checkSignal follows the write to ready that opens the round, with those members. The
// same transaction has to raise the signal, if it is for as many members and they have the
// numbers 1 to n. Otherwise there must be none any more, so that all members wake.
func (o *roundObserver) checkSignal(barrier string, r *round, named []*member, zxid int64) {
	n := len(named)
	all := n > 0 && named[0].number == 1 && named[n-1].number == int64(n)
	switch {
	case r.signalOf == 0:
	case all && r.signalOf == n && r.raisedAt == zxid:
		o.events.add("signal raised")
	default:
		o.log.violation("%s: opened for %d, with the first %v, and a signal for %d, raised %v", barrier, n, all, r.signalOf, r.raisedAt == zxid)
	}
}
