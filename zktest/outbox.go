package zktest

import (
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// outbox is what a connection still has to send. It has no bound, so that
// whoever answers or fires a watch never waits for a client that does not read.
type outbox struct {
	mu      sync.Mutex
	chunks  []chunk
	spare   []byte
	muted   bool // what comes now is never sent
	closing bool // the connection is closed once everything is sent
	wake    chan struct{}
}

// chunk is sent when its time has come; zero is at once.
type chunk struct {
	at time.Time
	b  []byte
}

// lastWords bounds how long a connection that the server closes may take to
// read what was answered before.
const flushTimeout = 5 * time.Second

// maxSpare bounds the buffer that is kept for what is sent next.
const maxSpareBuffer = 256 << 10

// reply queues header and body of a reply or an event.
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

// raw queues bytes that are no reply: a ConnectResponse or an answer to a
// four-letter word.
func (o *outbox) raw(b []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.muted {
		c := o.lastChunk()
		c.b = append(c.b, b...)
		o.wakeSender()
	}
}

func (o *outbox) lastChunk() *chunk {
	if len(o.chunks) == 0 {
		o.chunks = append(o.chunks, chunk{b: o.spare[:0]})
		o.spare = nil
	}
	return &o.chunks[len(o.chunks)-1]
}

// hold keeps back what is queued from now on.
func (o *outbox) delay(d time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.chunks = append(o.chunks, chunk{at: time.Now().Add(d)})
}

// mute throws away what is queued from now on.
func (o *outbox) mute() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.muted = true
}

// end closes the connection when everything before is sent.
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

// run sends until the connection is gone, one write for all replies that are
// there.
func (o *outbox) sendLoop(c *conn) {
	defer c.server.wg.Done()
	defer c.remove()
	for {
		o.mu.Lock()
		var next chunk
		if len(o.chunks) > 0 {
			next = o.chunks[0]
			o.chunks = append(o.chunks[:0], o.chunks[1:]...)
		}
		ending := o.closing
		o.mu.Unlock()
		switch {
		case next.b == nil && ending && next.at.IsZero():
			return
		case next.b == nil && next.at.IsZero():
			select {
			case <-o.wake:
			case <-c.done:
				return
			}
			continue
		}
		if wait := time.Until(next.at); !next.at.IsZero() && wait > 0 {
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-c.done:
				timer.Stop()
				return
			}
		}
		if len(next.b) == 0 {
			continue // on a net.Pipe even that would wait for a reader
		}
		if ending {
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
