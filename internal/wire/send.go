package wire

import (
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// Frames leave a connection in the order in which they were put into its queue.
// Whoever finds nobody writing writes, and also what others put there
// meanwhile; so no goroutine has to be woken for a request.

// outgoing is a frame and what is to be remembered of it.
type outgoing struct {
	frame []byte
	xid   int32
	request
}

// noDelay is how much may be unanswered for a write to be taken by the socket's
// buffer at once, whatever the server does. Beyond it a Call leaves the writing
// to a goroutine: its caller is to be able to leave.
const noDelay = 8 << 10

// maxBatch is how much is put into one write, which is to be done within half
// the timeout, if there is more than one frame.
const maxBatch = 64 << 10

// takesSmall reports that nc has a buffer in the kernel. A net.Pipe has none, and
// of what a Dialer makes otherwise it is not known: there every write may wait
// for the other end.
func takesSmall(nc net.Conn) bool {
	if over, ok := nc.(interface{ NetConn() net.Conn }); ok { // TLS
		nc = over.NetConn()
	}
	_, ok := nc.(syscall.Conn)
	return ok
}

// put adds frames to the queue; c.mu is held. Whoever gets true calls flush.
func (c *Conn) put(frames ...outgoing) (write bool) {
	if c.told {
		return false
	}
	c.out = append(c.out, frames...)
	write = !c.writing && len(c.out) > 0
	c.writing = c.writing || write
	return write
}

// flush writes until the queue is empty. Where it must not wait, a goroutine
// goes on; that ends when the socket takes its frames, at the latest with the
// connection.
func (c *Conn) flush(wait bool) {
	for {
		c.mu.Lock()
		if c.closed || len(c.out) == 0 {
			c.writing = false
			c.mu.Unlock()
			return
		}
		batch, size := c.out, 0
		for i := range batch {
			if i > 0 && size+len(batch[i].frame) > maxBatch {
				batch = batch[:i]
				break
			}
			size += len(batch[i].frame)
		}
		if !wait && (!c.buffers || c.unanswered+size > noDelay) {
			c.mu.Unlock()
			go c.flush(true)
			return
		}
		if c.out = c.out[len(batch):]; len(c.out) == 0 {
			c.out = nil
		}
		now := time.Now()
		for i := range batch {
			c.sending(&batch[i], now)
		}
		c.mu.Unlock()
		bytes := batch[0].frame
		if len(batch) > 1 {
			bytes = make([]byte, 0, size)
			for i := range batch {
				bytes = append(bytes, batch[i].frame...)
			}
		}
		if by, stale := c.session.patience(c.writeBy, now); stale {
			c.writeBy = by
			c.Conn.SetWriteDeadline(by)
		}
		if _, err := c.Conn.Write(bytes); err != nil {
			c.shut(fmt.Errorf("write: %w", err))
		}
	}
}

// sending notes a request that is about to be written; c.mu is held.
func (c *Conn) sending(o *outgoing, now time.Time) {
	o.sent = now
	if o.op == jute.OpPing {
		c.pings = append(c.pings, now)
		return
	}
	o.size = len(o.frame)
	c.unanswered += o.size
	c.pending[o.xid] = o.request
}

// parse tells what is to be remembered of a frame of go-zookeeper's, or of the
// wrapper's sync. A setWatches gets the zxid that the watches were armed at.
func (c *Conn) parse(frame []byte) outgoing {
	d := jute.NewDecoder(frame[4:])
	o := outgoing{frame: frame, xid: d.Int32()}
	switch o.op = d.Int32(); o.op {
	case jute.OpGetData, jute.OpExists, jute.OpGetChildren, jute.OpGetChildren2:
		o.path, o.watch = d.String(), d.Bool()
	case jute.OpSetWatches:
		jute.AppendInt64(frame[12:12], c.session.zxid()) // in place
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
