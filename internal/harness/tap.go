package harness

import (
	"context"
	"encoding/binary"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// Taps connects to one server, whatever the address, and records each connection and
// what was written to it.
type Taps struct {
	dial func(ctx context.Context, network, addr string) (net.Conn, error)

	mu    sync.Mutex
	taps  []*Tap
	addrs []string      // dialled
	thaw  chan struct{} // non-nil: dialling waits until it is closed
	// write, if not nil, is called before each frame is written. It may change the
	// frame, swallow it, or fail.
	write func(c *Tap, op string, frame []byte) (swallow bool, err error)
}

// Tap is a connection of Taps.
type Tap struct {
	net.Conn
	all    *Taps
	Number int // from 1

	Mu            sync.Mutex
	ops           []string
	LastSeen      int64         // the last zxid seen, from its ConnectRequest
	FirstDeadline time.Duration // until the deadline of the first SetReadDeadline
	LastRead      time.Time     // time of the last successful Read
	sent          time.Time     // of the last Write
	Answered      time.Time     // when the last Write before a Read was
	Bytes         int           // number of bytes read
	Closed        time.Time     // zero while open
}

// Dial connects to the server, whatever addr is. Use it as Options.Dialer.
func (a *Taps) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	a.mu.Lock()
	a.addrs = append(a.addrs, addr)
	thaw := a.thaw
	a.mu.Unlock()
	if thaw != nil {
		select {
		case <-thaw:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	nc, err := a.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &Tap{Conn: nc, all: a, Number: len(a.taps) + 1}
	a.taps = append(a.taps, c)
	return c, nil
}

// Hold makes Dial wait, as if the network was down.
func (a *Taps) Hold() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.thaw = make(chan struct{})
}

// Release ends a Hold.
func (a *Taps) Release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.thaw)
	a.thaw = nil
}

// Cut ends the connections of a client, which then dials in vain. When Cut returns,
// go-zookeeper has cleaned up after the old connection and queues new requests.
func (a *Taps) Cut(t testing.TB, p *Proxy) {
	t.Helper()
	n := len(a.Asked())
	a.Hold()
	p.Drop()
	Eventually(t, "dialling", func() bool { return len(a.Asked()) > n })
}

// OnWrite calls f before each frame is written. f may change the frame, swallow it, or
// fail.
func (a *Taps) OnWrite(f func(c *Tap, op string, frame []byte) (bool, error)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.write = f
}

// Asked returns the addresses that were dialled.
func (a *Taps) Asked() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.addrs)
}

// All returns all connections, the oldest first.
func (a *Taps) All() []*Tap {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.taps)
}

// Newest returns the newest connection.
func (a *Taps) Newest() *Tap {
	taps := a.All()
	return taps[len(taps)-1]
}

func (c *Tap) Write(b []byte) (int, error) {
	c.Mu.Lock()
	c.sent = time.Now()
	c.Mu.Unlock()
	for rest := b; len(rest) >= 12; {
		n := min(len(rest), 4+int(binary.BigEndian.Uint32(rest)))
		frame := rest[:n]
		rest = rest[n:]
		op := "connect"
		c.Mu.Lock()
		if len(c.ops) == 0 {
			c.LastSeen = int64(binary.BigEndian.Uint64(frame[8:]))
		} else {
			_, op = RequestOf(frame[4:])
		}
		c.ops = append(c.ops, op)
		c.Mu.Unlock()
		c.all.mu.Lock()
		write := c.all.write
		c.all.mu.Unlock()
		if write == nil {
			continue
		}
		if swallow, err := write(c, op, frame); err != nil {
			return 0, err
		} else if swallow {
			return len(b), nil
		}
	}
	return c.Conn.Write(b)
}

func (c *Tap) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.Bytes += n
	if err == nil {
		c.LastRead, c.Answered = time.Now(), c.sent
	}
	return n, err
}

func (c *Tap) SetReadDeadline(at time.Time) error {
	c.Mu.Lock()
	if c.FirstDeadline == 0 && !at.IsZero() {
		c.FirstDeadline = time.Until(at)
	}
	c.Mu.Unlock()
	return c.Conn.SetReadDeadline(at)
}

func (c *Tap) Close() error {
	c.Mu.Lock()
	if c.Closed.IsZero() {
		c.Closed = time.Now()
	}
	c.Mu.Unlock()
	return c.Conn.Close()
}

// Sent returns the operations that were written, in order.
func (c *Tap) Sent() []string {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return slices.Clone(c.ops)
}

// NewTaps returns Taps that connect to target.
func NewTaps(target string) *Taps {
	return NewTapsVia(func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, target)
	})
}

// NewTapsVia returns Taps that connect with dial.
func NewTapsVia(dial func(ctx context.Context, network, addr string) (net.Conn, error)) *Taps {
	return &Taps{dial: dial}
}

// DialTimeout is Dial for zk.WithDialer.
func (a *Taps) DialTimeout(network, addr string, _ time.Duration) (net.Conn, error) {
	return a.Dial(context.Background(), network, addr)
}
