package zktest

import "maps"

// Counts is what a server has counted since its start. Two of them can be
// subtracted.
type Counts struct {
	// Requests by operation, as ZooKeeper names them: create, getData, ping,
	// closeSession; a multi with its operations, as in "multi(create,setData)".
	// A handshake is a "connect". Requests that fail count too.
	Requests map[string]int

	// Events sent to watchers, by type: NodeCreated, NodeDeleted,
	// NodeDataChanged, NodeChildrenChanged.
	Events map[string]int

	// Transactions applied: writes that did not fail, beginnings and ends of
	// sessions, and containers that were reaped.
	Transactions int

	Connections       int   // that were accepted
	BytesIn, BytesOut int64 // of requests and of answers, lengths included
}

func newCounts() Counts { return Counts{Requests: map[string]int{}, Events: map[string]int{}} }

// Counts returns what has been counted so far.
func (s *Server) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts
	c.Requests, c.Events = maps.Clone(c.Requests), maps.Clone(c.Events)
	return c
}

// Requests returns how often each operation was asked for, as in Counts.
func (s *Server) Requests() map[string]int { return s.Counts().Requests }

// Events returns how many events of each type were sent, as in Counts.
func (s *Server) Events() map[string]int { return s.Counts().Events }

// Sub returns what was counted between earlier and c. Operations and events
// that did not occur are left out.
func (c Counts) Sub(earlier Counts) Counts {
	c.Requests = subtract(c.Requests, earlier.Requests)
	c.Events = subtract(c.Events, earlier.Events)
	c.Transactions -= earlier.Transactions
	c.Connections -= earlier.Connections
	c.BytesIn -= earlier.BytesIn
	c.BytesOut -= earlier.BytesOut
	return c
}

func subtract(a, b map[string]int) map[string]int {
	d := map[string]int{}
	for name, n := range a {
		if n -= b[name]; n != 0 {
			d[name] = n
		}
	}
	return d
}
