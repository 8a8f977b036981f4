package judge

import (
	"slices"
	"strings"
	"time"
)

// Recipes of the barriers. The Key of a Leave is the double barrier's, followed by
// LeaveSuffix.
const (
	RecipeBarrier = "barrier"
	RecipeDouble  = "double"
	RecipeLeave   = "leave"
	LeaveSuffix   = "/leave"
)

// barrier judges that nobody passes before n members are there, and that nobody leaves a
// double barrier before those that it was opened for.
type barrier struct {
	key     string
	n       int
	members []*member // the last ones
	stops   []stop
	indexes map[int]int // grants by index
	failed  int         // members that were not told whether they passed
}

// member is one call, and in a double barrier the visit too.
type member struct {
	who     caller
	begin   time.Duration
	end     time.Duration // when its znode was gone for certain; 0: not yet
	dead    bool          // its client is gone, so the znode stands longer than that by all later outages
	outages time.Duration // before it was dead
	fellows []*member     // those the barrier was opened for, if that is certain
	left    time.Duration // when its Leave returned
}

type stop struct {
	process int
	at      time.Duration
}

func (j *Judge) barrierOf(key string) *barrier {
	key = strings.TrimSuffix(key, LeaveSuffix)
	return of(j.barriers, key, func() *barrier { return &barrier{key: key, n: j.cfg.Members[key], indexes: map[int]int{}} })
}

// takeMember takes an event of a barrier, or one of a process, which concerns all.
func (j *Judge) takeMember(e Event) {
	if e.Key != "" {
		j.barrierOf(e.Key).take(j, e)
		return
	}
	for key := range j.cfg.Members {
		j.barrierOf(key).process(j, e)
	}
}

// zombie is how long a member whose client is gone may still be there, without outages: no session
// expires in one.
func (j *Judge) zombie() time.Duration { return 3 * j.cfg.Timeout }

// dies notes that a member whose client is gone from then on may still be there.
func (m *member) dies(j *Judge, at time.Duration) {
	m.end, m.dead, m.outages = at+j.zombie(), true, j.served.outagesBy(at)
}

// there reports whether its znode may be there at that time.
func (m *member) there(j *Judge, at time.Duration) bool {
	end := m.end
	if m.dead {
		end += j.served.outagesBy(at) - m.outages
	}
	return m.end == 0 || end >= at
}

func (b *barrier) take(j *Judge, e Event) {
	m := b.member(e)
	switch {
	case e.Kind == Begin && e.Recipe != RecipeLeave:
		b.members = append(b.members, &member{who: e.caller(), begin: e.At})
		b.forget(j, e.At)
	case m == nil:
	case e.Kind == Granted && e.Recipe == RecipeLeave:
		m.left, m.end = e.At, e.At
	case e.Kind == Failed && e.Recipe == RecipeLeave:
		m.dies(j, e.At)
	case e.Kind == Granted:
		b.passed(j, m, e)
	case e.Kind == Failed:
		b.failed++
		m.dies(j, e.At)
	case e.Kind == Gone:
		m.end = e.At
	case e.Kind == Leaving: // its znode stands until the servers have carried that out
		b.leaving(j, m, e)
	}
}

// member returns the caller's newest call.
func (b *barrier) member(e Event) *member {
	for _, m := range slices.Backward(b.members) {
		if m.who == e.caller() {
			return m
		}
	}
	return nil
}

func (b *barrier) process(j *Judge, e Event) {
	switch e.Kind {
	case Killed, Ended:
		for _, m := range b.members {
			if m.who.process == e.Process && m.end == 0 {
				m.dies(j, e.At)
				b.failed++
			}
		}
	case Stopped, Resumed:
		b.stops = append(b.stops, stop{e.Process, e.At})
	}
}

// passed judges that n members were there at one moment of the call.
func (b *barrier) passed(j *Judge, m *member, e Event) {
	there := b.overlapping(j, m.begin, e.At)
	most := 0
	for _, first := range there { // the most are there when somebody has just come
		at, n := max(first.begin, m.begin), 0
		for _, other := range there {
			if other.begin <= at && other.there(j, at) {
				n++
			}
		}
		most = max(most, n)
	}
	if most < b.n {
		j.violation(e.At, "barrier", []string{b.key}, "%s: %v passed, and at most %d of %d members were there", b.key, m.who, most, b.n)
	}
	if e.Index < 0 || e.Index >= b.n {
		j.violation(e.At, "barrier", []string{b.key}, "%s: %v passed with index %d of %d", b.key, m.who, e.Index, b.n)
	}
	b.indexes[e.Index]++
	switch {
	case e.Recipe == RecipeBarrier:
		m.end = e.At
	case len(there) == b.n:
		m.fellows = there
	}
}

// overlapping returns the members that were there at any time of an interval.
func (b *barrier) overlapping(j *Judge, from, to time.Duration) []*member {
	var there []*member
	for _, m := range b.members {
		if m.begin <= to && m.there(j, from) {
			there = append(there, m)
		}
	}
	return there
}

// leaving judges that nobody had left before a member that only now begins to.
func (b *barrier) leaving(j *Judge, m *member, e Event) {
	stopped := slices.ContainsFunc(b.stops, func(s stop) bool { return s.process == m.who.process && s.at >= m.begin })
	cut := slices.ContainsFunc(j.exclusion.cuts, func(c cut) bool { return c.to == 0 || c.to > m.begin-j.zombie() })
	if stopped || cut || j.losses.since(m.begin-j.zombie()) {
		return // its visit may have ended, and it could not know
	}
	for _, other := range m.fellows {
		if other != m && slices.Contains(other.fellows, m) && other.left > 0 && other.left < e.At {
			j.violation(e.At, "barrier", []string{b.key, b.key + LeaveSuffix}, "%s: %v had left at %v, before %v began to leave",
				b.key, other.who, other.left, m.who)
		}
	}
}

// forget drops members that nothing can overlap any more.
func (b *barrier) forget(j *Judge, now time.Duration) {
	b.members = slices.DeleteFunc(b.members, func(m *member) bool { return !m.there(j, now-late) })
	b.stops = slices.DeleteFunc(b.stops, func(s stop) bool { return s.at < now-late })
}

// Rounds judges at the end that each index was given out in each round. Every round has
// each once, though some members were not told.
func (j *Judge) Rounds(at time.Duration, key string) {
	b := j.barrierOf(key)
	least, most := b.indexes[0], b.indexes[0]
	for i := range b.n {
		least, most = min(least, b.indexes[i]), max(most, b.indexes[i])
	}
	if most-least > b.failed {
		j.violation(at, "barrier", []string{key}, "%s: members passed by index %v, and only %d were not told", key, b.indexes, b.failed)
	}
}
