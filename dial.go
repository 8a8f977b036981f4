package zkrecipes

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// hosts gives go-zookeeper the servers in a random order, unresolved: names
// are looked up for each attempt, so that TLS verifies them and a server that
// moved is found.
type hosts struct {
	letGo <-chan struct{}

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

// Next returns the next server. retryStart makes go-zookeeper drop what is
// queued and sleep for a second, so it is true only to end its loop.
func (h *hosts) Next() (server string, retryStart bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	server = h.list[h.next]
	h.next = (h.next + 1) % len(h.list)
	select {
	case <-h.letGo:
		retryStart = true
	default:
	}
	return server, retryStart
}

// Connected does nothing.
func (h *hosts) Connected() {}

var errHeld = errors.New("session has ended")

// dial is go-zookeeper's dialer. go-zookeeper calls it in a loop, at once
// again when it fails, so the pace is made here.
func (s *session) dial(network, address string, _ time.Duration) (net.Conn, error) {
	select {
	case <-time.After(s.pace()):
	case <-s.hold.Done():
	}
	if s.hold.Err() != nil {
		<-s.letGo // a connection would get another session
		return nil, errHeld
	}
	conn, err := s.attempt(network, address)
	if err != nil {
		err = fmt.Errorf("%s: %w", address, err)
		s.mu.Lock()
		s.lastErr = err
		s.mu.Unlock()
		s.c.hooks.log(slog.LevelDebug, "cannot connect", "server", address, "err", err)
		return nil, err
	}
	return conn, nil
}

func (s *session) attempt(network, address string) (net.Conn, error) {
	number := s.wire.Attempt()
	deadline := time.Now().Add(wire.HandshakeBudget(s.wire.Timeout()))
	ctx, cancel := context.WithDeadline(s.hold, deadline)
	defer cancel()
	nc, err := s.c.dialServer(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if s.isForgotten() {
		defer nc.Close()
		nc.SetDeadline(deadline)
		if err := s.wire.Settle(nc); err != nil {
			return nil, err
		}
		s.finish(zk.ErrSessionExpired)
		return nil, errHeld
	}
	conn := s.wire.Wrap(nc, number, deadline)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hold.Err() != nil {
		nc.Close()
		return nil, errHeld
	}
	s.nc, s.number = conn, number
	return conn, nil
}

// isForgotten reports that no server has taken the session up for twice its
// timeout.
func (s *session) isForgotten() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isKnown() && !s.downSince.IsZero() && time.Since(s.downSince) > 2*s.wire.Timeout()
}

// pace returns how long to wait before the next attempt: not at all for each
// server's first, then longer with every round; and a moment where a
// connection was accepted but did not last.
func (s *session) pace() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.failures
	s.failures++
	if n == 0 {
		if time.Since(s.upSince) < time.Second {
			return 20 * time.Millisecond
		}
		return 0
	}
	if n%len(s.hosts.list) != 0 {
		return 0
	}
	d := min(50*time.Millisecond<<min(n/len(s.hosts.list)-1, 10), s.wire.Timeout()/10, time.Second)
	return d/2 + rand.N(d/2+1)
}

// dialServer makes a connection, with TLS if that is asked for.
func (c *Client) dialServer(ctx context.Context, network, address string) (net.Conn, error) {
	nc, err := c.dialer(ctx, network, address)
	if err != nil || c.tls == nil {
		return nc, err
	}
	config := c.tls.Clone()
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(address)
	}
	tc := tls.Client(nc, config)
	if err := tc.HandshakeContext(ctx); err != nil {
		nc.Close()
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return tc, nil
}
