package zktest

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/digestmd5"
	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// conn is a client's connection. It has two goroutines: one reads and serves
// requests, the other sends the contents of the outbox.
type conn struct {
	server *Server
	run    *run
	nc     net.Conn
	r      *bufio.Reader
	out    outbox
	done   chan struct{} // closed by drop
	silent bool          // a fault: the server never replies

	// Used by the reading goroutine only.
	frames  []byte
	batch   []*request
	scratch []byte

	accepted time.Time

	// Guarded by the server's mu.
	packets  packets
	detached bool // see detach
	closed   bool
	session  *session
	replica  *replica
	ids      []identity
	sasl     *digestmd5.Server // nil: the server is not configured for SASL
	watched  map[string]int    // watched paths, with the number of tables (data, child)
}

// maxBatch bounds how many requests are prepared together.
const maxBatch = 256

func newConn(s *Server, nc net.Conn) *conn {
	host := "127.0.0.1"
	if h, _, err := net.SplitHostPort(nc.RemoteAddr().String()); err == nil {
		host = h
	}
	c := &conn{
		server:   s,
		run:      s.run,
		nc:       nc,
		r:        bufio.NewReaderSize(nc, 16<<10),
		out:      outbox{wake: make(chan struct{}, 1)},
		done:     make(chan struct{}),
		accepted: time.Now(),
		replica:  s.leader,
		ids:      []identity{{"ip", host}},
		watched:  map[string]int{},
	}
	if s.opt.users != nil {
		c.sasl = digestmd5.NewServer(s.opt.users)
	}
	return c
}

// drop closes the connection at once. The contents of the outbox may be lost.
// The caller holds the server's mu.
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

// remove closes the connection and removes it from the server. The sending
// goroutine calls it when it returns.
func (c *conn) remove() {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.drop()
	delete(c.server.conns, c)
}

// closeAfterFlush closes the connection once the queued replies are sent, or the
// client has not read one for flushTimeout. The caller holds the server's mu.
func (c *conn) closeAfterFlush() {
	if !c.detached {
		c.detach()
		c.out.closeAfterFlush()
		c.nc.SetWriteDeadline(time.Now().Add(flushTimeout)) // of a write that is blocked already
	}
}

// detach removes the connection's watches and takes it away from its session.
// Queued replies may still be sent. The caller holds the server's mu.
func (c *conn) detach() {
	s := c.server
	c.detached = true
	c.replica.forget(c)
	delete(s.lagging, c.replica)
	if c.session != nil && c.session.conn == c {
		c.session.conn = nil
	}
}

// readLoop serves the connection until it is closed.
func (c *conn) readLoop() {
	s := c.server
	defer c.run.wg.Done()
	if !c.silent && c.handshake() {
		for c.readBatch() && c.serve(c.batch) {
		}
	}
	if c.silent {
		io.Copy(io.Discard, c.nc)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.detached { // otherwise the sending goroutine closes it
		c.drop()
	}
}

// readBatch reads a request, and those behind it that have arrived already. They
// are prepared together, as a real server prepares requests while it is logging
// earlier ones. False means that the connection is closed or must be.
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
				break // incomplete, or an error that is reported in its turn
			}
		}
		if !c.readFrame() {
			return false
		}
		ends = append(ends, len(c.frames))
	}
	start := 0
	for _, end := range ends {
		q, ok := decode(c.frames[start:end], c.server.opt.version)
		if !ok {
			return false
		}
		c.batch = append(c.batch, q)
		start = end
	}
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	c.countIn(len(ends), 4*len(ends)+len(c.frames))
	return true
}

// readFrame appends the body of the next frame to frames.
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

// readBody appends the next n bytes to frames. It reads in pieces, so that a
// client cannot make the server allocate memory by just claiming a length.
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

// noZxid is the zxid of an event that stands for no certain change.
const noZxid = -1

// eventNames holds the names of Watcher.Event.EventType.
var eventNames = map[int32]string{
	jute.EventCreated: "NodeCreated", jute.EventDeleted: "NodeDeleted",
	jute.EventDataChanged: "NodeDataChanged", jute.EventChildrenChanged: "NodeChildrenChanged",
}

// event queues a watch event. Its zxid is that of the change, or noZxid. The
// caller holds the server's mu.
func (c *conn) event(event int32, path string, zxid int64) {
	if c.detached {
		return
	}
	if c.server.opt.version < ZooKeeper39 { // ZOOKEEPER-4655
		zxid = noZxid
	}
	b := make([]byte, 0, 12+len(path))
	b = jute.AppendString(jute.AppendInt32(jute.AppendInt32(b, event), jute.StateConnected), path)
	c.server.counts.Events[eventNames[event]]++
	c.countOut(c.out.reply(jute.XidEvent, zxid, 0, b))
}

// reply queues a reply. The caller holds the server's mu.
func (c *conn) reply(xid int32, err int32, body []byte) {
	c.countOut(c.out.reply(xid, c.replica.zxid, err, body))
}

// sleep waits for d. It returns false at once if the connection is closed.
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
