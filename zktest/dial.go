package zktest

import (
	"context"
	"net"
	"time"
)

// inMemoryAddr is of a network that is for documentation only (RFC 5737): who
// forgets the dialer reaches nobody, and resolving it needs no name server.
const inMemoryAddr = "192.0.2.1:2181"

// Dial connects to the server, whatever the address says. Its shape is that of
// go-zookeeper's Dialer. A timeout of zero is none.
func (s *Server) Dial(network, addr string, timeout time.Duration) (net.Conn, error) {
	ctx := context.Background()
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	return s.DialContext(ctx, network, addr)
}

// DialContext connects to the server, whatever the address says. Without a
// socket the connection is one end of a net.Pipe, and nothing blocks.
func (s *Server) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	if s.listener != nil {
		return (&net.Dialer{}).DialContext(ctx, "tcp", s.addr)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	client, server := net.Pipe()
	if err := s.serveConn(server); err != nil {
		client.Close()
		server.Close()
		return nil, &net.OpError{Op: "dial", Net: "zktest", Err: err}
	}
	return client, nil
}

// accept takes connections until the listener is closed.
func (s *Server) acceptLoop() {
	defer s.wg.Done()
	for {
		nc, err := s.listener.Accept()
		if err != nil {
			select {
			case <-s.done:
				return
			case <-time.After(time.Millisecond): // out of file descriptors, or the client was gone
				continue
			}
		}
		if s.serveConn(nc) != nil {
			nc.Close()
		}
	}
}

// attach starts to serve a connection.
func (s *Server) serveConn(nc net.Conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	silent, err := s.opt.plan.onConnect()
	if err != nil {
		return err
	}
	c := newConn(s, nc)
	c.silent = silent
	s.conns[c] = struct{}{}
	s.counts.Connections++
	s.wg.Add(2)
	go c.readLoop()
	go c.out.sendLoop(c)
	return nil
}
