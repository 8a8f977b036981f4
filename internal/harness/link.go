package harness

import (
	"context"
	"net"
	"os"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Link connects clients to a zktest server. It can be stopped, as if the client's
// process was suspended: the client reads nothing, what it writes is discarded, and
// no deadline passes. Once the link is resumed, the client reads what the server has
// sent meanwhile, even if its deadline has passed by then. With a latency, what the server
// sends arrives that much later.
type Link struct {
	dial func(ctx context.Context, network, addr string) (net.Conn, error)

	mu       sync.Mutex
	still    bool
	deaf     bool // what the server sends is discarded, except for the end of a connection
	turn     sync.Cond
	latency  time.Duration
	received int
	newest   *stalled
	told     int64 // events of Deliver
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

// SetLatency sets how long what the server sends is under way.
func (s *Link) SetLatency(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latency = d
}

// Received returns the number of bytes that the server has sent.
func (s *Link) Received() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.received
}

// Deliver makes an event reach the client of the newest connection, although nothing has happened. No
// frame may be on its way there.
func (s *Link) Deliver(event int32, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told++
	header := jute.AppendInt32(jute.AppendInt64(jute.AppendInt32(nil, jute.XidEvent), s.told), 0)
	const connected = 3
	record := jute.AppendString(jute.AppendInt32(jute.AppendInt32(header, event), connected), path)
	s.newest.buf = append(s.newest.buf, jute.Frame(record)...)
	s.turn.Broadcast()
}

func (s *Link) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn.Broadcast()
}

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
	c := &stalled{Conn: nc, s: s, underWay: make(chan chunk, 100), gone: make(chan struct{})}
	s.mu.Lock()
	s.newest = c
	s.mu.Unlock()
	go c.receive()
	go c.deliver()
	return c, nil
}

// stalled is a connection over a Link.
type stalled struct {
	net.Conn
	s        *Link
	underWay chan chunk
	buf      []byte
	err      error // follows what is in buf
	deadline time.Time
	late     *time.Timer // wakes Read at the deadline; nil: there was none
	closed   bool
	gone     chan struct{} // closed by Close
}

// chunk is what the server has sent, and the error that follows.
type chunk struct {
	b   []byte
	err error
	at  time.Time // when it arrives
}

func (c *stalled) receive() {
	defer close(c.underWay)
	for {
		b := make([]byte, 4096)
		n, err := c.Conn.Read(b)
		c.s.mu.Lock()
		c.s.received += n
		at := time.Now().Add(c.s.latency)
		c.s.mu.Unlock()
		c.underWay <- chunk{b[:n], err, at}
		if err != nil {
			return
		}
	}
}

func (c *stalled) deliver() {
	for k := range c.underWay {
		select {
		case <-time.After(time.Until(k.at)):
		case <-c.gone: // nobody reads it
		}
		c.s.mu.Lock()
		if !c.s.deaf {
			c.buf = append(c.buf, k.b...)
		}
		c.err = k.err
		c.s.turn.Broadcast()
		c.s.mu.Unlock()
	}
}

func (c *stalled) Read(p []byte) (int, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	for !c.closed && (c.s.still || len(c.buf) == 0 && c.err == nil && !c.isLate()) {
		c.s.turn.Wait()
	}
	switch {
	case c.closed:
		return 0, net.ErrClosed
	case len(c.buf) == 0 && c.err == nil:
		return 0, os.ErrDeadlineExceeded
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
	if !c.closed {
		c.closed = true
		close(c.gone)
	}
	c.s.turn.Broadcast()
	c.s.mu.Unlock()
	return c.Conn.Close()
}

// isLate reports whether the deadline of Read has passed.
func (c *stalled) isLate() bool { return !c.deadline.IsZero() && !time.Now().Before(c.deadline) }

func (c *stalled) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c *stalled) SetReadDeadline(t time.Time) error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.deadline = t
	if c.late != nil {
		c.late.Stop()
	}
	if !t.IsZero() {
		c.late = time.AfterFunc(time.Until(t), c.s.wake)
	}
	return nil
}
