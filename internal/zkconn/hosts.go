package zkconn

import (
	"math/rand/v2"
	"slices"
)

// nextServer returns the server for the next attempt: all in turn, from a random one on. What a
// lookup has found since the last call comes first, as it may have replaced a server that
// does not answer any more. It waits for the first lookup, for as long as for an attempt.
func (s *Session) nextServer() (Server, error) {
	ctx, cancel := s.attempt()
	defer cancel()
	known, err := s.cfg.Servers.Await(ctx)
	if err != nil {
		return Server{}, err
	}
	fresh := slices.DeleteFunc(slices.Clone(known), func(h Server) bool { return slices.Contains(s.order, h) })
	rand.Shuffle(len(fresh), func(i, j int) { fresh[i], fresh[j] = fresh[j], fresh[i] })
	kept := slices.DeleteFunc(s.order, func(h Server) bool { return !slices.Contains(known, h) })
	list := slices.Concat(fresh, kept)
	s.order = append(list[1:], list[0])
	return list[0], nil
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
