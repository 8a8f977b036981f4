package judge

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// A loss takes back what was done from a moment on: the servers that knew of it have lost
// their disks, and one that did not goes on. So all that was acknowledged in that time is in
// doubt, and nothing else is:
//
//   - who was granted something then may believe in it until its session timeout, as long as it
//     reaches no server, while somebody else is granted the same;
//   - tokens may be given again, and the versions of data;
//   - an item that was put then may be gone, and one that was acked then may come again;
//   - a gate may be shut again, or open; a member that has passed or left may be back until
//     its client has seen to it.
type loss struct {
	from, to time.Duration // in this time
}

type losses []loss

// between reports whether a loss may have taken back what was done first, and not what was done later.
func (l losses) between(first, later time.Duration) bool {
	return slices.ContainsFunc(l, func(l loss) bool { return l.from <= first && first < l.to && l.to <= later })
}

// since reports whether there was a loss after a moment.
func (l losses) since(at time.Duration) bool {
	return slices.ContainsFunc(l, func(l loss) bool { return l.to >= at })
}

// takeLoss takes a loss that has happened until now.
func (j *Judge) takeLoss(e Event) {
	l := loss{e.From, e.At}
	j.losses = append(j.losses, l)
	for _, f := range j.fences {
		f.lose(l)
	}
	j.queues.lose(l)
	for _, b := range j.barriers {
		b.lose(j, l)
	}
	for _, g := range j.gates {
		g.lose(l)
	}
	for _, el := range j.elections {
		el.lose(l)
	}
	j.served.lose(e)
}

// RuleLost is the Rule of a violation by a process that was not served after a loss.
const RuleLost = "lost"

// recovery is how the processes fare after the last loss: each must be served everything
// again in time.
type recovery struct {
	refused bool          // the servers refuse the sessions at first
	waits   bool          // for the first plain write
	back    time.Duration // when that was
	due     bool          // it is not judged yet
	served  map[place]time.Duration
}

// place is a key in a process.
type place struct {
	process int
	key     string
}

func (s *served) lose(e Event) {
	s.after.refused, s.after.waits, s.after.due = e.Refused, true, false
	for _, c := range s.contests {
		if c.recipe == RecipeGate {
			c.shut = true // perhaps
		}
	}
}

// patience is how long clients may take after a loss before the patience with them begins. A
// session that no server accepts is given up after twice its timeout.
func (s *served) patience() time.Duration {
	if s.after.refused {
		return 2 * s.j.cfg.Timeout
	}
	return 0
}

// recovered notes that the ensemble carries out writes again.
func (s *served) recovered(at time.Duration) {
	if s.after.waits {
		s.after.waits, s.after.due, s.after.back = false, true, at
		s.renew(at + s.patience())
	}
}

// lookAfterLoss judges that each process was served everything again in time.
func (s *served) lookAfterLoss(now time.Duration) {
	if !s.after.due || now < s.calm+s.j.Bound() {
		return
	}
	s.after.due = false
	missed := map[int][]string{}
	for p, last := range s.after.served {
		if last < s.after.back && slices.Contains(s.j.cfg.Steady, p.key) {
			missed[p.process] = append(missed[p.process], p.key)
		}
	}
	for _, process := range slices.Sorted(maps.Keys(missed)) {
		keys := slices.Sorted(slices.Values(missed[process]))
		s.j.violation(now, RuleLost, keys, "the ensemble came back at %v, and for %v process %d was not served %s",
			s.after.back, now-s.after.back, process, strings.Join(keys, ", "))
	}
}

// AfterLoss reports whether it is still to be judged what was served after a loss.
func (j *Judge) AfterLoss() bool { return j.served.after.waits || j.served.after.due }

func (f *fence) lose(l loss) {
	f.tokens = slices.DeleteFunc(f.tokens, func(t grantedToken) bool { return t.at >= l.from })
	before := len(f.commits)
	f.commits = slices.DeleteFunc(f.commits, func(e Event) bool { return e.At >= l.from })
	f.n -= before - len(f.commits)
	f.doubtful += before - len(f.commits)
	f.lastKnown = 0
	for _, e := range f.commits {
		f.lastKnown = max(f.lastKnown, e.Version)
	}
}

func (q *queues) lose(l loss) {
	for name, f := range q.finished {
		if f.at >= l.from {
			delete(q.finished, name)
			q.items[name] = &item{queue: f.queue, touched: f.at}
		}
	}
	for _, it := range q.items {
		q.change(it, l.to, func() { it.lose(l) })
	}
}

func (it *item) lose(l loss) {
	it.attempts = slices.DeleteFunc(it.attempts, func(e Event) bool { return e.At >= l.from })
	if it.touched < l.from || it.put == no {
		return
	}
	it.put, it.acks, it.effect = maybe, nil, false
}

func (b *barrier) lose(j *Judge, l loss) {
	for _, m := range b.members {
		if m.end >= l.from {
			m.end = max(m.end, l.to+j.zombie())
		}
	}
	b.failed += b.n
}

func (g *gate) lose(l loss) {
	g.shut = slices.DeleteFunc(g.shut, func(i interval) bool { return i.from >= l.from })
}

func (el *election) lose(l loss) {
	el.terms = slices.DeleteFunc(el.terms, func(t term) bool { return t.known >= l.from })
	for who := range el.observers {
		el.observers[who] = 0
	}
}
