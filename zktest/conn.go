package zktest

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// conn is one client's connection: a goroutine that reads and serves requests
// and one that sends what is in the outbox.
type conn struct {
	server *Server
	nc     net.Conn
	r      *bufio.Reader
	out    outbox
	done   chan struct{} // closed by drop
	silent bool          // a fault: nothing is ever answered

	// Of the reading goroutine.
	frames  []byte
	batch   []*request
	scratch []byte

	// Under the server's mu.
	detached bool // nobody's any more, though something may still be sent
	closed   bool
	session  *session
	replica  *replica
	ids      []identity
	watched  map[string]int // paths with watches, and in how many tables
}

// maxBatch bounds how many requests are prepared together.
const maxBatch = 256

func newConn(s *Server, nc net.Conn) *conn {
	host := "127.0.0.1"
	if h, _, err := net.SplitHostPort(nc.RemoteAddr().String()); err == nil {
		host = h
	}
	return &conn{
		server:  s,
		nc:      nc,
		r:       bufio.NewReaderSize(nc, 16<<10),
		out:     outbox{wake: make(chan struct{}, 1)},
		done:    make(chan struct{}),
		replica: s.leader,
		ids:     []identity{{"ip", host}},
		watched: map[string]int{},
	}
}

// drop closes the connection at once. What is in the outbox may be lost. The
// caller holds the server's mu.
func (c *conn) drop() {
	if !c.detached {
		c.detach()
	}
	if !c.closed {
		c.closed = true
		close(c.done)
		c.nc.Close()
	}
}

// close is the end of the sending goroutine, and of the connection.
func (c *conn) remove() {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.drop()
	delete(c.server.conns, c)
}

// finish closes the connection when what has been answered is sent. The caller
// holds the server's mu.
func (c *conn) closeAfterFlush() {
	if !c.detached {
		c.detach()
		c.out.closeAfterFlush()
	}
}

// detach makes the connection one that is not there any more: no session, no
// watches.
func (c *conn) detach() {
	s := c.server
	c.detached = true
	c.replica.forget(c)
	delete(s.lagging, c.replica)
	if c.session != nil && c.session.conn == c {
		c.session.conn = nil
	}
}

// read serves the connection until it ends.
func (c *conn) readLoop() {
	s := c.server
	defer s.wg.Done()
	if !c.silent && c.handshake() {
		for c.readBatch() && c.serve(c.batch) {
		}
	}
	if c.silent {
		io.Copy(io.Discard, c.nc)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.detached { // else it closes itself when all is sent
		c.drop()
	}
}

// next reads a request, and those behind it that have arrived already: they are
// prepared together, as a real server prepares requests while earlier ones are
// being logged. False means that the connection has ended, or must.
func (c *conn) readBatch() bool {
	c.frames, c.batch = c.frames[:0], c.batch[:0]
	ends := []int{}
	for len(ends) < maxBatch {
		if len(ends) > 0 {
			head, _ := c.r.Peek(min(4, c.r.Buffered()))
			if len(head) < 4 {
				break
			}
			n := int(int32(binary.BigEndian.Uint32(head)))
			if n < 0 || n > c.server.opt.maxFrame || c.r.Buffered() < 4+n {
				break // an error too, but only when it is its turn
			}
		}
		if !c.readFrame() {
			return false
		}
		ends = append(ends, len(c.frames))
	}
	start := 0
	for _, end := range ends {
		q, ok := decode(c.frames[start:end])
		if !ok {
			return false
		}
		c.batch = append(c.batch, q)
		start = end
	}
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.BytesIn += int64(4*len(ends) + len(c.frames))
	return true
}

// frame appends the body of the next frame to frames.
func (c *conn) readFrame() bool {
	var head [4]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return false
	}
	n := int(int32(binary.BigEndian.Uint32(head[:])))
	if n < 0 || n > c.server.opt.maxFrame {
		return false
	}
	return c.readBody(n)
}

// body appends the next n bytes to frames, in pieces, so that a length alone
// takes no memory.
func (c *conn) readBody(n int) bool {
	for n > 0 {
		piece := min(n, 64<<10)
		at := len(c.frames)
		c.frames = append(c.frames, make([]byte, piece)...)
		if _, err := io.ReadFull(c.r, c.frames[at:]); err != nil {
			return false
		}
		n -= piece
	}
	return true
}

// eventNames are those of Watcher.Event.EventType.
var eventNames = map[int32]string{
	jute.EventCreated: "NodeCreated", jute.EventDeleted: "NodeDeleted",
	jute.EventDataChanged: "NodeDataChanged", jute.EventChildrenChanged: "NodeChildrenChanged",
}

// event queues a watch event. The caller holds the server's mu.
func (c *conn) event(event int32, path string) {
	if c.detached {
		return
	}
	b := make([]byte, 0, 12+len(path))
	b = jute.AppendString(jute.AppendInt32(jute.AppendInt32(b, event), jute.StateConnected), path)
	c.server.counts.Events[eventNames[event]]++
	c.server.counts.BytesOut += int64(c.out.reply(jute.XidEvent, -1, 0, b))
}

// reply queues an answer. The caller holds the server's mu.
func (c *conn) reply(xid int32, err int32, body []byte) {
	c.server.counts.BytesOut += int64(c.out.reply(xid, c.replica.zxid, err, body))
}

// pause waits, or tells that the connection is gone.
func (c *conn) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.done:
		return false
	}
}
