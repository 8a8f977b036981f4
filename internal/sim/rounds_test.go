package sim

import (
	"strconv"
	"strings"
	"sync"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// rounds is what the server has applied to barriers: who came, and with whom each
// round was opened. It is the judge's, and knows nothing of the library's code.
type rounds struct {
	*gathering

	mu   sync.Mutex
	open map[string]*round    // the one that stands, by the barrier's path
	came map[string][]*member // all there ever were
}

type round struct {
	ready  bool // its znode stands
	opened bool
	here   map[int64]*member // by number
}

// member is a member of a round. Moments are 0 until they come.
type member struct {
	name              string
	client            string // its identity
	number            int64
	came, named, gone int64
	index             int // in the round that was opened with it
}

func newRounds(g *gathering) *rounds {
	return &rounds{gathering: g, open: map[string]*round{}, came: map[string][]*member{}}
}

// applied is told each change below the barrier's path.
func (b *rounds) applied(barrier, below string, c zktest.Change) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.open[barrier]
	name, child := strings.CutPrefix(below, "round/")
	switch {
	case below == "round" && c.Created:
		b.open[barrier] = &round{here: map[int64]*member{}}
	case below == "round" && c.Deleted:
		if r.ready || len(r.here) > 0 {
			b.h.violation("%s: a round was deleted that has ready %v and %d members", barrier, r.ready, len(r.here))
		}
		delete(b.open, barrier)
	case !child:
	case name == "ready" && c.Created:
		r.ready = true
	case name == "ready" && c.Deleted:
		r.ready = false
	case name == "ready":
		b.opened(barrier, r, string(c.Data))
	case c.Created:
		number, err := strconv.ParseInt(name[strings.LastIndexByte(name, '-')+1:], 10, 64)
		if err != nil || !r.ready || r.opened {
			b.h.violation("%s: %s comes to a round that has ready %v and is open %v", barrier, name, r.ready, r.opened)
		}
		m := &member{name: name, client: string(c.Data), number: number, came: b.h.now()}
		r.here[number] = m
		b.came[barrier] = append(b.came[barrier], m)
	case c.Deleted:
		for number, m := range r.here {
			if m.name == name {
				m.gone = b.h.now()
				delete(r.here, number)
			}
		}
	}
}

// opened notes whom ready names: as many as there are to be, all of whom stand.
func (b *rounds) opened(barrier string, r *round, data string) {
	if r.opened {
		b.h.violation("%s: opened twice", barrier)
		return
	}
	r.opened = true
	if len(r.here) > b.n[barrier] {
		b.befell.add("one too many")
	}
	b.befell.add("round opened")
	now, index := b.h.now(), 0
	for part := range strings.SplitSeq(data, ",") {
		from, to, ok := strings.Cut(part, "-")
		if !ok {
			to = from
		}
		low, err1 := strconv.ParseInt(from, 10, 64)
		high, err2 := strconv.ParseInt(to, 10, 64)
		if err1 != nil || err2 != nil || low > high {
			b.h.violation("%s: opened with %q", barrier, data)
			return
		}
		for number := low; number <= high; number++ {
			m := r.here[number]
			if m == nil || m.named > 0 {
				b.h.violation("%s: opened with %q, of whom %d does not stand", barrier, data, number)
				return
			}
			m.named, m.index = now, index
			index++
		}
	}
	if index != b.n[barrier] {
		b.h.violation("%s: opened with %q, %d members", barrier, data, index)
	}
}
