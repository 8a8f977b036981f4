package zktest

import (
	"slices"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// runClock expires sessions, reaps containers and brings lagging replicas up to
// date when these are due. It sleeps until the next deadline instead of polling,
// and without a deadline it sleeps until it is woken, so that an idle server
// does not interrupt simulated time.
func (s *Server) runClock() {
	defer s.clock.Done()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		s.mu.Lock()
		next := s.runDue(time.Now())
		s.nextWake = next
		s.mu.Unlock()
		timer.Stop()
		var expired <-chan time.Time
		if !next.IsZero() {
			timer.Reset(time.Until(next))
			expired = timer.C
		}
		select {
		case <-expired:
		case <-s.wake:
		case <-s.done:
			return
		}
	}
}

// wakeBefore wakes the clock if it would sleep beyond t.
func (s *Server) wakeBefore(t time.Time) {
	if s.nextWake.IsZero() || t.Before(s.nextWake) {
		s.nextWake = t
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// runDue does everything that is due at now. It returns the next deadline, or
// zero if there is none. Nothing is due while the server is stopped.
func (s *Server) runDue(now time.Time) (next time.Time) {
	if s.run.isOver() {
		return time.Time{}
	}
	earlier := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	for _, ss := range s.sessions {
		if !now.Before(ss.expires) {
			s.expire(ss)
			continue
		}
		earlier(ss.expires)
	}
	if len(s.leader.tree.reapable) > 0 {
		if !now.Before(s.nextContainerCheck) {
			s.reap(now)
		}
		s.scheduleContainerCheck(now)
		earlier(s.nextContainerCheck)
	}
	for r := range s.lagging {
		if t := s.applyDue(r, now); !t.IsZero() {
			earlier(t)
		}
	}
	return next
}

// scheduleContainerCheck sets the next check of containers to the first multiple
// of the interval, counted from the server's start, after now.
func (s *Server) scheduleContainerCheck(now time.Time) {
	interval := s.opt.containerCheck
	s.nextContainerCheck = s.started.Add((now.Sub(s.started)/interval + 1) * interval)
}

// reap deletes containers that have had children and have none any more, and
// childless znodes whose time to live has passed. It spares a container that
// never had a child, so that its creator has time to use it, unless the option
// NeverUsedInterval says otherwise. It collects all candidates before it deletes any
// (ContainerManager.getCandidates), so the parent of one waits for the next check.
func (s *Server) reap(now time.Time) {
	var candidates []string
	for path := range s.leader.tree.reapable {
		n := s.leader.tree.nodes[path]
		age := now.Sub(time.UnixMilli(n.mtime))
		due := n.creates > 0 || s.opt.neverUsed > 0 && age > s.opt.neverUsed
		if n.ttl > 0 {
			due = age.Milliseconds() > n.ttl
		}
		if n.children.len() == 0 && due {
			candidates = append(candidates, path)
		}
	}
	slices.Sort(candidates)
	for _, path := range candidates {
		s.zxid++
		s.commit(&txn{zxid: s.zxid, at: now, changes: []change{{op: jute.OpDelete, path: path}}})
	}
}
