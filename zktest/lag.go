package zktest

import "time"

// replicaLag limits how far a connection's replica may be behind the leader. A
// replica applies transactions as soon as it would exceed either limit.
type replicaLag struct {
	maxBehind int           // transactions not applied yet
	maxAge    time.Duration // of the oldest of them
}

// startLagging gives a connection a replica of its own that is behind the
// leader, as if the client were connected to a slow follower.
func (s *Server) startLagging(c *conn, l replicaLag, now time.Time) {
	r := newReplica(s)
	r.lag = l
	c.replica = r
	s.lagging[r] = c
	s.applyDue(r, now)
}

// applyDue applies the transactions that the replica's limits require. It
// returns when the next one is due, or zero if none is pending.
func (s *Server) applyDue(r *replica, now time.Time) time.Time {
	for r.applied < len(s.log) {
		t := s.log[r.applied]
		if due := t.at.Add(r.lag.maxAge); len(s.log)-r.applied <= r.lag.maxBehind && now.Before(due) {
			s.wakeBefore(due)
			return due
		}
		r.applyNext(t)
	}
	return time.Time{}
}

// catchUp applies all transactions to a replica, as a sync does and every write
// that comes through it.
func (s *Server) catchUp(r *replica) {
	if r == s.leader {
		return
	}
	for r.applied < len(s.log) {
		r.applyNext(s.log[r.applied])
	}
}

func (r *replica) applyNext(t *txn) {
	r.applied++
	r.apply(t, nil)
}
