package zkconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/wire"
)

var errStopped = errors.New("session has ended")

// dial is go-zookeeper's dialer. go-zookeeper calls it in a loop, and again at once
// when it fails, so the pace is made here, and the server chosen.
func (s *Session) dial(_, _ string, _ time.Duration) (net.Conn, error) {
	select {
	case <-time.After(s.pace()):
	case <-s.dialing.Done():
	}
	if s.dialing.Err() != nil {
		if !isClosed(s.parked) {
			close(s.parked)
		}
		<-s.releaseLoop // Z1: a new connection would open another session
		return nil, errStopped
	}
	server, err := s.nextServer()
	if err != nil {
		s.mu.Lock()
		s.lastErr = err
		s.mu.Unlock()
		return nil, err
	}
	conn, err := s.connect(server)
	if err != nil {
		err = fmt.Errorf("%s: %w", server, err)
		s.mu.Lock()
		s.lastErr = err
		s.mu.Unlock()
		if !s.IsOver() {
			s.cfg.Failed(server.String(), err)
		}
		s.endIfRefused(err)
		return nil, err
	}
	return conn, nil
}

// attempt returns the context of one attempt to connect, or to learn of a first server.
func (s *Session) attempt() (context.Context, context.CancelFunc) {
	return context.WithTimeout(s.dialing, s.budget())
}

// budget returns how long an attempt may take.
func (s *Session) budget() time.Duration {
	budget := wire.HandshakeBudget(s.Timeout())
	if !s.IsEstablished() { // nothing expires yet, and the server may grant far more
		budget = max(budget, time.Second/2)
	}
	return budget
}

func (s *Session) connect(server Server) (net.Conn, error) {
	number := s.wire.Attempt()
	if hopeless, answers := s.isHopeless(server); hopeless {
		if err := s.resolve(server, answers); err != nil {
			return nil, err
		}
	}
	ctx, cancel := s.attempt()
	defer cancel()
	login, err := s.cfg.SASL.begin(ctx, server)
	if err != nil {
		s.noteNoContact(server)
		return nil, err
	}
	nc, err := s.dialServer(ctx, server)
	if err != nil {
		s.noteNoContact(server)
		return nil, err
	}
	conn := s.wire.Wrap(nc, number, login)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dialing.Err() != nil { // Z7
		nc.Close()
		return nil, errStopped
	}
	s.nc, s.number, s.server, s.ncSince = conn, number, server, time.Now()
	s.leaveDials(false) // to other servers
	return conn, nil
}

// maxBurst bounds the attempts in a row. A name may have any number of addresses.
const maxBurst = 5

// pace returns how long to wait before the next attempt: not at all for each server's
// first, longer with every round, and a moment where a connection was accepted but did not
// last. With more servers than maxBurst, each burst counts as a round. The names are looked
// up again once all servers were tried.
func (s *Session) pace() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, servers := s.failures, max(len(s.order), 1)
	s.failures++
	if n%servers == 0 {
		s.cfg.Servers.Refresh()
	}
	round, in := n/min(servers, maxBurst), n%min(servers, maxBurst)
	switch {
	case n == 0 && time.Since(s.upSince) < time.Second:
		return 20 * time.Millisecond
	case round == 0, in != 0:
		return 0
	}
	d := min(50*time.Millisecond<<min(round-1, 10), s.longPause())
	return d/2 + rand.N(d/2+1)
}

// longPause bounds pace. A connection that has served for as long has lasted.
func (s *Session) longPause() time.Duration { return min(s.Timeout()/10, time.Second) }

// dialServer makes a connection, with TLS if configured. ctx must have a deadline,
// which becomes the connection's.
func (s *Session) dialServer(ctx context.Context, server Server) (net.Conn, error) {
	nc, err := s.dialNet(ctx, server.Address)
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
		config.ServerName, _, _ = net.SplitHostPort(server.Name)
	}
	tc := tls.Client(nc, config)
	if err := tc.HandshakeContext(ctx); err != nil {
		nc.Close()
		return nil, fmt.Errorf("TLS: %w", withoutTLS(err))
	}
	return tc, nil
}

// withoutTLS adds to the error of a TLS handshake that the server may not speak TLS.
func withoutTLS(err error) error {
	var other tls.RecordHeaderError
	switch {
	case errors.As(err, &other):
		return fmt.Errorf("%w: the server does not speak TLS", err)
	case wire.IsRejected(err):
		return fmt.Errorf("%w: the server closed the connection: does it speak TLS on this port?", err)
	}
	return err
}
