package conformance

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// frameTimeout bounds the wait for an expected frame.
const frameTimeout = time.Minute

// A Client is one raw connection and the session on it. It sends nothing on its
// own, retries nothing, and takes frames in the order in which they come. To
// reconnect, a case uses another Client with the same ID and Password.
type Client struct {
	s    *Script
	name string
	conn net.Conn
	xid  int32
	sent map[int32]Request // awaiting their replies
	dead bool              // the server has closed the connection
	over bool              // the session has ended

	ID       int64
	Password []byte
	Timeout  time.Duration // negotiated
}

// Dial opens a connection and sends nothing.
func (s *Script) Dial(name string) *Client {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), frameTimeout)
	defer cancel()
	conn, err := s.server.Dial(ctx)
	s.Fail(err, "dial")
	c := &Client{s: s, name: name, conn: conn, sent: map[int32]Request{}}
	s.clients = append(s.clients, c)
	return c
}

// Raw sends bytes as they are.
func (c *Client) Raw(b []byte) {
	c.s.t.Helper()
	if c.dead {
		return
	}
	c.conn.SetWriteDeadline(time.Now().Add(frameTimeout))
	// Ignore the error. If the server closes the connection instead of reading,
	// the next read reports it.
	c.conn.Write(b)
}

// frame reads a frame's body. If the server has closed the connection, it records
// that and returns false.
func (c *Client) frame() ([]byte, bool) {
	c.s.t.Helper()
	if c.dead {
		return nil, false
	}
	c.conn.SetReadDeadline(time.Now().Add(frameTimeout))
	frame, err := jute.ReadFrame(c.conn, 16<<20)
	switch {
	case err == nil:
		return frame[4:], true
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.s.Note("%s < nothing", c.name)
		c.s.Fail(err, "expected a frame")
	}
	c.dead = true
	c.s.Note("%s < closed", c.name)
	return nil, false
}

// Send sends a request with the next xid, and returns the xid.
func (c *Client) Send(r Request) int32 {
	c.s.t.Helper()
	c.xid++
	c.SendAs(c.xid, r)
	return c.xid
}

// SendTogether sends several requests in one write, so that the server gets all of
// them before it serves the first.
func (c *Client) SendTogether(requests ...Request) {
	c.s.t.Helper()
	var b []byte
	for _, r := range requests {
		c.xid++
		b = append(b, c.frameOf(c.xid, r)...)
	}
	c.Raw(b)
}

// SendAs is like Send, but with the given xid.
func (c *Client) SendAs(xid int32, r Request) {
	c.s.t.Helper()
	c.Raw(c.frameOf(xid, r))
}

// frameOf returns the frame of a request and records the request.
func (c *Client) frameOf(xid int32, r Request) []byte {
	if xid == jute.XidPing || xid == jute.XidAuth {
		c.s.Note("%s > %s", c.name, r.Text)
	} else {
		c.s.Note("%s > %d %s", c.name, xid, r.Text)
	}
	c.sent[xid] = r
	return r.frame(xid)
}

// Call sends a request and reads until its reply has come. The Reply also has the
// events that came before it.
func (c *Client) Call(r Request) Reply {
	c.s.t.Helper()
	return c.awaitReply(c.Send(r))
}

// CallAs is like Call, but with the given xid.
func (c *Client) CallAs(xid int32, r Request) Reply {
	c.s.t.Helper()
	c.SendAs(xid, r)
	return c.awaitReply(xid)
}

// Quietly is like Call, but records nothing.
func (c *Client) Quietly(r Request) Reply {
	c.s.t.Helper()
	before := len(c.s.lines)
	reply := c.Call(r)
	c.s.lines = c.s.lines[:before]
	return reply
}

// Ok is like Call, but asserts that the request succeeds.
func (c *Client) Ok(r Request) Reply {
	c.s.t.Helper()
	return c.Fails(0, r)
}

// Fails is like Call, but asserts that the request fails with the error code. The
// error of an operation of a multi counts too, although the header of the reply
// has none.
func (c *Client) Fails(code int32, r Request) Reply {
	c.s.t.Helper()
	reply := c.Call(r)
	got := reply.Err
	for _, result := range reply.Results {
		if got == 0 || got == jute.ErrRuntimeInconsistency {
			got = result
		}
	}
	if reply.Closed {
		c.s.Equal("a reply", "closed", r.Text)
	} else if r.Op == jute.OpMultiRead {
		c.s.Equal(errorName(code), errorName(reply.Err), r.Text)
	} else {
		c.s.Equal(errorName(code), errorName(got), r.Text)
	}
	return reply
}

func (c *Client) awaitReply(xid int32) Reply {
	c.s.t.Helper()
	var events []Event
	for {
		reply := c.Receive()
		events = append(events, reply.Events...)
		if reply.Closed || reply.Xid == xid && !reply.isEvent {
			reply.Events = events
			return reply
		}
	}
}

// Receive reads one frame and records it.
func (c *Client) Receive() Reply {
	c.s.t.Helper()
	frame, ok := c.frame()
	if !ok {
		return Reply{Closed: true}
	}
	return c.decode(frame)
}

// Drain sends a ping and reads everything up to its reply. That includes whatever
// the server has sent before, because the replies and events of a connection
// share one queue (FinalRequestProcessor).
func (c *Client) Drain() []Event {
	c.s.t.Helper()
	return c.CallAs(jute.XidPing, Ping()).Events
}

// Try sends a request to which no reply may come, and drains the connection.
func (c *Client) Try(r Request) {
	c.s.t.Helper()
	c.Send(r)
	c.Drain()
}

// Closed reads until the server closes the connection.
func (c *Client) Closed() {
	c.s.t.Helper()
	for !c.Receive().Closed {
	}
}

// ClosedRefusing is like Closed, but the server may refuse requests with the error code
// before. That is not recorded.
func (c *Client) ClosedRefusing(code int32) {
	c.s.t.Helper()
	before := len(c.s.lines)
	for r := c.Receive(); !r.Closed; r = c.Receive() {
		c.s.Equal(errorName(code), errorName(r.Err), "what comes before the end")
	}
	c.s.lines = append(c.s.lines[:before], c.s.lines[len(c.s.lines)-1])
}

// Drop closes the connection but not the session.
func (c *Client) Drop() {
	c.s.Note("%s drops the connection", c.name)
	c.dead = true
	c.conn.Close()
}

// End closes the session with a request, and then the connection.
func (c *Client) End() {
	c.s.t.Helper()
	c.Call(Close())
	c.over = true
	if !c.dead {
		c.Closed()
	}
	c.conn.Close()
}

// FourLetterWord sends one of ZooKeeper's four-letter words on a new connection
// and returns the answer.
func (s *Script) FourLetterWord(word string) string {
	s.t.Helper()
	c := s.Dial(word)
	c.Raw([]byte(word))
	c.conn.SetReadDeadline(time.Now().Add(frameTimeout))
	answer, err := io.ReadAll(c.conn)
	s.Fail(err, word)
	c.dead = true
	return string(answer)
}

// closeSession closes the session, on a new connection if necessary. It records
// nothing.
func (c *Client) closeSession() {
	defer c.conn.Close()
	if c.ID == 0 || c.over {
		return
	}
	conn, requests := c.conn, []byte(nil)
	if c.dead {
		ctx, cancel := context.WithTimeout(context.Background(), frameTimeout)
		defer cancel()
		var err error
		if conn, err = c.s.server.Dial(ctx); err != nil {
			return
		}
		defer conn.Close()
		requests = ConnectRequest{ID: c.ID, Password: c.Password, Timeout: int32(c.Timeout.Milliseconds()), ReadOnly: []byte{0}}.frame()
	}
	requests = append(requests, Close().frame(0)...)
	conn.SetDeadline(time.Now().Add(frameTimeout))
	conn.Write(requests)
	io.Copy(io.Discard, conn) // until the server closes the connection
}
