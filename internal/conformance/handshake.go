package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// A ConnectRequest begins a handshake.
type ConnectRequest struct {
	ID           int64
	Password     []byte // nil: 16 zeros, which clients send for a new session
	Timeout      int32  // milliseconds
	LastZxidSeen int64
	Version      int32
	ReadOnly     []byte // the bytes after the password; nil: a zero, as most clients send
}

// Connect opens a session with the longest timeout that the server grants. The
// first call in a script creates its root.
func (s *Script) Connect(name string) *Client {
	s.t.Helper()
	return s.ConnectFor(name, 1<<30)
}

// ConnectFor is like Connect, with a timeout in milliseconds.
func (s *Script) ConnectFor(name string, timeout int32) *Client {
	s.t.Helper()
	c := s.Dial(name)
	first := len(s.clients) == 1
	c.handshake(ConnectRequest{Timeout: timeout})
	if c.ID == 0 {
		s.Fail(errors.New("no session"), "connect")
	}
	if first {
		c.Quietly(Plain(root))
		c.xid = 0
	}
	return c
}

// resumption returns the request that connects another Client to the session of c.
func (c *Client) resumption() ConnectRequest {
	return ConnectRequest{ID: c.ID, Password: c.Password, Timeout: int32(c.Timeout.Milliseconds())}
}

// Resume connects another Client to the session of c.
func (s *Script) Resume(name string, c *Client) *Client {
	s.t.Helper()
	return s.Handshake(name, c.resumption())
}

// HasEnded asserts that the session of c cannot be resumed.
func (s *Script) HasEnded(c *Client) {
	s.t.Helper()
	s.IsRefused(c.resumption())
}

// IsRefused asserts that the server resumes no session for a ConnectRequest.
func (s *Script) IsRefused(h ConnectRequest) {
	s.t.Helper()
	c := s.Handshake("refused", h)
	s.Equal(int64(0), c.ID, "no session")
	c.Closed()
}

// Handshake opens a connection, sends a ConnectRequest, and records it and the
// ConnectResponse. The Client is dead if the server closes the connection instead.
func (s *Script) Handshake(name string, h ConnectRequest) *Client {
	s.t.Helper()
	c := s.Dial(name)
	from := "new session"
	if h.ID != 0 {
		from = "session of " + s.owner(h.ID)
	}
	s.Note("%s > connect: %s, timeout %d, version %d, password of %d bytes, lastZxidSeen=%s, readOnly % x",
		name, from, h.Timeout, h.Version, len(h.Password), s.zxid(h.LastZxidSeen), h.ReadOnly)
	if answer, ok := c.handshake(h); ok {
		s.Note("%s < %s", name, answer)
	}
	return c
}

// Frame returns the frame of a ConnectRequest.
func (h ConnectRequest) Frame() []byte {
	if h.Password == nil {
		h.Password = make([]byte, 16)
	}
	if h.ReadOnly == nil {
		h.ReadOnly = []byte{0}
	}
	b := jute.AppendInt64(jute.AppendInt32(nil, h.Version), h.LastZxidSeen)
	b = jute.AppendInt64(jute.AppendInt32(b, h.Timeout), h.ID)
	return jute.Frame(append(jute.AppendBuffer(b, h.Password), h.ReadOnly...))
}

// handshake sends a ConnectRequest and describes the ConnectResponse.
func (c *Client) handshake(h ConnectRequest) (answer string, ok bool) {
	c.s.t.Helper()
	c.Raw(h.Frame())
	return c.connected()
}

// connected reads and describes a ConnectResponse.
func (c *Client) connected() (answer string, ok bool) {
	c.s.t.Helper()
	frame, ok := c.readFrame()
	if !ok {
		return "", false
	}
	d := jute.NewDecoder(frame)
	version, timeout, id, password := d.Int32(), d.Int32(), d.Int64(), d.Buffer()
	c.ID, c.Password, c.Timeout = id, bytes.Clone(password), time.Duration(timeout)*time.Millisecond
	if c.s.owners[id] == "" {
		c.s.owners[id] = c.name
	}
	kind := "a password"
	if len(bytes.Trim(password, "\x00")) == 0 {
		kind = "zeros"
	}
	ticks := float64(c.Timeout) / float64(c.s.server.TickTime)
	return fmt.Sprintf("connected: session of %s, timeout of %g ticks, version %d, %d bytes of %s, %d more",
		c.s.owner(id), ticks, version, len(password), kind, d.Len()), true
}
