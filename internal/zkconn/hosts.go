package zkconn

import (
	"math/rand/v2"
	"slices"
	"sync"
)

// hosts gives go-zookeeper the servers in a random order, unresolved: names are
// looked up for each attempt, so that TLS verifies them and a server that moved is
// found.
type hosts struct {
	releaseLoop <-chan struct{}

	mu   sync.Mutex
	list []string
	next int
}

func newHosts(servers []string) *hosts {
	h := &hosts{list: slices.Clone(servers)}
	rand.Shuffle(len(h.list), func(i, j int) { h.list[i], h.list[j] = h.list[j], h.list[i] })
	return h
}

// Init does nothing: the list is known.
func (h *hosts) Init([]string) error { return nil }

// Len returns the number of servers.
func (h *hosts) Len() int { return len(h.list) }

// Next returns the next server. retryStart makes go-zookeeper drop what is queued
// and sleep for a second, so it is true only to end its loop.
func (h *hosts) Next() (server string, retryStart bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	server = h.list[h.next]
	h.next = (h.next + 1) % len(h.list)
	return server, isClosed(h.releaseLoop)
}

// Connected does nothing.
func (h *hosts) Connected() {}
