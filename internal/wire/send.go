package wire

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// ErrNotSent is the error of a Call that was never written to a connection.
var ErrNotSent = errors.New("request was not sent")

// ErrNoReply is the error of a Call whose connection was lost before the reply
// came. The server may have carried out the request.
var ErrNoReply = errors.New("connection was lost before the reply came")

// Call is a request. The caller can abandon it at any time, and it is never sent on a later connection
// than the one it was made for.
type Call struct {
	conn  *Conn
	ended func(*Call) // called before done is closed; nil: nothing is
	done  chan struct{}
	code  int32
	zxid  int64
	reply []byte
	err   error
}

// Done returns a channel that is closed when the reply has come or the Call has
// failed.
func (c *Call) Done() <-chan struct{} { return c.done }

// Result returns the error code and the record of the reply. It returns
// ErrNotSent or ErrNoReply if there is no reply. The result is valid once the
// channel of Done is closed.
func (c *Call) Result() (code int32, record []byte, err error) { return c.code, c.reply, c.err }

// Conn returns the number of the connection.
func (c *Call) Conn() uint64 { return c.conn.number }

// Reject closes the connection on which the reply came, because the reply makes no
// sense.
func (c *Call) Reject(why error) { c.conn.Reject(why) }

// complete ends the Call with its reply. It copies record, whose buffer is
// reused.
func (c *Call) complete(zxid int64, code int32, record []byte) {
	c.zxid, c.code, c.reply = zxid, code, append([]byte(nil), record...)
	c.end()
}

func (c *Call) fail(err error) {
	c.err = err
	c.end()
}

func (c *Call) end() {
	if c.ended != nil {
		c.ended(c)
	}
	close(c.done)
}

// header returns the header of a request.
func header(xid, op int32) []byte { return jute.AppendInt32(jute.AppendInt32(nil, xid), op) }

// Headroom is the number of bytes at the start of a Call's frame that Conn.Call
// fills in.
const Headroom = 12

// The xids of Calls count down from xidFirstCall. Those of go-zookeeper count up
// from 1.
const (
	xidFirstCall int32 = -1001
	xidLastCall  int32 = -2_000_000_000
)

// Call sends a request: frame is Headroom bytes and the operation's record. The Session's owner must not
// call it before Config.Up was called. It does not block until the connection has taken the frame (see
// flush).
func (c *Conn) Call(op int32, frame []byte) *Call { return c.CallThen(op, frame, nil) }

// CallThen is like Call. When the Call ends, ended is called with it, before Done's channel
// is closed: in the order of the replies, and of the events between them. It must not
// block, nor use the Conn but to close it. It may be called before CallThen returns.
func (c *Conn) CallThen(op int32, frame []byte, ended func(*Call)) *Call {
	o := c.newCall(op, frame, ended)
	c.sendCalls(o)
	return o.call
}

// CallBoth sends two requests, in this order and, if they are small, in one write. ended,
// unless it is nil, is called when the second ends: see CallThen.
func (c *Conn) CallBoth(op1 int32, frame1 []byte, op2 int32, frame2 []byte, ended func(first, second *Call)) (first, second *Call) {
	o1, o2 := c.newCall(op1, frame1, nil), c.newCall(op2, frame2, nil)
	if ended != nil {
		o2.call.ended = func(second *Call) { ended(o1.call, second) }
	}
	c.sendCalls(o1, o2)
	return o1.call, o2.call
}

func (c *Conn) newCall(op int32, frame []byte, ended func(*Call)) outgoing {
	call := &Call{conn: c, ended: ended, done: make(chan struct{})}
	jute.AppendInt32(frame[0:0], int32(len(frame)-4))
	jute.AppendInt32(frame[8:8], op)
	return outgoing{frame: frame, request: request{op: op, call: call}}
}

func (c *Conn) sendCalls(outs ...outgoing) {
	c.mu.Lock()
	if c.downDone { // W5
		c.mu.Unlock()
		for _, o := range outs {
			o.call.fail(ErrNotSent)
		}
		return
	}
	for i := range outs {
		o := &outs[i]
		if o.xid == 0 { // it is not askEphemerals'
			if c.callXid--; c.callXid > xidFirstCall || c.callXid < xidLastCall {
				c.callXid = xidFirstCall
			}
			o.xid = c.callXid
		}
		jute.AppendInt32(o.frame[4:4], o.xid)
	}
	write := c.enqueue(outs...)
	c.mu.Unlock()
	if write {
		c.flush(false)
	}
}

// Frames leave a connection in the order in which they entered its queue. A
// goroutine that adds a frame while no other is writing writes the queue
// itself, including frames that others add meanwhile. So no goroutine has to be
// woken for a request.

// outgoing is a frame and what to remember of it.
type outgoing struct {
	frame []byte
	xid   int32
	request
}

// maxInline is how many bytes may be unanswered while a Call still writes its
// own frame: the socket's buffer takes that much at once, whatever the server
// does. Beyond it another goroutine writes, so that the caller can give up.
const maxInline = 8 << 10

// maxBatch bounds one write of more than one frame. Each write must be done
// within half the session timeout.
const maxBatch = 64 << 10

// hasKernelBuffer reports whether nc has a buffer in the kernel. A net.Pipe has
// none, and for other types that a Dialer may return it is unknown. Without a
// buffer every write may wait for the other end.
func hasKernelBuffer(nc net.Conn) bool {
	for range 2 { // TLS, and what a Dialer has wrapped the socket in
		if over, ok := nc.(interface{ NetConn() net.Conn }); ok {
			nc = over.NetConn()
		}
	}
	_, ok := nc.(syscall.Conn)
	return ok
}

// enqueue adds frames to the queue. c.mu must be held. If it returns true, the
// caller must call flush.
func (c *Conn) enqueue(frames ...outgoing) (write bool) {
	if c.downDone {
		return false
	}
	c.queue = append(c.queue, frames...)
	write = !c.writing && len(c.queue) > 0
	c.writing = c.writing || write
	return write
}

// flush writes until the queue is empty. With wait false it does not block:
// where a write might, another goroutine takes over. That goroutine ends when
// the socket has taken its frames, at the latest when the connection is closed.
func (c *Conn) flush(wait bool) {
	for {
		c.mu.Lock()
		if c.cause != nil || len(c.queue) == 0 {
			c.writing = false
			c.mu.Unlock()
			return
		}
		batch, size := c.nextBatch()
		if !wait && (!c.kernelBuffer || c.pendingBytes+size > maxInline) {
			c.mu.Unlock()
			go c.flush(true)
			return
		}
		now := time.Now()
		if was := silence(c.lastSent, now); was > maxSilence(c.session.Timeout()) {
			c.writing = false
			c.mu.Unlock()
			c.closeWith(fmt.Errorf("%w for %v", errSilence, was))
			return
		}
		if c.queue = c.queue[len(batch):]; len(c.queue) == 0 {
			c.queue = nil
		}
		c.lastSent = now
		for i := range batch {
			c.addPending(&batch[i], now)
		}
		c.mu.Unlock()
		bytes := join(batch, size)
		if by, stale := c.session.ioDeadline(c.writeDeadline, now); stale {
			c.writeDeadline = by
			c.Conn.SetWriteDeadline(by)
		}
		if _, err := c.Conn.Write(bytes); err != nil {
			c.closeWith(fmt.Errorf("write: %w", err))
		}
	}
}

// maxSilence returns how long a client may send nothing: go-zookeeper sends a ping after each
// third of the session timeout, so then the process did not run. A follower tells the leader
// twice in a tick who has sent something, and a session timeout has two ticks or more. If
// less than that is left, the leader may end the session although the follower still
// answers. A new handshake decides: the leader itself is asked (W7).
func maxSilence(timeout time.Duration) time.Duration { return timeout * 2 / 3 }

// silence returns how long nothing was sent. The wall clock is looked at too, since the
// monotonic clock stands still while a machine is suspended.
func silence(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

// nextBatch returns the frames at the head of the queue that one write takes, and their
// size. c.mu must be held.
func (c *Conn) nextBatch() (batch []outgoing, size int) {
	for i := range c.queue {
		n := len(c.queue[i].frame)
		if i > 0 && size+n > maxBatch {
			return c.queue[:i], size
		}
		size += n
	}
	return c.queue, size
}

// join returns the bytes of the frames, of that size in all. A single frame is not copied.
func join(batch []outgoing, size int) []byte {
	if len(batch) == 1 {
		return batch[0].frame
	}
	bytes := make([]byte, 0, size)
	for i := range batch {
		bytes = append(bytes, batch[i].frame...)
	}
	return bytes
}

// addPending remembers a request that is about to be written. c.mu must be held.
func (c *Conn) addPending(o *outgoing, now time.Time) {
	o.sent = now
	if o.op == jute.OpPing {
		c.pings = append(c.pings, now)
		return
	}
	o.size = len(o.frame)
	c.pendingBytes += o.size
	c.pending[o.xid] = o.request
}
