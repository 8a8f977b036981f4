package harness

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// Link connects clients to a zktest server. It can be stopped, as if the client's
// process was suspended: the client reads nothing, what it writes is discarded, and
// no deadline passes. Once the link is resumed, the client reads what the server has
// sent meanwhile.
type Link struct {
	dial func(ctx context.Context, network, addr string) (net.Conn, error)

	mu    sync.Mutex
	still bool
	deaf  bool // what the server sends is discarded, except for the end of a connection
	turn  sync.Cond
}

// NewLink returns a link to a server.
func NewLink(srv *zktest.Server) *Link {
	s := &Link{dial: srv.DialContext}
	s.turn.L = &s.mu
	return s
}

// Stop stops the link.
func (s *Link) Stop() { s.set(true, false) }

// Lose stops the link and discards what the server sends from now on.
func (s *Link) Lose() { s.set(true, true) }

// Resume ends a Stop or a Lose.
func (s *Link) Resume() { s.set(false, false) }

func (s *Link) set(still, deaf bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.still, s.deaf = still, deaf
	s.turn.Broadcast()
}

// Dial connects to the server. Use it as Options.Dialer.
func (s *Link) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	nc, err := s.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &stalled{Conn: nc, s: s}
	go c.receive()
	return c, nil
}

// stalled is a connection over a Link.
type stalled struct {
	net.Conn
	s      *Link
	buf    []byte
	err    error // follows what is in buf
	closed bool
}

func (c *stalled) receive() {
	for {
		b := make([]byte, 4096)
		n, err := c.Conn.Read(b)
		c.s.mu.Lock()
		if !c.s.deaf {
			c.buf = append(c.buf, b[:n]...)
		}
		c.err = err
		c.s.turn.Broadcast()
		c.s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (c *stalled) Read(p []byte) (int, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	for !c.closed && (c.s.still || len(c.buf) == 0 && c.err == nil) {
		c.s.turn.Wait()
	}
	switch {
	case c.closed:
		return 0, net.ErrClosed
	case len(c.buf) == 0:
		return 0, c.err
	}
	n := copy(p, c.buf)
	c.buf = c.buf[n:]
	return n, nil
}

func (c *stalled) Write(p []byte) (int, error) {
	c.s.mu.Lock()
	still := c.s.still
	c.s.mu.Unlock()
	if still {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c *stalled) Close() error {
	c.s.mu.Lock()
	c.closed = true
	c.s.turn.Broadcast()
	c.s.mu.Unlock()
	return c.Conn.Close()
}

func (c *stalled) SetDeadline(time.Time) error { return nil }

func (c *stalled) SetReadDeadline(time.Time) error { return nil }
