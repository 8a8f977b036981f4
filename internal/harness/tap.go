package harness

import (
	"context"
	"encoding/binary"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// Taps connects to one server, whatever the address, and records each connection and
// what was written to it.
type Taps struct {
	dial func(ctx context.Context, network, addr string) (net.Conn, error)

	mu    sync.Mutex
	taps  []*Tap
	addrs []string                                                        // dialled
	thaw  chan struct{}                                                   // non-nil: dialling waits until it is closed
	write func(c *Tap, op string, frame []byte) (swallow bool, err error) // see OnWrite
}

// Tap is a connection of Taps.
type Tap struct {
	net.Conn
	all    *Taps
	Number int // from 1

	Mu       sync.Mutex
	ops      []string
	sent     time.Time // of the last Write
	Answered time.Time // when the last Write before a Read was
	Bytes    int       // number of bytes read
	Closed   time.Time // zero while open
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

// OnWrite calls f before each frame is written. f may change the frame, swallow it, or
// fail. What was to be written together with a frame that is not, behind it, is lost, too.
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

// Count returns how often that operation was written, to any connection.
func (a *Taps) Count(op string) (n int) {
	for _, c := range a.All() {
		for _, sent := range c.Sent() {
			if sent == op {
				n++
			}
		}
	}
	return n
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
		before := b[:len(b)-len(rest)]
		n := min(len(rest), 4+int(binary.BigEndian.Uint32(rest)))
		frame := rest[:n]
		rest = rest[n:]
		op := "connect"
		c.Mu.Lock()
		if len(c.ops) > 0 {
			_, op = requestOf(frame[4:])
		}
		c.ops = append(c.ops, op)
		c.Mu.Unlock()
		c.all.mu.Lock()
		write := c.all.write
		c.all.mu.Unlock()
		if write == nil {
			continue
		}
		if swallow, err := write(c, op, frame); err != nil || swallow {
			if len(before) > 0 {
				c.Conn.Write(before)
			}
			return len(b), err
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
		c.Answered = c.sent
	}
	return n, err
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

// requestOf returns the xid and the operation in a frame's body.
func requestOf(body []byte) (xid int32, op string) {
	d := jute.NewDecoder(body)
	xid = d.Int32()
	code := d.Int32()
	op = jute.OpName(code)
	if code != jute.OpMulti {
		return xid, op
	}
	var parts []string
	for {
		code, done := d.Int32(), d.Bool()
		d.Int32()
		if done || d.Err != nil {
			return xid, op + "(" + strings.Join(parts, ",") + ")"
		}
		parts = append(parts, jute.OpName(code))
		_ = d.String() // path
		switch code {
		case jute.OpCreate, jute.OpCreateContainer:
			d.Buffer()
			for range d.Int32() {
				d.Int32()
				_ = d.String()
				_ = d.String()
			}
		case jute.OpSetData:
			d.Buffer()
		}
		d.Int32() // flags or version
	}
}
