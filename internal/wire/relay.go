package wire

import (
	"fmt"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// What go-zookeeper sends and is shown: the handshake, pings, and the close.

// Write sends a frame of go-zookeeper's. It never fails: if go-zookeeper's sending side learned first
// that a connection is lost, its two sides could wait for each other (W8).
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
	d := jute.NewDecoder(b[4:])
	o := outgoing{frame: append([]byte(nil), b...), xid: d.Int32(), request: request{op: d.Int32()}} // go-zookeeper reuses b
	if o.op != jute.OpPing && o.op != jute.OpClose {
		c.closeWith(fmt.Errorf("go-zookeeper sends %s, for which nobody has asked it", jute.OpName(o.op)))
		return len(b), nil
	}
	c.mu.Lock()
	write := c.enqueue(o)
	c.mu.Unlock()
	if write {
		c.flush(true)
	}
	return len(b), nil
}

// pingAnswered matches an answer with its ping. All pings have the same xid, and
// they are answered in order. Pings are checked like other requests (PrepRequestProcessor).
func (c *Conn) pingAnswered(code int32) error {
	c.mu.Lock()
	var sent time.Time
	if len(c.pings) > 0 {
		sent, c.pings = c.pings[0], c.pings[1:]
	}
	c.mu.Unlock()
	switch {
	case code == jute.ErrSASL: // nobody else would report it
		return errRequiresSASL
	case provesAlive(code):
		c.proveAlive(sent, false)
	}
	return nil
}
