package wire

import (
	"bufio"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

var (
	errRearmTimeout = errors.New("watches were not armed again in time")
	errClosed       = errors.New("connection closed")
	errSilence      = errors.New("this process has sent nothing")
)

// xidEphemerals is the xid of askEphemerals' request.
const xidEphemerals int32 = -1000

// request is what a Conn remembers of a request until its reply comes.
type request struct {
	op   int32
	call *Call // nil: go-zookeeper's request
	size int
	sent time.Time
}

// Conn is one connection of a Session. go-zookeeper writes whole frames, from
// one goroutine at a time, and reads from one goroutine at a time.
type Conn struct {
	net.Conn
	session      *Session
	number       uint64
	kernelBuffer bool   // see hasKernelBuffer
	login        *Login // nil: none
	r            *bufio.Reader

	// The frame that go-zookeeper is reading, and what to do once it has read
	// the last byte. Only the reading goroutine uses these fields.
	frame        []byte
	off          int
	buf          []byte // for the next frame; see maxReusedBuffer
	onDelivered  func()
	established  bool      // go-zookeeper has read the ConnectResponse
	readDeadline time.Time // as set last; zero while the handshake's holds

	closeOnce   sync.Once
	connectSent time.Time // zero until the ConnectRequest is sent

	mu            sync.Mutex // held only briefly
	answered      bool       // a ConnectResponse has come
	queue         []outgoing // frames to write, in order
	writing       bool       // a goroutine is writing the queue
	lastSent      time.Time  // when the latest frame was sent; see maxSilence
	writeDeadline time.Time  // as set last; only the writing goroutine uses it
	callXid       int32      // of the last Call
	pending       map[int32]request
	pendingBytes  int // the size of the requests in pending
	pings         []time.Time
	gateClosed    bool
	asking        bool      // for the session's ephemeral znodes; see askEphemerals
	asked         bool      // for them, on this connection
	alive         time.Time // when the latest request was sent that was answered while the gate was closed
	served        bool      // the gate has opened, or a request was answered
	unarmed       int       // requests that set watches again, and are not answered yet
	gateTimer     *time.Timer
	cause         error // why it was closed; nil: it is open
	downDone      bool  // Config.Down has returned
}

// Wrap makes nc a connection of the session. number comes from Attempt, called
// before nc was dialled. The handshake, with that login unless it is nil, must finish before
// nc's deadline.
func (s *Session) Wrap(nc net.Conn, number uint64, login *Login) *Conn {
	c := &Conn{Conn: nc, session: s, number: number, login: login, kernelBuffer: hasKernelBuffer(nc), pending: map[int32]request{}}
	c.r = bufio.NewReaderSize(watchdogReader{c}, 16<<10)
	return c
}

// SetDeadline does nothing: the Conn sets its own deadlines.
func (c *Conn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing: the Conn sets its own deadlines.
func (c *Conn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing: the Conn sets its own deadlines.
func (c *Conn) SetWriteDeadline(time.Time) error { return nil }

// Close closes the connection.
func (c *Conn) Close() error {
	c.closeWith(errClosed)
	return nil
}

// Reject closes the connection, because what the server answers makes no sense.
func (c *Conn) Reject(why error) { c.closeWith(why) }

// closeWith closes the connection. Only the first cause is kept. It returns
// after Config.Down has returned, whichever goroutine calls Down, because
// go-zookeeper must not dial again before that.
//
// Calls that are pending fail only after Down, and so do Calls that are made
// meanwhile (W5).
func (c *Conn) closeWith(cause error) {
	c.closeOnce.Do(func() {
		c.mu.Lock()
		c.cause = cause
		lost := Lost{Cause: cause, Answered: c.answered, Served: c.served}
		var unanswered []*Call
		for xid, r := range c.pending {
			if r.call != nil { // go-zookeeper may still read replies to its own requests
				unanswered = append(unanswered, r.call)
				lost.Unanswered = max(lost.Unanswered, r.size)
				delete(c.pending, xid)
			}
		}
		if lost.Unanswered <= c.session.largestAnswered() { // a server has accepted one of that size
			lost.Unanswered = 0
		}
		if c.gateTimer != nil {
			c.gateTimer.Stop()
		}
		c.mu.Unlock()
		c.Conn.Close()
		c.session.cfg.Down(c.number, lost)
		c.mu.Lock()
		unsent := c.queue
		c.queue, c.downDone = nil, true
		c.mu.Unlock()
		for _, o := range unsent {
			if o.call != nil {
				o.call.fail(ErrNotSent)
			}
		}
		for _, call := range unanswered {
			call.fail(ErrNoReply)
		}
	})
}

// IsServers reports whether err means that the server closed the connection, and not this
// process.
func IsServers(err error) bool {
	return IsRejected(err) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe)
}

// IsRejected reports whether err means that the server closed the connection
// without an answer. That is how a server rejects a client that has seen a
// later zxid than the server has.
func IsRejected(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
}

// closedBy returns why the connection was closed, or nil while it is open.
func (c *Conn) closedBy() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}
