package judge

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// outageFrom is how long no plain write must succeed to count as an outage.
const outageFrom = time.Second

// served finds callers that wait although they could be served. What may delay them
// begins their patience anew: an outage of the ensemble, since a new leader gives every
// session its whole timeout again, and a process that was stopped or killed, since its
// session must time out. One that has ended as it was told to delays nobody. Then somebody must
// be served within a session timeout, the time in which a client leaves a silent server (half a
// timeout), and the slack.
type served struct {
	j        *Judge
	contests map[string]*contest
	still    map[int]bool // processes that are stopped, or not there
	ended    map[int]bool // processes of which the last life ended as it was told to

	calm      time.Duration // since when there was neither an outage nor a fault of a process
	lastWrite time.Duration
	outages   time.Duration // in all
	longest   time.Duration // outage

	after recovery
}

// contest is all calls that wait for the same key, or wait to enter or to leave the same double barrier.
// That is one of n members which n callers use. Once all of them wait, somebody can be served: a member
// that leaves waits only for members of the same opening, and those that still have to return from Enter
// wait for nobody.
type contest struct {
	recipe  string
	members int // how many must wait to be served
	waiting map[caller]*wait
	shut    bool          // nobody can be served: the gate is shut, no item is free
	since   time.Duration // the beginning of their patience
	last    time.Duration // when somebody was served, or could not be
	told    bool
	grants  int
	longest time.Duration
	patient time.Duration // the longest time of patience
}

// wait is one call.
type wait struct {
	since   time.Duration
	outages time.Duration // before it
	grants  int           // before it
	told    bool
}

func newServed(j *Judge) served {
	return served{j: j, contests: map[string]*contest{}, still: map[int]bool{}, ended: map[int]bool{},
		after: recovery{served: map[place]time.Duration{}}}
}

func (s *served) contest(e Event) *contest {
	key := strings.TrimSuffix(e.Key, LeaveSuffix)
	return of(s.contests, key, func() *contest {
		return &contest{recipe: e.Recipe, members: s.j.cfg.Members[key], waiting: map[caller]*wait{}, shut: e.Recipe == RecipeTake}
	})
}

func (s *served) take(e Event) {
	switch e.Kind {
	case Begin:
		s.update(e, func(c *contest) { c.waiting[e.caller()] = &wait{since: e.At, outages: s.outages, grants: c.grants} })
	case Granted:
		c := s.contest(e)
		if s.servable(c) {
			c.longest = max(c.longest, e.At-c.last)
			if e.At-s.lastWrite <= outageFrom {
				c.patient = max(c.patient, e.At-c.since)
			}
		}
		c.grants++
		c.since, c.last, c.told = e.At, e.At, false
		delete(c.waiting, e.caller())
		s.after.served[place{e.Process, e.Key}] = e.At
	case Failed:
		s.update(e, func(c *contest) {
			delete(c.waiting, e.caller())
			if e.Err == NoLetters {
				c.since, c.last = e.At, e.At
			}
		})
	case Opened:
		s.update(e, func(c *contest) { c.shut = false })
	case Closing:
		s.update(e, func(c *contest) { c.shut = true })
	case Wrote:
		s.wrote(e.At)
	case Expired:
		s.waitAnew(e)
	case Stopped, Resumed, Killed, Ended, Started:
		s.fault(e)
	}
}

// update changes a contest, and begins its patience anew if only now somebody can be
// served.
func (s *served) update(e Event, change func(c *contest)) {
	c := s.contest(e)
	before := s.servable(c)
	change(c)
	if !before {
		c.since, c.last = max(c.since, e.At), e.At
	}
}

// servable reports whether somebody could be served.
func (s *served) servable(c *contest) bool {
	n := 0
	for who := range c.waiting {
		if !s.still[who.process] {
			n++
		}
	}
	return !c.shut && n >= max(1, c.members)
}

// outagesBy returns how long all outages were until at, with one that may not be over yet.
func (s *served) outagesBy(at time.Duration) time.Duration {
	if gap := at - s.lastWrite; gap > outageFrom {
		return s.outages + gap
	}
	return s.outages
}

func (s *served) wrote(at time.Duration) {
	if outages := s.outagesBy(at); outages > s.outages {
		s.outages = outages
		s.renew(at)
	}
	s.longest = max(s.longest, at-s.lastWrite)
	s.lastWrite = at
	s.recovered(at)
}

func (s *served) renew(at time.Duration) {
	s.calm = max(s.calm, at)
	for _, c := range s.contests {
		c.since = max(c.since, at)
	}
}

func (s *served) fault(e Event) {
	if e.Kind != Ended && !(e.Kind == Started && s.ended[e.Process]) {
		s.renew(e.At)
	}
	s.still[e.Process] = e.Kind == Stopped || e.Kind.isGone()
	s.ended[e.Process] = e.Kind == Ended
	if e.Kind.isGone() {
		for _, c := range s.contests { // what the process kept up can be served from now on
			if !s.servable(c) {
				c.since, c.last = max(c.since, e.At), e.At
			}
		}
		for _, c := range s.contests {
			maps.DeleteFunc(c.waiting, func(who caller, _ *wait) bool { return who.process == e.Process })
		}
	}
	s.waitAnew(e)
}

// waitAnew begins the waits of a process anew.
func (s *served) waitAnew(e Event) {
	for _, c := range s.contests {
		for who, w := range c.waiting {
			if who.process == e.Process {
				w.since, w.outages, w.grants = e.At, s.outages, c.grants
			}
		}
	}
}

// look reports calls that have waited for too long.
func (s *served) look(now time.Duration) {
	if now-s.lastWrite > outageFrom {
		return // an outage, perhaps
	}
	s.lookAfterLoss(now)
	for _, key := range slices.Sorted(maps.Keys(s.contests)) {
		c, bound := s.contests[key], s.j.boundOf(key)
		if !s.servable(c) {
			continue
		}
		if quiet := now - c.since; quiet > bound && !c.told {
			c.told = true
			s.j.violation(now, "served", []string{key}, "%s: nobody was served for %v, %d wait; the ensemble serves, the bound is %v",
				key, quiet, len(c.waiting), bound)
		}
		s.overtaken(now, key, c, 4*bound)
	}
}

// overtaken reports callers that wait for long while others are served, again and again.
// The bound has room for recipes that do not serve their callers in order.
func (s *served) overtaken(now time.Duration, key string, c *contest, bound time.Duration) {
	for who, w := range c.waiting {
		waits, others := now-w.since-(s.outages-w.outages), c.grants-w.grants
		if !w.told && !s.still[who.process] && waits > bound && others > 4*len(c.waiting) {
			w.told = true
			s.j.violation(now, "served", []string{key}, "%s: %v waits for %v, while others were served %d times", key, who, waits, others)
		}
	}
}

// Gap is the longest time in which nobody was served although somebody waited.
type Gap struct {
	Longest time.Duration
	Patient time.Duration // the longest since the last outage and the last fault of a process
	Grants  int
}

// Gaps returns the longest gaps and the number of grants, by Key.
func (j *Judge) Gaps() map[string]Gap {
	gaps := map[string]Gap{}
	for key, c := range j.served.contests {
		gaps[key] = Gap{c.longest, c.patient, c.grants}
	}
	return gaps
}

// Unserved returns those of the keys for which there were fewer grants than that.
func (j *Judge) Unserved(least int, keys ...string) []string {
	return slices.DeleteFunc(keys, func(key string) bool {
		c := j.served.contests[key]
		return c != nil && c.grants >= least
	})
}

// Outage returns the longest time without a plain write.
func (j *Judge) Outage() time.Duration { return j.served.longest }
