package zkrecipes

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// parseServer returns host:port of what Dial was given: a host, an address, or
// either with a port. An IPv6 address with a port is in brackets.
func parseServer(server string) (string, error) {
	bad := fmt.Errorf("server %q is not host or host:port", server)
	if addr, err := netip.ParseAddr(strings.Trim(server, "[]")); err == nil {
		return net.JoinHostPort(addr.String(), defaultPort), nil
	}
	if !strings.Contains(server, ":") {
		server += ":" + defaultPort
	}
	host, port, err := net.SplitHostPort(server)
	if err != nil || host == "" || strings.ContainsAny(host, "/ ,") {
		return "", bad
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", bad
	}
	return net.JoinHostPort(host, port), nil
}

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
		select {
		case <-s.parked:
		default:
			close(s.parked)
		}
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
	if s.isForgotten(address) {
		if err := s.settle(ctx, network, address); err != nil {
			return nil, err
		}
	}
	nc, err := s.c.dialServer(ctx, network, address)
	if err != nil {
		s.mu.Lock()
		delete(s.snubbed, address)
		s.mu.Unlock()
		return nil, err
	}
	conn := s.wire.Wrap(nc, number)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hold.Err() != nil {
		nc.Close()
		return nil, errHeld
	}
	s.nc, s.number, s.server = conn, number, address
	return conn, nil
}

// isForgotten reports that this server has closed every connection in place of
// an answer for twice the session's timeout, and no other has answered. One that
// is not there does not count: when it comes back, it knows the session.
func (s *session) isForgotten(address string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	since, ok := s.snubbed[address]
	return ok && s.isKnown() && time.Since(since) > 2*s.wire.Timeout() && time.Now().After(s.wire.ValidUntil())
}

// settle finds out by handshakes of its own whether the session still exists.
// nil: it does, and this server takes it up. One that knows it, but not the
// zxid that we have seen, lost data: no connection could use the session, which
// is ended there, so that what it owns goes.
func (s *session) settle(ctx context.Context, network, address string) error {
	ask := func(seen, bury bool) (known bool, err error) {
		nc, err := s.c.dialServer(ctx, network, address)
		if err != nil {
			return false, err
		}
		defer nc.Close()
		defer context.AfterFunc(ctx, func() { nc.Close() })()
		known, err = s.wire.Probe(nc, seen)
		if known && bury {
			return false, s.wire.CloseSession(nc)
		}
		return known, err
	}
	known, err := ask(false, false)
	if err == nil && known { // so it serves; now what it says to what we have seen
		if known, err = ask(true, false); wire.IsRejected(err) {
			known, err = ask(false, true)
		}
	}
	if err == nil && !known {
		s.finish(zk.ErrSessionExpired)
		err = errHeld
	}
	return err
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

// dialServer makes a connection, with TLS if that is asked for. ctx's deadline,
// which it must have, is the connection's.
func (c *Client) dialServer(ctx context.Context, network, address string) (net.Conn, error) {
	nc, err := c.dialer(ctx, network, address)
	if err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline()
	if err := nc.SetDeadline(deadline); err != nil { // a silent server would stop everything
		nc.Close()
		return nil, fmt.Errorf("Options.Dialer made a connection without deadlines: %w", err)
	}
	if c.tls == nil {
		return nc, nil
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
