package zktest

import "maps"

// Counts holds a server's counters since its start. Use Sub for the difference
// of two Counts.
type Counts struct {
	// Requests by operation, in ZooKeeper's names: create, getData, ping,
	// closeSession. A multi is listed with its operations, as in
	// "multi(create,setData)". A handshake is a "connect". Failed requests are
	// included.
	Requests map[string]int

	// Events sent to watchers, by type: NodeCreated, NodeDeleted,
	// NodeDataChanged, NodeChildrenChanged.
	Events map[string]int

	// Transactions applied: successful writes, sessions opened and closed, and
	// containers reaped.
	Transactions int

	// NewACLs counts how often an ACL became known: a znode got a list that no
	// other znode had at that time. A real server gives the list a number then, and
	// forgets it with the last znode that has it, so a list that comes and goes is
	// counted each time (ReferenceCountedACLCache). The ACL of /zookeeper/config is
	// the first. Server.ACLs returns how many are known now.
	NewACLs int

	Connections       int   // accepted
	BytesIn, BytesOut int64 // of requests and of replies, with their length prefixes
}

// packets counts requests and replies with their handshakes, events and
// four-letter words, for the reports of the latter.
type packets struct{ received, sent int }

// countIn counts requests from a client. The caller holds the server's mu.
func (c *conn) countIn(requests, bytes int) {
	c.server.counts.BytesIn += int64(bytes)
	c.server.packets.received += requests
	c.packets.received += requests
}

// countOut counts a frame to a client, unless it was discarded and has no bytes.
// The caller holds the server's mu.
func (c *conn) countOut(bytes int) {
	if bytes > 0 {
		c.server.counts.BytesOut += int64(bytes)
		c.server.packets.sent++
		c.packets.sent++
	}
}

func newCounts() Counts { return Counts{Requests: map[string]int{}, Events: map[string]int{}} }

// Counts returns a copy of the current counters.
func (s *Server) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts
	c.NewACLs = s.leader.tree.acls.given
	c.Requests, c.Events = maps.Clone(c.Requests), maps.Clone(c.Events)
	return c
}

// Sub returns the difference c - earlier. Operations and events whose count did
// not change are left out.
func (c Counts) Sub(earlier Counts) Counts {
	c.Requests = subtract(c.Requests, earlier.Requests)
	c.Events = subtract(c.Events, earlier.Events)
	c.Transactions -= earlier.Transactions
	c.NewACLs -= earlier.NewACLs
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
