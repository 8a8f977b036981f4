package harness

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"sync"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// RequestCounter counts the requests of clients by operation. Use it for thousands of
// connections: with a Proxy there would be three times as many.
type RequestCounter struct {
	mu sync.Mutex
	by map[string]int
}

// Dial connects to addr. Use it as Options.Dialer.
func (r *RequestCounter) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, network, addr)
	return &counted{Conn: nc, r: r}, err
}

// Reset sets all counts to zero. Nothing is counted before its first call.
func (r *RequestCounter) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.by = map[string]int{}
}

// Count returns how often each operation was sent, without pings.
func (r *RequestCounter) Count() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	by := maps.Clone(r.by)
	delete(by, "ping")
	return by
}

type counted struct {
	net.Conn
	r         *RequestCounter
	connected bool // the handshake's request has no operation
}

func (c *counted) Write(b []byte) (int, error) {
	for in := bytes.NewReader(b); in.Len() > 0; {
		frame, err := jute.ReadFrame(in, len(b))
		if err != nil {
			return 0, fmt.Errorf("not a whole frame: %w", err)
		}
		if !c.connected {
			c.connected = true
			continue
		}
		_, op := RequestOf(frame[4:])
		c.r.mu.Lock()
		if c.r.by != nil {
			c.r.by[op]++
		}
		c.r.mu.Unlock()
	}
	return c.Conn.Write(b)
}
