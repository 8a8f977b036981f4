package zktest

import (
	"context"
	"net"
	"time"
)

// Dial connects to the server and ignores the address. It has the signature of
// go-zookeeper's Dialer. Zero means no timeout.
func (s *Server) Dial(network, addr string, timeout time.Duration) (net.Conn, error) {
	ctx := context.Background()
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	return s.DialContext(ctx, network, addr)
}

// DialContext connects to the server and ignores the address. For a server in
// memory the connection is one end of a net.Pipe, and DialContext does not
// block.
func (s *Server) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	if !s.opt.inMemory {
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

// acceptLoop accepts connections until the run is over.
func (s *Server) acceptLoop(r *run) {
	defer r.wg.Done()
	for {
		nc, err := r.listener.Accept()
		if err != nil {
			select {
			case <-r.over:
				return
			case <-time.After(time.Millisecond): // out of file descriptors, or the client hung up
				continue
			}
		}
		if s.serveConn(nc) != nil {
			nc.Close()
		}
	}
}

// serveConn starts the goroutines that serve nc.
func (s *Server) serveConn(nc net.Conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errClosed
	case s.run.isOver():
		return errStopped
	case s.opt.inMemory && time.Now().Before(s.started):
		return errOutside // the time of a bubble begins in 2000, so each session would expire at once
	}
	silent, err := s.opt.plan.onConnect()
	if err != nil {
		return err
	}
	c := newConn(s, nc)
	c.silent = silent
	s.conns[c] = struct{}{}
	s.counts.Connections++
	c.run.wg.Add(2)
	go c.readLoop()
	go c.out.sendLoop(c)
	return nil
}
