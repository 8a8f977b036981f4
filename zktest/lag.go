package zktest

import "time"

// lag is how far a connection's replica may be behind: as long as what it has
// not applied is no more than so many transactions, and none of them is older.
type lag struct {
	behind int
	atMost time.Duration
}

// lag gives a connection a replica of its own that is behind the leader, as if
// it were on a follower to which not everything has come yet.
func (s *Server) lag(c *conn, l lag, now time.Time) {
	r := newReplica(s)
	r.lag = l
	c.replica = r
	s.lagging[r] = c
	s.feed(r, now)
}

// feed applies what a replica may not be without any longer, and returns when
// it is to be fed again, or zero.
func (s *Server) feed(r *replica, now time.Time) time.Time {
	for r.done < len(s.log) {
		t := s.log[r.done]
		if due := t.at.Add(r.lag.atMost); len(s.log)-r.done <= r.lag.behind && now.Before(due) {
			s.wakeBefore(due)
			return due
		}
		r.next(t)
	}
	return time.Time{}
}

// catchUp makes a replica hear of everything, as sync does and every write of
// its own.
func (s *Server) catchUp(r *replica) {
	if r == s.leader {
		return
	}
	for r.done < len(s.log) {
		r.next(s.log[r.done])
	}
}

func (r *replica) next(t *txn) {
	r.done++
	r.apply(t, nil)
}
