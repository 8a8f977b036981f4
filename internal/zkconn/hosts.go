package zkconn

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
)

// hosts is the order in which a session tries the servers.
type hosts struct {
	servers *Servers

	mu   sync.Mutex
	list []Server // the next one first
}

// next returns the server for the next attempt: all in turn, from a random one on. What a
// lookup has found since the last call comes first, as it may have replaced a server that
// does not answer any more. next waits for the first lookup, until ctx ends.
func (h *hosts) next(ctx context.Context) (Server, error) {
	known, err := h.servers.Await(ctx)
	if err != nil {
		return Server{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	fresh := slices.DeleteFunc(slices.Clone(known), func(s Server) bool { return slices.Contains(h.list, s) })
	rand.Shuffle(len(fresh), func(i, j int) { fresh[i], fresh[j] = fresh[j], fresh[i] })
	kept := slices.DeleteFunc(h.list, func(s Server) bool { return !slices.Contains(known, s) })
	list := slices.Concat(fresh, kept)
	h.list = append(list[1:], list[0])
	return list[0], nil
}

// len returns the number of servers, at least 1.
func (h *hosts) len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(len(h.list), 1)
}

// provider is go-zookeeper's host provider. It names no server: the dialer chooses one.
type provider struct{ releaseLoop <-chan struct{} }

// Init does nothing.
func (provider) Init([]string) error { return nil }

// Len returns the number of servers that Next returns.
func (provider) Len() int { return 1 }

// Next returns what go-zookeeper passes to the dialer. retryStart makes go-zookeeper drop
// what is queued and sleep for a second, so it is true only to end its loop.
func (p provider) Next() (server string, retryStart bool) {
	return "chosen by the dialer", isClosed(p.releaseLoop)
}

// Connected does nothing.
func (provider) Connected() {}
