package wire

import (
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

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
	if over, ok := nc.(interface{ NetConn() net.Conn }); ok { // TLS
		nc = over.NetConn()
	}
	_, ok := nc.(syscall.Conn)
	return ok
}

// Write sends a frame of go-zookeeper's, or holds it at the gate. It never
// fails: if the connection does, go-zookeeper learns of it from Read. If its
// sending side learned first, its two sides could wait for each other, and
// callers would get raw socket errors.
func (c *Conn) Write(b []byte) (int, error) {
	if c.connectSent.IsZero() {
		if len(b) < 4 {
			c.closeWith(jute.ErrShort)
			return len(b), nil
		}
		if err := c.rewriteConnectRequest(b[4:]); err != nil {
			c.closeWith(err)
			return len(b), nil
		}
		c.connectSent = time.Now()
		if _, err := c.Conn.Write(b); err != nil {
			c.closeWith(err)
		}
		return len(b), nil
	}
	if len(b) < 12 {
		c.closeWith(jute.ErrShort)
		return len(b), nil
	}
	o := c.parse(append([]byte(nil), b...)) // go-zookeeper reuses b
	c.mu.Lock()
	if c.gateClosed && o.op != jute.OpSetWatches && o.op != jute.OpPing && o.op != jute.OpClose {
		c.held = append(c.held, o)
		c.mu.Unlock()
		return len(b), nil
	}
	write := c.enqueue(o)
	c.mu.Unlock()
	if write {
		c.flush(true)
	}
	return len(b), nil
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
		if c.closed || len(c.queue) == 0 {
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
// answers. A new handshake decides: the leader itself is asked.
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

// parse returns what to remember of a frame that go-zookeeper sends, or of the
// Conn itself sends. It writes the zxid of the last reply into a setWatches, because
// go-zookeeper is shown none (see prepareReply).
func (c *Conn) parse(frame []byte) outgoing {
	d := jute.NewDecoder(frame[4:])
	o := outgoing{frame: frame, xid: d.Int32()}
	switch o.op = d.Int32(); o.op {
	case jute.OpGetData, jute.OpExists, jute.OpGetChildren, jute.OpGetChildren2:
		o.path, o.watch = d.String(), d.Bool()
	case jute.OpSetWatches:
		jute.AppendInt64(frame[12:12], c.session.armedFrom()) // in place
		d.Int64()
		o.paths = map[watch]struct{}{}
		for _, kind := range []watchKind{watchData, watchExist, watchChild} {
			for _, path := range d.Strings() {
				o.paths[watch{path, kind}] = struct{}{}
			}
		}
	}
	return o
}
