package zktest

import (
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// outbox is a connection's queue of bytes to send. It is unbounded, so that
// serving a request or firing a watch never waits for a client that does not
// read.
type outbox struct {
	mu      sync.Mutex
	chunks  []chunk
	spare   []byte
	muted   bool // discard what is queued from now on
	closing bool // close the connection once everything is sent
	wake    chan struct{}
}

// chunk is a run of bytes to send at a certain time. The zero time is now.
type chunk struct {
	at time.Time
	b  []byte
}

// flushTimeout bounds how long the server waits for a client to read the last
// replies before it closes the connection.
const flushTimeout = 5 * time.Second

// maxSpareBuffer bounds the buffer that is kept for reuse.
const maxSpareBuffer = 256 << 10

// reply queues a reply or an event. It returns the size of the frame with its
// length prefix, or 0 if the outbox is muted.
func (o *outbox) reply(xid int32, zxid int64, err int32, body []byte) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 4 + 16 + len(body)
	if o.muted {
		return 0
	}
	c := o.lastChunk()
	c.b = jute.AppendInt32(c.b, int32(n-4))
	c.b = jute.AppendInt32(jute.AppendInt64(jute.AppendInt32(c.b, xid), zxid), err)
	c.b = append(c.b, body...)
	o.wakeSender()
	return n
}

// raw queues bytes as they are: a ConnectResponse, or the reply to a four-letter
// word.
func (o *outbox) raw(b []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.muted {
		c := o.lastChunk()
		c.b = append(c.b, b...)
		o.wakeSender()
	}
}

// lastChunk returns the chunk to append to. The caller holds mu.
func (o *outbox) lastChunk() *chunk {
	if len(o.chunks) == 0 {
		o.chunks = append(o.chunks, chunk{b: o.spare[:0]})
		o.spare = nil
	}
	return &o.chunks[len(o.chunks)-1]
}

// delay delays by d everything that is queued from now on.
func (o *outbox) delay(d time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.chunks = append(o.chunks, chunk{at: time.Now().Add(d)})
}

// mute discards everything that is queued from now on.
func (o *outbox) mute() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.muted = true
}

// closeAfterFlush makes the sending goroutine close the connection once
// everything that is queued is sent.
func (o *outbox) closeAfterFlush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closing, o.muted = true, true
	o.wakeSender()
}

func (o *outbox) wakeSender() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// sendLoop sends what is queued until the connection is closed. Each write sends
// all replies that have been queued by then, up to the next delay.
func (o *outbox) sendLoop(c *conn) {
	defer c.run.wg.Done()
	defer c.remove()
	for {
		next, closing := o.take()
		if next.b == nil && next.at.IsZero() {
			if closing {
				return
			}
			select {
			case <-o.wake:
			case <-c.done:
				return
			}
			continue
		}
		if wait := time.Until(next.at); !next.at.IsZero() && wait > 0 && !c.sleep(wait) {
			return
		}
		if len(next.b) == 0 {
			continue // on a net.Pipe even an empty write would wait for a reader
		}
		if o.isClosing() { // perhaps since a delayed chunk was taken
			c.nc.SetWriteDeadline(time.Now().Add(flushTimeout))
		}
		if _, err := c.nc.Write(next.b); err != nil {
			return
		}
		if cap(next.b) <= maxSpareBuffer {
			o.mu.Lock()
			o.spare = next.b
			o.mu.Unlock()
		}
	}
}

func (o *outbox) isClosing() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.closing
}

// take removes the first chunk. It returns the zero chunk if nothing is queued.
// closing reports whether the connection is to be closed when the queue is
// empty.
func (o *outbox) take() (next chunk, closing bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.chunks) > 0 {
		next = o.chunks[0]
		o.chunks = append(o.chunks[:0], o.chunks[1:]...)
	}
	return next, o.closing
}
