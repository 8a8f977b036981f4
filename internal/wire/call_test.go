package wire

import (
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// callFrame returns the frame of a Call with a record of n bytes.
func callFrame(n int) []byte { return make([]byte, Headroom+n) }

// bigRecord is the size of a record so large that the caller of Call does not
// write the frame itself.
const bigRecord = 2 * maxInline

// startCall makes a Call with this record.
func (l *link) startCall(record ...byte) *Call {
	return l.conn.Call(jute.OpMulti, append(make([]byte, Headroom), record...))
}

// call makes a Call with this record and waits until it blocks.
func (l *link) call(record ...byte) *Call {
	call := l.startCall(record...)
	synctest.Wait()
	return call
}

// ended reports whether a Call has ended.
func ended(c *Call) bool {
	select {
	case <-c.Done():
		return true
	default:
		return false
	}
}

// await returns the error of a Call, which must end without more input.
func (l *link) await(c *Call) error {
	l.t.Helper()
	synctest.Wait()
	require.True(l.t, ended(c), "the call has not ended")
	_, _, err := c.Result()
	return err
}

// readRequests reads n frames as the server of connectStalled.
func (l *link) readRequests(n int) [][]byte {
	l.t.Helper()
	var frames [][]byte
	for range n {
		frame, err := jute.ReadFrame(l.server, 1<<30)
		require.NoError(l.t, err)
		frames = append(frames, frame)
	}
	return frames
}

func TestACallReturnsItsReply(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		first, second := l.call('a', 'b'), l.call()
		require.Equal(t, [][]byte{
			requestFrame(xidFirstCall, jute.OpMulti, 'a', 'b'), requestFrame(xidFirstCall-1, jute.OpMulti),
		}, l.frames())
		require.False(t, ended(first))

		l.answer(reply(xidFirstCall-1, 70, jute.ErrNoNode, 's', 'e'), reply(xidFirstCall, 71, 0, 'x', 'y'))
		require.NoError(t, l.await(first))
		code, record, err := first.Result()
		require.NoError(t, err)
		require.Zero(t, code)
		require.Equal(t, "xy", string(record), "although the second reply came first")
		code, record, err = second.Result()
		require.NoError(t, err)
		require.Equal(t, jute.ErrNoNode, code)
		require.Equal(t, "se", string(record), "the next reply does not overwrite it")
		require.Empty(t, l.read(), "go-zookeeper does not see it")
		l.requireUp()
	})
}

// A caller may rely on the events that preceded its reply.
func TestEventsThatPrecedeAReplyAreDeliveredBeforeTheCallEnds(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		var call atomic.Pointer[Call]
		report := r.cfg.Event
		r.cfg.Event = func(e Event) {
			if ended(call.Load()) {
				t.Error("the call has ended")
			}
			report(e)
		}
		l := r.connect()
		call.Store(l.call())
		l.write(ping())
		r.reported()
		l.answer(slices.Concat(event(jute.EventDeleted, "/a"), reply(xidFirstCall, 5, 0), pong()))
		require.NoError(t, l.await(call.Load()))
		require.Equal(t, []string{"event 2 /a on 1"}, r.reported())
		require.Equal(t, [][]byte{pong()}, l.read(), "nothing else is go-zookeeper's")
	})
}

// A caller that repeats its call must not find the same connection. The goroutine whose
// write fails closes the connection, and must not wait for itself.
func TestAPendingCallFailsOnlyAfterDownWasCalled(t *testing.T) {
	eachInBubble(t, nil, map[string]func(l *link){
		"by the server":    func(l *link) { l.server.Close() },
		"by us":            func(l *link) { l.conn.Close() },
		"in silence":       func(*link) { time.Sleep(sessionTimeout / 2) },
		"by a failed call": func(l *link) { l.socket.broken.Store(true); l.call() },
	}, func(t *testing.T, r *rig, end func(l *link)) {
		var call atomic.Pointer[Call]
		report := r.cfg.Down
		r.cfg.Down = func(conn uint64, lost Lost) {
			if ended(call.Load()) {
				t.Error("the call has ended")
			}
			report(conn, lost)
		}
		l := r.connect()
		call.Store(l.call())
		l.sent()
		r.reported()
		end(l)
		require.ErrorIs(t, l.await(call.Load()), ErrNoReply)
		require.Len(t, r.reported(), 1)
		require.ErrorIs(t, l.await(l.call()), ErrNotSent, "the connection is closed")
		require.ErrorIs(t, l.await(l.call(make([]byte, bigRecord)...)), ErrNotSent)
		require.Empty(t, l.sent())
	})
}

func TestACallFailsWithErrNotSentOnlyIfNoneOfItWasWritten(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.connectStalled()
		first := l.call(make([]byte, bigRecord)...) // it is being written
		second := l.call()
		l.write(ping())
		third := l.call(make([]byte, bigRecord)...)
		l.conn.Close()
		require.ErrorIs(t, l.await(first), ErrNoReply, "some of it may be there")
		require.ErrorIs(t, l.await(second), ErrNotSent)
		require.ErrorIs(t, l.await(third), ErrNotSent)
	})
}

// requireOpen is like requireUp, for a link that does not record what it read.
func (l *link) requireOpen() {
	l.t.Helper()
	synctest.Wait()
	require.NoError(l.t, l.conn.closedBy())
}

// Every Call gets its own reply, go-zookeeper reuses its buffer, and no frame is torn, lost or sent
// twice.
func TestConcurrentCallsAndGoZookeepersFramesDoNotMix(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		const callers, each = 16, 50
		l := r.connectStalled()
		var wg sync.WaitGroup
		wg.Go(func() { // the server
			calls := xidFirstCall + 1
			for range callers*each + each {
				frame := l.readRequests(1)[0]
				d := jute.NewDecoder(frame[4:])
				xid, op := d.Int32(), d.Int32()
				if op == jute.OpPing {
					assert.Equal(t, ping(), frame)
				} else {
					calls--
					assert.Equal(t, calls, xid)
				}
				l.server.Write(reply(xid, 1, 0, frame[12:min(len(frame), 32)]...))
			}
		})
		for caller := range callers {
			wg.Go(func() {
				for i := range each {
					mine := fmt.Sprintf("%08d %08d", caller, i)
					call := l.startCall(append([]byte(mine), make([]byte, (caller*i*37)%5000+3)...)...)
					<-call.Done()
					_, record, err := call.Result()
					assert.NoError(t, err)
					assert.True(t, strings.HasPrefix(string(record), mine), "%s was answered %q", mine, record)
				}
			})
		}
		wg.Go(func() {
			for range each {
				frame := ping()
				l.conn.Write(frame)
				clear(frame)
			}
		})
		wg.Wait()
		l.requireOpen()
		require.Zero(t, l.conn.pendingBytes, "every request was answered")
		require.Empty(t, l.conn.pending)
	})
}

// A pipe has no buffer, so even the smallest write waits for the other end.
func TestCallDoesNotBlockIfTheServerDoesNotRead(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.connectStalled()
		began := time.Now()
		var calls []*Call
		for range 10 {
			calls = append(calls, l.startCall(), l.startCall(make([]byte, 1<<20)...))
		}
		require.Zero(t, time.Since(began))
		time.Sleep(sessionTimeout/2 - 1)
		for _, call := range calls {
			require.False(t, ended(call))
		}
		time.Sleep(time.Nanosecond)
		for i, call := range calls {
			err := l.await(call)
			require.True(t, err == ErrNoReply || i > 0 && err == ErrNotSent, "%d: %v", i, err)
		}
		require.ErrorContains(t, l.conn.closedBy(), "timeout", "the connection to a server that does not read is closed")
	})
}

// Each write must be done within half the timeout, so queued frames must not
// become a single large write.
func TestLargeQueuedFramesAreWrittenOneByOne(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		const n = 6
		l := r.connectStalled()
		var calls []*Call
		for range n {
			calls = append(calls, l.startCall(make([]byte, 1<<20)...))
		}
		for i, call := range calls {
			time.Sleep(sessionTimeout/2 - time.Second)
			l.readRequests(1)
			l.answer(reply(xidFirstCall-int32(i), 1, 0))
			require.NoError(t, l.await(call))
		}
		l.requireOpen()
	})
}

// On a socket the caller writes a small Call itself, as long as the socket's
// buffer is sure to take it.
func TestCallsDoNotBlockOnAFullSocket(t *testing.T) {
	nc, stop := dialStalledSocket(t)
	var wg sync.WaitGroup
	_, conn := wrapQuiet(nc, time.Hour)
	conn.Write(connectRequest(0))
	_, err := jute.ReadFrame(conn, 4096)
	require.NoError(t, err)
	wg.Go(func() { io.Copy(io.Discard, conn) })

	var calls []*Call
	for range 20_000 {
		calls = append(calls, conn.Call(jute.OpMulti, callFrame(100)))
	}
	calls = append(calls, conn.Call(jute.OpMulti, callFrame(1<<20)))
	for _, call := range calls {
		require.False(t, ended(call))
	}
	require.NoError(t, conn.closedBy())
	conn.Close()
	unsent := false
	for _, call := range calls {
		<-call.Done()
		switch _, _, err := call.Result(); err {
		case ErrNotSent:
			unsent = true
		default:
			require.ErrorIs(t, err, ErrNoReply)
			require.False(t, unsent, "in order")
		}
	}
	stop()
	wg.Wait()
}

// dialStalledSocket returns a TCP connection to a server that reads nothing
// after the handshake, and a function that stops the server.
func dialStalledSocket(t *testing.T) (nc net.Conn, stop func()) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { ln.Close() })
	stopped := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		nc.(*net.TCPConn).SetReadBuffer(64 << 10)
		if _, err := jute.ReadFrame(nc, 4096); err == nil {
			nc.Write(append(connectReply(time.Hour, sessionID), pong()...))
		}
		<-stopped // without reading any more
	})
	nc, err = net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	require.NoError(t, nc.(*net.TCPConn).SetWriteBuffer(64<<10))
	return nc, func() {
		close(stopped)
		wg.Wait()
	}
}

// slowCloser is a connection whose Close blocks until free is closed.
type slowCloser struct {
	net.Conn
	closing, free chan struct{}
}

func (c slowCloser) Close() error {
	close(c.closing)
	<-c.free
	return c.Conn.Close()
}

// A caller that repeats a Call that was not sent would otherwise spin until Down
// is called.
func TestACallMadeDuringCloseFailsOnlyAfterDown(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		client, server := net.Pipe()
		nc := slowCloser{client, make(chan struct{}), make(chan struct{})}
		conn := r.Wrap(nc, r.Attempt(), nil)
		go io.Copy(io.Discard, server)
		conn.Write(connectRequest(0))
		go server.Write(append(welcome(), pong()...))
		_, err := jute.ReadFrame(conn, 4096)
		require.NoError(t, err)
		r.reported()
		go conn.Close()
		<-nc.closing
		call := conn.Call(jute.OpMulti, callFrame(0))
		synctest.Wait()
		require.False(t, ended(call))
		close(nc.free)
		<-call.Done()
		_, _, err = call.Result()
		require.ErrorIs(t, err, ErrNotSent)
		require.Len(t, r.reported(), 1, "it is down")
	})
}

func TestAReplyReadAfterCloseIsDropped(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.dialWithoutReader()
		take := func(n int) error {
			_, err := io.ReadFull(l.conn, make([]byte, n))
			synctest.Wait()
			return err
		}
		l.write(connectRequest(0))
		go l.server.Write(welcome())
		require.NoError(t, take(len(welcome())))
		call := l.call()
		before := r.ValidUntil()
		time.Sleep(time.Second)
		go l.server.Write(append(pong(), reply(xidFirstCall, 70, 0, 'x')...)) // both in one read
		require.NoError(t, take(len(pong())-1))
		l.conn.Close()
		require.ErrorIs(t, l.await(call), ErrNoReply)

		require.NoError(t, take(1), "a frame that has begun is delivered to the end")
		require.ErrorIs(t, take(1), errClosed, "and nothing follows")
		require.Equal(t, before, r.ValidUntil())
		_, record, err := call.Result()
		require.ErrorIs(t, err, ErrNoReply)
		require.Empty(t, record)
	})
}

func TestAReplyToAnUnknownCallIsDroppedAndProvesNothing(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		before := r.ValidUntil()
		time.Sleep(time.Second)
		l.answer(reply(xidFirstCall, 5, 0, 'x'), reply(xidLastCall, 5, 0), reply(-1<<31, 5, 0), reply(xidEphemerals, 5, 0),
			pong(), event(jute.EventCreated, "/a"))
		require.Equal(t, [][]byte{pong()}, l.read())
		require.Equal(t, before, r.ValidUntil())
		call := l.call()
		l.answer(reply(xidFirstCall, 6, 0), reply(xidFirstCall, 7, 0)) // the latter once more
		require.NoError(t, l.await(call))
		l.requireUp()
	})
}

func TestXidsOfCallsWrapAround(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		l.sent()
		l.call()
		l.answer(reply(xidFirstCall, 1, 0))
		l.conn.mu.Lock()
		l.conn.callXid = xidLastCall + 2
		l.conn.mu.Unlock()
		var calls []*Call
		for range 4 {
			calls = append(calls, l.call())
		}
		xids := []int32{xidLastCall + 1, xidLastCall, xidFirstCall, xidFirstCall - 1}
		var want []string
		for _, xid := range append([]int32{xidFirstCall}, xids...) {
			require.Less(t, xid, xidEphemerals, "events, pings, credentials and the Conn's own request have higher xids")
			want = append(want, fmt.Sprintf("multi %d", xid))
		}
		require.Equal(t, want, l.sent())
		for i, xid := range xids {
			l.answer(reply(xid, 1, int32(i)))
		}
		for i, call := range calls {
			require.NoError(t, l.await(call))
			code, _, _ := call.Result()
			require.Equal(t, int32(i), code)
		}
		unanswered := l.call()
		l = r.resume(l)
		again := l.call()
		require.Equal(t, []string{fmt.Sprintf("multi %d", xidFirstCall)}, l.sent(), "each connection begins anew")
		l.answer(reply(xidFirstCall, 1, 0), reply(xidFirstCall-2, 1, 0))
		require.ErrorIs(t, l.await(unanswered), ErrNoReply)
		require.NoError(t, l.await(again))
	})
}

func TestTwoCallsAreSentInOrderAndGetTheirOwnReplies(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		read, write := l.conn.CallBoth(jute.OpGetData, callFrame(1), jute.OpMulti, callFrame(2), nil)
		require.Equal(t, []string{"getData -1001", "multi -1002"}, l.sent())
		l.answer(reply(-1001, 1, 0, 'r'))
		require.True(t, ended(read))
		require.False(t, ended(write))
		l.answer(reply(-1002, 2, 0, 'w'))
		require.NoError(t, l.await(write))
		_, record, _ := read.Result()
		require.Equal(t, []byte{'r'}, record)
		_, record, _ = write.Result()
		require.Equal(t, []byte{'w'}, record)
	})
}

func TestOfTwoCallsOnlyTheFirstMayHaveBeenSentWhenTheConnectionIsLost(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.connectStalled()
		read, write := l.conn.CallBoth(jute.OpGetData, callFrame(1), jute.OpMulti, callFrame(maxBatch), nil)
		synctest.Wait() // in the first write
		l.conn.Close()
		require.ErrorIs(t, l.await(read), ErrNoReply)
		require.ErrorIs(t, l.await(write), ErrNotSent)
		read, write = l.conn.CallBoth(jute.OpGetData, callFrame(1), jute.OpMulti, callFrame(2), nil)
		require.ErrorIs(t, l.await(read), ErrNotSent)
		require.ErrorIs(t, l.await(write), ErrNotSent)
	})
}
