package zktest

import "time"

// lag is how far a connection's replica may be behind: as long as what it has
// not applied is no more than so many transactions, and none of them is older.
type replicaLag struct {
	maxBehind int
	maxAge    time.Duration
}

// lag gives a connection a replica of its own that is behind the leader, as if
// it were on a follower to which not everything has come yet.
func (s *Server) startLagging(c *conn, l replicaLag, now time.Time) {
	r := newReplica(s)
	r.lag = l
	c.replica = r
	s.lagging[r] = c
	s.applyDue(r, now)
}

// feed applies what a replica may not be without any longer, and returns when
// it is to be fed again, or zero.
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

// catchUp makes a replica hear of everything, as sync does and every write of
// its own.
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
