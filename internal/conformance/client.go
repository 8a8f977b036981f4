package conformance

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
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
	conn, err := s.dial()
	s.Fail(err, "dial")
	c := &Client{s: s, name: name, conn: conn, sent: map[int32]Request{}}
	s.clients = append(s.clients, c)
	return c
}

func (s *Script) dial() (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), frameTimeout)
	defer cancel()
	return s.server.Dial(ctx)
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

// readFrame reads a frame's body. If the server has closed the connection, it records
// that and returns false.
func (c *Client) readFrame() ([]byte, bool) {
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
	return bytes.ReplaceAll(r.Frame(xid), []byte(root), []byte(c.s.root))
}

// Call sends requests, each when the reply to the one before has come, and returns the last
// reply. That also has the events that came since the last request.
func (c *Client) Call(requests ...Request) (reply Reply) {
	c.s.t.Helper()
	for _, r := range requests {
		reply = c.awaitReply(c.Send(r))
	}
	return reply
}

// CallAs is like Call for one request with the given xid.
func (c *Client) CallAs(xid int32, r Request) Reply {
	c.s.t.Helper()
	c.SendAs(xid, r)
	return c.awaitReply(xid)
}

// Quietly is like Call, but records nothing.
func (c *Client) Quietly(requests ...Request) Reply {
	c.s.t.Helper()
	before := len(c.s.lines)
	reply := c.Call(requests...)
	c.s.lines = c.s.lines[:before]
	return reply
}

// Ok is like Call, but asserts that each request succeeds.
func (c *Client) Ok(requests ...Request) Reply {
	c.s.t.Helper()
	return c.Fails(0, requests...)
}

// Fails is like Call, but asserts that each request fails with the error code.
func (c *Client) Fails(code int32, requests ...Request) (reply Reply) {
	c.s.t.Helper()
	for _, r := range requests {
		reply = c.Call(r)
		got := errorName(reply.Failure)
		if reply.Closed {
			got = "closed"
		}
		c.s.Equal(errorName(code), got, r.Text)
	}
	return reply
}

// Multi sends a multi of the operations and asserts their results.
func (c *Client) Multi(results []int32, ops ...Request) Reply {
	c.s.t.Helper()
	reply := c.Call(Multi(ops...))
	c.s.Equal(results, reply.Results, "results")
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
	frame, ok := c.readFrame()
	if !ok {
		return Reply{Closed: true}
	}
	return c.decode(bytes.ReplaceAll(frame, []byte(c.s.root), []byte(root)))
}

// Drain sends a ping and reads everything up to its reply. That includes whatever
// the server has sent before, because the replies and events of a connection
// share one queue (FinalRequestProcessor).
func (c *Client) Drain() []Event {
	c.s.t.Helper()
	return c.CallAs(jute.XidPing, Ping()).Events
}

// Gets drains the connection, and asserts that the server has sent these events.
func (c *Client) Gets(claim string, events ...Event) {
	c.s.t.Helper()
	c.s.Equal(events, c.Drain(), claim)
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

// GetsNothingFor asserts that the server sends nothing for d, and keeps the connection open.
func (c *Client) GetsNothingFor(d time.Duration) {
	c.s.t.Helper()
	c.conn.SetReadDeadline(time.Now().Add(d))
	_, err := c.conn.Read(make([]byte, 1))
	c.s.Equal(true, errors.Is(err, os.ErrDeadlineExceeded), "nothing comes")
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
	return strings.ReplaceAll(string(answer), s.root, root)
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
		var err error
		if conn, err = c.s.dial(); err != nil {
			return
		}
		defer conn.Close()
		requests = c.resumption().Frame()
	}
	requests = append(requests, Close().Frame(0)...)
	conn.SetDeadline(time.Now().Add(frameTimeout))
	conn.Write(requests)
	io.Copy(io.Discard, conn) // until the server closes the connection
}
