package conformance

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// patience bounds the wait for a frame that has to come.
const patience = 10 * time.Second

// A Client is one connection and the session on it, as raw as can be: it adds
// nothing, retries nothing, and takes frames as they come. A case may reconnect
// with another Client that has this one's ID and Password.
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

// Dial opens a connection and says nothing.
func (s *Script) Dial(name string) *Client {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
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
	c.conn.SetWriteDeadline(time.Now().Add(patience))
	// What the server does not want to read it answers by closing, which the
	// next read reports.
	c.conn.Write(b)
}

// frame reads a frame's body. Not ok: the server has closed the connection,
// which is recorded.
func (c *Client) frame() ([]byte, bool) {
	c.s.t.Helper()
	if c.dead {
		return nil, false
	}
	c.conn.SetReadDeadline(time.Now().Add(patience))
	frame, err := jute.ReadFrame(c.conn, 16<<20)
	switch {
	case err == nil:
		return frame[4:], true
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.s.Note("%s < nothing", c.name)
		c.s.Fail(err, "a frame is awaited")
	}
	c.dead = true
	c.s.Note("%s < closed", c.name)
	return nil, false
}

// Send sends a request with the next xid, and returns that.
func (c *Client) Send(r Request) int32 {
	c.s.t.Helper()
	c.xid++
	c.SendAs(c.xid, r)
	return c.xid
}

// SendAs sends a request with an xid of the case's choice.
func (c *Client) SendAs(xid int32, r Request) {
	c.s.t.Helper()
	if xid == jute.XidPing || xid == jute.XidAuth {
		c.s.Note("%s > %s", c.name, r.Text)
	} else {
		c.s.Note("%s > %d %s", c.name, xid, r.Text)
	}
	c.sent[xid] = r
	b := jute.AppendInt32(nil, xid)
	b = jute.AppendInt32(b, r.Op)
	c.Raw(jute.Frame(append(b, r.Body...)))
}

// Call sends a request and reads until its reply has come. Events that came
// before it are in the Reply too.
func (c *Client) Call(r Request) Reply {
	c.s.t.Helper()
	return c.until(c.Send(r))
}

// CallAs is Call with an xid of the case's choice.
func (c *Client) CallAs(xid int32, r Request) Reply {
	c.s.t.Helper()
	c.SendAs(xid, r)
	return c.until(xid)
}

// Quietly is Call, and records nothing of it.
func (c *Client) Quietly(r Request) Reply {
	c.s.t.Helper()
	before := len(c.s.lines)
	reply := c.Call(r)
	c.s.lines = c.s.lines[:before]
	return reply
}

// Ok is Call for what has to succeed, Fails for what has to give that error.
// An operation of a multi that fails is such an error too, although the header
// of the reply has none.
func (c *Client) Ok(r Request) Reply {
	c.s.t.Helper()
	return c.Fails(0, r)
}
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

func (c *Client) until(xid int32) Reply {
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

// Drain reads whatever the server has sent until now: the answer to a ping
// comes after it, since requests and events of a connection share one line
// (FinalRequestProcessor).
func (c *Client) Drain() []Event {
	c.s.t.Helper()
	return c.CallAs(jute.XidPing, Ping()).Events
}

// Closed reads until the server has closed the connection.
func (c *Client) Closed() {
	c.s.t.Helper()
	for !c.Receive().Closed {
	}
}

// Drop closes the connection without a word, and leaves the session alone.
func (c *Client) Drop() {
	c.s.Note("%s drops the connection", c.name)
	c.dead = true
	c.conn.Close()
}

// End ends the session in the proper way.
func (c *Client) End() {
	c.s.t.Helper()
	c.Call(Close())
	c.over = true
	if !c.dead {
		c.Closed()
	}
	c.conn.Close()
}

// Text sends a four-letter word on a fresh connection and returns the answer.
func (s *Script) Text(word string) string {
	s.t.Helper()
	c := s.Dial(word)
	c.Raw([]byte(word))
	c.conn.SetReadDeadline(time.Now().Add(patience))
	answer, err := io.ReadAll(c.conn)
	s.Fail(err, word)
	c.dead = true
	return string(answer)
}

// bury ends the session by whatever way is left. Nothing is recorded.
func (c *Client) bury() {
	defer c.conn.Close()
	if c.ID == 0 || c.over {
		return
	}
	frame := func(conn net.Conn) bool {
		conn.SetDeadline(time.Now().Add(time.Second))
		_, err := jute.ReadFrame(conn, 16<<20)
		return err == nil
	}
	conn := c.conn
	if c.dead {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		var err error
		if conn, err = c.s.server.Dial(ctx); err != nil {
			return
		}
		defer conn.Close()
		b := jute.AppendInt32(nil, 0)
		b = jute.AppendInt64(b, 0)
		b = jute.AppendInt32(b, int32(c.Timeout.Milliseconds()))
		b = jute.AppendInt64(b, c.ID)
		b = append(jute.AppendBuffer(b, c.Password), 0)
		conn.Write(jute.Frame(b))
		answer := make([]byte, 4+16)
		conn.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := io.ReadFull(conn, answer); err != nil || binary.BigEndian.Uint64(answer[12:]) == 0 {
			return
		}
	}
	conn.SetWriteDeadline(time.Now().Add(time.Second))
	conn.Write(jute.Frame(jute.AppendInt32(jute.AppendInt32(nil, 0), jute.OpClose)))
	for frame(conn) {
	}
}
