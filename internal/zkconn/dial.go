package zkconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

var errStopped = errors.New("session has ended")

// dial is go-zookeeper's dialer. go-zookeeper calls it in a loop, and again at once
// when it fails, so the pace is made here.
func (s *Session) dial(network, address string, _ time.Duration) (net.Conn, error) {
	select {
	case <-time.After(s.pace()):
	case <-s.dialing.Done():
	}
	if s.dialing.Err() != nil {
		if !isClosed(s.parked) {
			close(s.parked)
		}
		<-s.releaseLoop // a new connection would open another session
		return nil, errStopped
	}
	conn, err := s.connect(network, address)
	if err != nil {
		err = fmt.Errorf("%s: %w", address, err)
		s.mu.Lock()
		s.lastErr = err
		s.mu.Unlock()
		s.cfg.Log(slog.LevelDebug, "cannot connect", "server", address, "err", err)
		return nil, err
	}
	return conn, nil
}

func (s *Session) connect(network, address string) (net.Conn, error) {
	number := s.wire.Attempt()
	deadline := time.Now().Add(wire.HandshakeBudget(s.Timeout()))
	ctx, cancel := context.WithDeadline(s.dialing, deadline)
	defer cancel()
	if s.isForgotten(address) {
		if err := s.resolve(ctx, network, address); err != nil {
			return nil, err
		}
	}
	nc, err := s.dialServer(ctx, network, address)
	if err != nil {
		s.mu.Lock()
		delete(s.rejectedSince, address)
		s.mu.Unlock()
		return nil, err
	}
	conn := s.wire.Wrap(nc, number)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dialing.Err() != nil {
		nc.Close()
		return nil, errStopped
	}
	s.nc, s.number, s.server = conn, number, address
	return conn, nil
}

// isForgotten reports whether this server has closed every connection in place of
// an answer for twice the session's timeout, and no other has answered. A server
// that is down does not count: when it comes back, it knows the session.
func (s *Session) isForgotten(address string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	since, ok := s.rejectedSince[address]
	return ok && s.IsEstablished() && time.Since(since) > 2*s.Timeout() && time.Now().After(s.ValidUntil())
}

// resolve finds out by handshakes of its own whether the session still exists. It
// returns nil if so, and if this server accepts it. A server that knows the session
// but not the zxid that the client has seen has lost data. No connection could use
// the session then, so it is ended there, and the servers delete what it owns.
func (s *Session) resolve(ctx context.Context, network, address string) error {
	ask := func(seen, end bool) (known bool, err error) {
		nc, err := s.dialServer(ctx, network, address)
		if err != nil {
			return false, err
		}
		defer nc.Close()
		defer context.AfterFunc(ctx, func() { nc.Close() })()
		known, err = s.wire.Probe(nc, seen)
		if known && end {
			return false, s.wire.CloseSession(nc)
		}
		return known, err
	}
	known, err := ask(false, false)
	if err == nil && known { // the server serves; now with the zxid that was seen
		if known, err = ask(true, false); wire.IsRejected(err) {
			known, err = ask(false, true)
		}
	}
	if err == nil && !known {
		s.finish(zk.ErrSessionExpired)
		err = errStopped
	}
	return err
}

// pace returns how long to wait before the next attempt: not at all for each
// server's first, longer with every round, and a moment where a connection was
// accepted but did not last.
func (s *Session) pace() time.Duration {
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
	d := min(50*time.Millisecond<<min(n/len(s.hosts.list)-1, 10), s.Timeout()/10, time.Second)
	return d/2 + rand.N(d/2+1)
}

// dialServer makes a connection, with TLS if configured. ctx must have a deadline,
// which becomes the connection's.
func (s *Session) dialServer(ctx context.Context, network, address string) (net.Conn, error) {
	nc, err := s.cfg.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline()
	if err := nc.SetDeadline(deadline); err != nil { // a silent server would stop everything
		nc.Close()
		return nil, fmt.Errorf("the dialer made a connection without deadlines: %w", err)
	}
	if s.cfg.TLS == nil {
		return nc, nil
	}
	config := s.cfg.TLS.Clone()
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
