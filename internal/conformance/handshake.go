package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// A Hello is a ConnectRequest.
type Hello struct {
	ID           int64
	Password     []byte // nil: 16 zeros, as clients send for a new session
	Timeout      int32  // milliseconds
	LastZxidSeen int64
	Version      int32
	ReadOnly     []byte // the bytes after the password: none, or one
}

// Connect opens a session with the longest timeout the server gives. The first
// one of a script makes its root.
func (s *Script) Connect(name string) *Client {
	s.t.Helper()
	return s.ConnectFor(name, 1<<30)
}

// ConnectFor is Connect with a timeout in milliseconds.
func (s *Script) ConnectFor(name string, timeout int32) *Client {
	s.t.Helper()
	c := s.Dial(name)
	first := len(s.clients) == 1
	c.hello(Hello{Timeout: timeout, ReadOnly: []byte{0}})
	if c.ID == 0 {
		s.Fail(errors.New("no session"), "connect")
	}
	if first {
		c.Quietly(Create(s.root, nil, Open, 0))
		c.xid = 0
	}
	return c
}

// Resume connects again, as another Client with the session of c.
func (s *Script) Resume(name string, c *Client) *Client {
	s.t.Helper()
	again := s.Dial(name)
	again.Hello(Hello{ID: c.ID, Password: c.Password, Timeout: int32(c.Timeout.Milliseconds()), ReadOnly: []byte{0}})
	return again
}

// Hello sends a ConnectRequest, and records what is answered.
func (c *Client) Hello(h Hello) bool {
	c.s.t.Helper()
	from := "new session"
	if h.ID != 0 {
		from = "session of " + c.s.owner(h.ID)
	}
	seen := ""
	if h.LastZxidSeen != 0 {
		seen = " lastZxidSeen=" + c.s.zxid(h.LastZxidSeen)
	}
	c.s.Note("%s > connect: %s, timeout %d, version %d, password of %d bytes%s, readOnly % x",
		c.name, from, h.Timeout, h.Version, len(h.Password), seen, h.ReadOnly)
	answer, ok := c.hello(h)
	if ok {
		c.s.Note("%s < %s", c.name, answer)
	}
	return ok
}

// hello returns the ConnectResponse, described.
func (c *Client) hello(h Hello) (answer string, ok bool) {
	c.s.t.Helper()
	if h.Password == nil {
		h.Password = make([]byte, 16)
	}
	b := jute.AppendInt32(nil, h.Version)
	b = jute.AppendInt64(b, h.LastZxidSeen)
	b = jute.AppendInt32(b, h.Timeout)
	b = jute.AppendInt64(b, h.ID)
	b = jute.AppendBuffer(b, h.Password)
	c.Raw(jute.Frame(append(b, h.ReadOnly...)))
	frame, ok := c.frame()
	if !ok {
		return "", false
	}
	d := jute.NewDecoder(frame)
	version, timeout, id, password := d.Int32(), d.Int32(), d.Int64(), d.Buffer()
	rest := d.Len()
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
		c.s.owner(id), ticks, version, len(password), kind, rest), true
}
