package harness

import (
	"context"
	"net"
	"slices"
	"sync"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// EditReplies returns a dialer whose connections pass what the server sends through
// edit, which returns the record to deliver instead. op is the name of the request's
// operation, "connect" or "event". Answers to pings and credentials are not edited.
func EditReplies(
	dial func(ctx context.Context, network, addr string) (net.Conn, error),
	edit func(op string, record []byte) []byte,
) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &editedConn{Conn: nc, edit: edit, ops: map[int32]string{}}, nil
	}
}

// editedConn is a connection of EditReplies.
type editedConn struct {
	net.Conn
	edit      func(op string, record []byte) []byte
	rest      []byte // of the frame that is being read
	connected bool   // the ConnectResponse has been read

	mu   sync.Mutex
	sent bool // the ConnectRequest has been sent
	ops  map[int32]string
}

func (c *editedConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	for rest := b; len(rest) > 4; {
		d := jute.NewDecoder(rest)
		n := 4 + int(d.Int32())
		if c.sent {
			xid, op := requestOf(rest[4:n])
			c.ops[xid] = op
		}
		c.sent, rest = true, rest[n:]
	}
	c.mu.Unlock()
	return c.Conn.Write(b)
}

func (c *editedConn) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		frame, err := jute.ReadFrame(c.Conn, 1<<30)
		if err != nil {
			return 0, err
		}
		c.rest = c.edited(frame)
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func (c *editedConn) edited(frame []byte) []byte {
	body := frame[4:]
	if !c.connected {
		c.connected = true
		return jute.Frame(c.edit("connect", body))
	}
	d := jute.NewDecoder(body)
	xid, _, code := d.Int32(), d.Int64(), d.Int32()
	c.mu.Lock()
	op := c.ops[xid]
	c.mu.Unlock()
	switch {
	case xid == jute.XidPing, xid == jute.XidAuth, code != 0:
		return frame
	case xid == jute.XidEvent:
		op = "event"
	}
	return jute.Frame(slices.Concat(body[:16], c.edit(op, slices.Clone(body[16:]))))
}
