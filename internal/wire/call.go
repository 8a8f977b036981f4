package wire

import (
	"errors"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// ErrNotSent is how a Call ends that has never been written to a connection.
var ErrNotSent = errors.New("request was not sent")

// ErrNoReply is how a Call ends whose connection did before the reply came: it
// may have been carried out.
var ErrNoReply = errors.New("connection was lost before the reply came")

// Call is a request that does not go through go-zookeeper. Its caller can leave
// it at any moment, it never goes out on a later connection than the one it was
// made for, and it costs two goroutine switches less.
type Call struct {
	done  chan struct{}
	code  int32
	reply []byte
	err   error
}

// Done returns a channel that is closed when the call has ended.
func (c *Call) Done() <-chan struct{} { return c.done }

// Result returns the error code and the record of the reply, or an error that
// is ErrNotSent or ErrNoReply. It is valid once Done's channel is closed.
func (c *Call) Result() (code int32, record []byte, err error) { return c.code, c.reply, c.err }

func (c *Call) fail(err error) {
	c.err = err
	close(c.done)
}

// Headroom is what Call's frame begins with, and Call fills in.
const Headroom = 12

// xids of calls go down from xidFirst, those of go-zookeeper up from 1.
const (
	xidFirst int32 = -1001
	xidLast  int32 = -2_000_000_000
)

// Call sends a request: Headroom bytes and the operation's record. It must not
// be called before Config.Up was, and does not wait for the connection to take
// it: see flush.
func (c *Conn) Call(op int32, frame []byte) *Call {
	call := &Call{done: make(chan struct{})}
	jute.AppendInt32(frame[0:0], int32(len(frame)-4))
	jute.AppendInt32(frame[8:8], op)
	c.mu.Lock()
	if c.told {
		c.mu.Unlock()
		call.fail(ErrNotSent)
		return call
	}
	if c.xid--; c.xid > xidFirst || c.xid < xidLast {
		c.xid = xidFirst
	}
	jute.AppendInt32(frame[4:4], c.xid)
	write := c.put(outgoing{frame: frame, xid: c.xid, request: request{op: op, call: call}})
	c.mu.Unlock()
	if write {
		c.flush(false)
	}
	return call
}

// answer ends the call that a reply belongs to. The buffer of record is used
// again.
func (c *Call) answer(code int32, record []byte) {
	c.code, c.reply = code, append([]byte(nil), record...)
	close(c.done)
}
