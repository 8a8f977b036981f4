package wire

import (
	"errors"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// ErrNotSent is the error of a Call that was never written to a connection.
var ErrNotSent = errors.New("request was not sent")

// ErrNoReply is the error of a Call whose connection was lost before the reply
// came. The server may have carried out the request.
var ErrNoReply = errors.New("connection was lost before the reply came")

// Call is a request that bypasses go-zookeeper. The caller can abandon it at any
// time, it is never sent on a later connection than the one it was made for,
// and it saves two goroutine switches.
type Call struct {
	conn  *Conn
	ended func(*Call) // called before done is closed; nil: nothing is
	done  chan struct{}
	code  int32
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

// Reject closes the connection on which the reply came, because the reply makes no
// sense.
func (c *Call) Reject(why error) { c.conn.Reject(why) }

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

// Headroom is the number of bytes at the start of a Call's frame that Conn.Call
// fills in.
const Headroom = 12

// The xids of Calls count down from xidFirstCall. Those of go-zookeeper count up
// from 1.
const (
	xidFirstCall int32 = -1001
	xidLastCall  int32 = -2_000_000_000
)

// Call sends a request: frame is Headroom bytes and the operation's record. It
// must not be called before Config.Up was. It does not block until the
// connection has taken the frame (see flush).
func (c *Conn) Call(op int32, frame []byte) *Call { return c.CallThen(op, frame, nil) }

// CallThen is like Call. When the Call ends, ended is called with it, before Done's channel
// is closed: in the order of the replies, and of the events between them. It must not
// block, nor use the Conn. It may be called before CallThen returns.
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

// CallAll sends several requests of one operation, in this order and, if they are small, in
// one write.
func (c *Conn) CallAll(op int32, frames [][]byte) []*Call {
	outs, calls := make([]outgoing, len(frames)), make([]*Call, len(frames))
	for i, frame := range frames {
		outs[i] = c.newCall(op, frame, nil)
		calls[i] = outs[i].call
	}
	c.sendCalls(outs...)
	return calls
}

func (c *Conn) newCall(op int32, frame []byte, ended func(*Call)) outgoing {
	call := &Call{conn: c, ended: ended, done: make(chan struct{})}
	jute.AppendInt32(frame[0:0], int32(len(frame)-4))
	jute.AppendInt32(frame[8:8], op)
	return outgoing{frame: frame, request: request{op: op, call: call}}
}

func (c *Conn) sendCalls(outs ...outgoing) {
	c.mu.Lock()
	if c.downDone {
		c.mu.Unlock()
		for _, o := range outs {
			o.call.fail(ErrNotSent)
		}
		return
	}
	for i := range outs {
		if c.callXid--; c.callXid > xidFirstCall || c.callXid < xidLastCall {
			c.callXid = xidFirstCall
		}
		outs[i].xid = c.callXid
		jute.AppendInt32(outs[i].frame[4:4], c.callXid)
	}
	write := c.enqueue(outs...)
	c.mu.Unlock()
	if write {
		c.flush(false)
	}
}

// complete ends the Call with its reply. It copies record, whose buffer is
// reused.
func (c *Call) complete(code int32, record []byte) {
	c.code, c.reply = code, append([]byte(nil), record...)
	c.end()
}
