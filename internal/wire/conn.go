package wire

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

var (
	errRearm  = errors.New("watches were not armed again in time")
	errClosed = errors.New("connection closed")
)

// maxReply bounds a frame from the server. Listings can be long, so this is
// only there to tell a length from garbage.
const maxReply = 1 << 30

// maxKept bounds the buffer that a connection keeps for the next frame.
const maxKept = 64 << 10

// xidSync marks the one request that the wrapper itself sends.
const xidSync int32 = -1000

type request struct {
	op    int32
	path  string // of a request that sets a watch
	watch bool
	paths map[watch]struct{} // of setWatches
	call  *Call              // nil: go-zookeeper's, or the wrapper's sync
	size  int
	sent  time.Time
}

// Conn is one connection of a Session. go-zookeeper writes whole frames, from
// one goroutine at a time, and reads from one goroutine at a time.
type Conn struct {
	net.Conn
	session *Session
	number  uint64
	buffers bool // see takesSmall
	r       *bufio.Reader

	// The frame that is being handed up, and what follows when it has been.
	// Only the reading goroutine touches them.
	frame    []byte
	off      int
	buf      []byte // what frame is read into, if it is not too long to be kept
	handedUp func()
	readBy   time.Time // the deadline that is set, zero: that of the handshake

	ending      sync.Once
	connectSent time.Time // zero until the ConnectRequest went out

	mu          sync.Mutex // held for moments only
	answered    bool       // there was a ConnectResponse
	established bool       // it was handed up
	out         []outgoing // to be written, in order
	writing     bool       // somebody writes what is in out
	writeBy     time.Time  // the writer's: the deadline that is set
	xid         int32      // of the last Call
	pending     map[int32]request
	unanswered  int // bytes of what is pending
	pings       []time.Time
	held        bool       // the gate is shut
	waiting     []outgoing // frames behind it
	rearm       map[watch]struct{}
	gateTimer   *time.Timer
	closed      bool
	told        bool // that it has ended
	cause       error
}

// Wrap makes nc a connection of the session. number is Attempt's, taken before
// nc was dialled; the handshake must be over by nc's deadline.
func (s *Session) Wrap(nc net.Conn, number uint64) *Conn {
	c := &Conn{Conn: nc, session: s, number: number, buffers: takesSmall(nc), pending: map[int32]request{}}
	c.r = bufio.NewReaderSize(source{c}, 16<<10)
	return c
}

// source reads the raw connection under the watchdog: silence for half the
// session timeout means that the server is gone, where go-zookeeper would wait
// for two thirds.
type source struct{ c *Conn }

func (r source) Read(p []byte) (int, error) {
	r.c.mu.Lock()
	established := r.c.established
	r.c.mu.Unlock()
	if established {
		if by, stale := r.c.session.patience(r.c.readBy, time.Now()); stale {
			r.c.readBy = by
			r.c.Conn.SetReadDeadline(by)
		}
	}
	return r.c.Conn.Read(p)
}

// patience returns how long a silent server is waited for, half the timeout, and
// whether the deadline that is set is more than a moment before that: to set one
// wakes the runtime's poller, which is not to happen with every frame.
func (s *Session) patience(set, now time.Time) (by time.Time, stale bool) {
	timeout := s.Timeout()
	by = now.Add(timeout / 2)
	return by, by.Sub(set) > timeout/32
}

// SetDeadline does nothing: the wrapper has deadlines of its own.
func (c *Conn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing: the wrapper has deadlines of its own.
func (c *Conn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing: the wrapper has deadlines of its own.
func (c *Conn) SetWriteDeadline(time.Time) error { return nil }

// Close ends the connection.
func (c *Conn) Close() error {
	c.shut(errClosed)
	return nil
}

// shut ends the connection once, for the first reason given. It returns when
// that is done and told, whoever does it: go-zookeeper must not dial again
// before. Calls end after Down, also those made meanwhile, so that who repeats
// one waits for the next connection.
func (c *Conn) shut(cause error) {
	c.ending.Do(func() {
		c.mu.Lock()
		c.closed, c.cause = true, cause
		c.waiting = nil
		var unanswered []*Call // go-zookeeper may be reading replies of its own yet
		for xid, r := range c.pending {
			if r.call != nil {
				unanswered = append(unanswered, r.call)
				delete(c.pending, xid)
			}
		}
		if c.gateTimer != nil {
			c.gateTimer.Stop()
		}
		c.mu.Unlock()
		c.Conn.Close()
		c.session.cfg.Down(c.number, cause)
		c.mu.Lock()
		unsent := c.out
		c.out, c.told = nil, true
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

// Answered reports whether the server has sent a ConnectResponse.
func (c *Conn) Answered() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answered
}

// IsRejected reports that the server closed a connection without a word, as it does
// in place of an answer to a client that has seen a later zxid.
func IsRejected(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
}

// Cause returns why the connection has ended, nil while it has not.
func (c *Conn) Cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// Write never fails: where the connection does, go-zookeeper's reading side
// hears of it. Its writing side, told first, can leave the two waiting for
// each other, and hands raw socket errors to callers.
func (c *Conn) Write(b []byte) (int, error) {
	if c.connectSent.IsZero() {
		if len(b) < 4 {
			c.shut(jute.ErrShort)
			return len(b), nil
		}
		if err := c.connect(b[4:]); err != nil {
			c.shut(err)
			return len(b), nil
		}
		c.connectSent = time.Now()
		if _, err := c.Conn.Write(b); err != nil {
			c.shut(err)
		}
		return len(b), nil
	}
	if len(b) < 12 {
		c.shut(jute.ErrShort)
		return len(b), nil
	}
	o := c.parse(append([]byte(nil), b...)) // go-zookeeper uses b again
	c.mu.Lock()
	if c.held && o.op != jute.OpSetWatches && o.op != jute.OpPing && o.op != jute.OpClose {
		c.waiting = append(c.waiting, o)
		c.mu.Unlock()
		return len(b), nil
	}
	write := c.put(o)
	c.mu.Unlock()
	if write {
		c.flush(true)
	}
	return len(b), nil
}

// Read hands up one frame after the other. What a frame brings about is done
// when its last byte has been asked for: go-zookeeper then sees it through,
// whatever becomes of the connection.
func (c *Conn) Read(p []byte) (int, error) {
	for c.off == len(c.frame) {
		if err := c.next(); err != nil {
			c.shut(err)
			return 0, c.Cause()
		}
	}
	n := copy(p, c.frame[c.off:])
	c.off += n
	if done := c.handedUp; c.off == len(c.frame) && done != nil {
		c.handedUp = nil
		done()
	}
	return n, nil
}

// next reads a frame into c.frame, which stays empty where it is not for
// go-zookeeper.
func (c *Conn) next() error {
	c.frame, c.off, c.handedUp = nil, 0, nil
	c.mu.Lock()
	established := c.established
	c.mu.Unlock()
	if !established {
		return c.welcome()
	}
	frame, err := jute.ReadFrameInto(c.r, c.buf, maxReply)
	if err != nil {
		return err
	}
	if cap(frame) <= maxKept {
		c.buf = frame
	}
	d := jute.NewDecoder(frame[4:])
	xid, zxid, code := d.Int32(), d.Int64(), d.Int32()
	if d.Err != nil {
		return d.Err
	}
	switch xid {
	case jute.XidEvent:
		event := Event{Type: d.Int32(), Conn: c.number}
		d.Int32() // state
		event.Path = d.String()
		if d.Err != nil {
			return d.Err
		}
		c.handedUp = func() {
			c.session.fire(event.Type, event.Path)
			c.session.cfg.Event(event)
		}
	case jute.XidPing:
		c.mu.Lock()
		if len(c.pings) > 0 {
			c.session.prove(c.pings[0])
			c.pings = c.pings[1:]
		}
		c.mu.Unlock()
	case xidSync:
		r := c.take(xid, code, nil)
		if code != 0 || r.sent.IsZero() {
			return fmt.Errorf("sync after a reconnect: error %d", code)
		}
		c.session.saw(zxid)
		go c.open()
		return nil
	default:
		r := c.take(xid, code, frame[20:])
		if xid <= xidFirst {
			c.session.saw(zxid)
			if r.call != nil { // else it has ended with the connection
				r.call.answer(code, frame[20:])
			}
			return nil
		}
		c.reply(frame, r, zxid, code)
	}
	c.frame = frame
	return nil
}

// take takes the request that a reply belongs to from the table. A transaction
// that fails bears its error in the record.
func (c *Conn) take(xid, code int32, record []byte) request {
	c.mu.Lock()
	r, ok := c.pending[xid]
	delete(c.pending, xid)
	c.unanswered -= r.size
	c.mu.Unlock()
	if ok && code == 0 && r.op == jute.OpMulti {
		code = firstError(record)
	}
	if ok && code != jute.ErrSessionExpired && code != jute.ErrSessionMoved {
		c.session.prove(r.sent)
	}
	return r
}

// firstError returns the first error among the results of a transaction, 0 where
// there is none.
func firstError(record []byte) int32 {
	for d := jute.NewDecoder(record); ; {
		op, done := d.Int32(), d.Bool()
		d.Int32()
		if op != -1 || done || d.Err != nil {
			return 0
		}
		if code := d.Int32(); code != 0 {
			return code
		}
	}
}

// reply prepares a reply for go-zookeeper.
func (c *Conn) reply(frame []byte, r request, zxid int64, code int32) {
	// go-zookeeper keeps the zxid of the last reply, without a lock, and that of
	// an answered setWatches too, so that after a drop between two of them the
	// rest would be armed against a moment at which they were not. It is shown
	// none; the wrapper fills in its own.
	clear(frame[8:16])
	switch code {
	case jute.ErrConnectionLoss, jute.ErrOperationTimeout, jute.ErrThrottled:
		// go-zookeeper has no names for these and would say "unknown error".
		// Their meaning is alike: the outcome is open, ask again later.
		jute.AppendInt32(frame[16:16], jute.ErrNothing)
	}
	if r.op == jute.OpSetWatches {
		c.handedUp = func() {
			if code != 0 {
				c.shut(fmt.Errorf("arming watches again: error %d", code))
				return
			}
			c.cover(r.paths)
		}
		return
	}
	c.handedUp = func() {
		c.session.saw(zxid)
		if r.op == jute.OpClose && code == 0 {
			c.session.end()
		}
		if !r.watch {
			return
		}
		switch {
		case code == 0 && (r.op == jute.OpGetChildren || r.op == jute.OpGetChildren2):
			c.session.arm(r.path, watchChild)
		case code == 0:
			c.session.arm(r.path, watchData)
			c.session.cfg.Armed(r.path, c.number)
		case code == jute.ErrNoNode && r.op == jute.OpExists:
			c.session.arm(r.path, watchExist)
		}
	}
}
