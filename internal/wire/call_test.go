package wire

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// Calls: requests that do not go through go-zookeeper.

// record returns a Call's frame with a record of n bytes.
func record(n int) []byte { return make([]byte, Headroom+n) }

// big is the record of a Call that nobody writes at once.
const big = 2 * maxInline

// start makes a Call with this record.
func (l *link) start(record ...byte) *Call {
	return l.conn.Call(jute.OpMulti, append(make([]byte, Headroom), record...))
}

// call makes a Call and sees it as far as it goes.
func (l *link) call(record ...byte) *Call {
	call := l.start(record...)
	synctest.Wait()
	return call
}

// over reports whether a call has ended.
func over(c *Call) bool {
	select {
	case <-c.Done():
		return true
	default:
		return false
	}
}

// endOf waits for a call and returns the error that it ended with.
func (l *link) endOf(c *Call) error {
	l.t.Helper()
	synctest.Wait()
	require.True(l.t, over(c), "the call has not ended")
	_, _, err := c.Result()
	return err
}

// deaf makes a connection whose server reads nothing after the handshake.
func (r *rig) deaf() *link {
	r.t.Helper()
	client, server := net.Pipe()
	l := &link{t: r.t, server: server, socket: &breakable{Conn: client}}
	client.SetDeadline(time.Now().Add(HandshakeBudget(r.Timeout())))
	l.conn = r.Wrap(l.socket, r.Attempt())
	r.t.Cleanup(func() {
		l.conn.Close()
		server.Close()
	})
	go func() {
		if _, err := jute.ReadFrame(server, 4096); err == nil {
			server.Write(welcoming(asked, session))
		}
	}()
	l.write(connectRequest(r.ID()))
	_, err := jute.ReadFrame(l.conn, 4096)
	require.NoError(r.t, err)
	go io.Copy(io.Discard, l.conn)
	r.heard()
	return l
}

// listen has the server of a deaf connection read n frames.
func (l *link) listen(n int) [][]byte {
	l.t.Helper()
	var frames [][]byte
	for range n {
		frame, err := jute.ReadFrame(l.server, 1<<30)
		require.NoError(l.t, err)
		frames = append(frames, frame)
	}
	return frames
}

// named returns what link.sent does, of these frames.
func named(frames [][]byte) []string {
	var names []string
	for _, frame := range frames {
		d := jute.NewDecoder(frame[4:])
		xid, op := d.Int32(), d.Int32()
		names = append(names, fmt.Sprintf("%s %d", jute.OpName(op), xid))
	}
	return names
}

func TestACallIsAnswered(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		first, second := l.call('a', 'b'), l.call()
		require.Equal(t, [][]byte{
			requesting(xidFirstCall, jute.OpMulti, 'a', 'b'), requesting(xidFirstCall-1, jute.OpMulti),
		}, l.frames())
		require.False(t, over(first))

		l.answer(reply(xidFirstCall-1, 70, jute.ErrNoNode), reply(xidFirstCall, 71, 0, 'x', 'y'))
		require.NoError(t, l.endOf(first))
		code, record, err := first.Result()
		require.NoError(t, err)
		require.Zero(t, code)
		require.Equal(t, "xy", string(record), "although the second reply came first")
		code, record, err = second.Result()
		require.NoError(t, err)
		require.Equal(t, jute.ErrNoNode, code)
		require.Empty(t, record)
		require.Empty(t, l.read(), "go-zookeeper hears nothing of it")
		l.requireUp()
	})
}

func TestTheRecordOfACallOutlivesTheNextReply(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		first, second := l.call(), l.call()
		l.answer(reply(xidFirstCall, 1, 0, []byte("first")...), reply(xidFirstCall-1, 2, 0, []byte("SECOND")...))
		require.NoError(t, l.endOf(second))
		_, record, _ := first.Result()
		require.Equal(t, "first", string(record))
	})
}

func TestRepliesToCallsAndToGoZookeeperGoWhereTheyBelong(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		call := l.call()
		l.write(requesting(1, jute.OpDelete))
		l.answer(event(jute.EventDeleted, "/a"), reply(xidFirstCall, 5, 0, 'c'), reply(1, 6, 0, 'z'))
		require.NoError(t, l.endOf(call))
		require.Equal(t, [][]byte{event(jute.EventDeleted, "/a"), reply(1, 0, 0, 'z')}, l.read())
	})
}

// What it has been told before a reply, a caller may rely on.
func TestACallEndsAfterTheEventsThatCameBeforeItsReply(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		var call atomic.Pointer[Call]
		tell := r.cfg.Event
		r.cfg.Event = func(e Event) {
			if over(call.Load()) {
				t.Error("the call has ended already")
			}
			tell(e)
		}
		l := r.connect()
		call.Store(l.call())
		r.heard()
		l.answer(append(event(jute.EventDeleted, "/a"), reply(xidFirstCall, 5, 0)...))
		require.NoError(t, l.endOf(call.Load()))
		require.Equal(t, []string{"event 2 /a on 1"}, r.heard())
	})
}

func TestACallOnAConnectionThatHasEndedIsNotSent(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		l.sent()
		l.conn.Close()
		require.ErrorIs(t, l.endOf(l.call()), ErrNotSent)
		require.ErrorIs(t, l.endOf(l.call(make([]byte, big)...)), ErrNotSent)
		require.Empty(t, l.sent())
	})
}

func TestACallWhoseConnectionEndsHasNoReplyAfterDownWasTold(t *testing.T) {
	for how, end := range map[string]func(l *link){
		"by the server": func(l *link) { l.server.Close() },
		"by us":         func(l *link) { l.conn.Close() },
		"in silence":    func(*link) { time.Sleep(asked / 2) },
	} {
		t.Run(how, func(t *testing.T) {
			scripted(t, nil, func(t *testing.T, r *rig) {
				var call atomic.Pointer[Call]
				tell := r.cfg.Down
				r.cfg.Down = func(conn uint64, err error) {
					if over(call.Load()) {
						t.Error("the call has ended: who repeats it finds the same connection")
					}
					tell(conn, err)
				}
				l := r.connect()
				call.Store(l.call())
				r.heard()
				end(l)
				require.ErrorIs(t, l.endOf(call.Load()), ErrNoReply)
				require.Len(t, r.heard(), 1)
			})
		})
	}
}

// The one whose write fails is the one who ends the connection, and must not
// wait for itself.
func TestACallWhoseWriteFailsEndsTheConnection(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		r.heard()
		l.socket.broken.Store(true)
		require.ErrorIs(t, l.endOf(l.call()), ErrNoReply)
		require.ErrorIs(t, l.down(), errBroken)
		require.Equal(t, []string{"down 1: write: broken"}, r.heard())
	})
}

func TestACallThatWasNotWrittenIsToldFromOneThatWas(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		l := r.deaf()
		first := l.call(make([]byte, big)...) // it is being written
		second := l.call()
		l.write(requesting(1, jute.OpDelete))
		third := l.call(make([]byte, big)...)
		l.conn.Close()
		require.ErrorIs(t, l.endOf(first), ErrNoReply, "some of it may be there")
		require.ErrorIs(t, l.endOf(second), ErrNotSent)
		require.ErrorIs(t, l.endOf(third), ErrNotSent)
	})
}

func TestFramesPutWhileAnotherIsWrittenGoOutWholeAndInOrder(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		l := r.deaf()
		l.call(make([]byte, big)...) // it is being written
		var want []string
		for i := range int32(20) {
			l.write(requesting(i+1, jute.OpGetData, bytes.Repeat([]byte{byte(i)}, 10)...))
			l.call(bytes.Repeat([]byte{byte(i)}, 10_000)...)
			l.write(ping())
			want = append(want, fmt.Sprintf("getData %d", i+1), fmt.Sprintf("multi %d", xidFirstCall-1-i), "ping -2")
		}
		frames := l.listen(1 + len(want))
		require.Len(t, frames[0], 12+big)
		require.Equal(t, want, named(frames[1:]))
		for i := range 20 {
			require.Equal(t, bytes.Repeat([]byte{byte(i)}, 10), frames[1+3*i][12:], "go-zookeeper uses its buffer again")
			require.Equal(t, bytes.Repeat([]byte{byte(i)}, 10_000), frames[2+3*i][12:])
		}
		l.requireLive()
	})
}

// requireLive is requireUp for a link that keeps no books.
func (l *link) requireLive() {
	l.t.Helper()
	synctest.Wait()
	require.NoError(l.t, l.conn.Cause())
}

// Many at once: every call gets its own answer, go-zookeeper's frames keep their
// order, and no frame is torn, lost or sent twice.
func TestCallsOfManyGoroutinesGoOutWithGoZookeepersFrames(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		const callers, each = 16, 50
		l := r.deaf()
		var names []string
		served := make(chan struct{})
		go func() {
			defer close(served)
			for range callers*each + each {
				frame, err := jute.ReadFrame(l.server, 1<<30)
				if err != nil {
					return
				}
				names = append(names, named([][]byte{frame})...)
				xid := jute.NewDecoder(frame[4:]).Int32()
				l.server.Write(reply(xid, 1, 0, frame[12:min(len(frame), 32)]...))
			}
		}()
		var wg sync.WaitGroup
		for caller := range callers {
			wg.Go(func() {
				for i := range each {
					mine := fmt.Sprintf("%08d %08d", caller, i)
					call := l.start(append([]byte(mine), make([]byte, (caller*i*37)%5000+3)...)...)
					<-call.Done()
					_, record, err := call.Result()
					if err != nil || !strings.HasPrefix(string(record), mine) {
						t.Errorf("%s was answered %q, %v", mine, record, err)
						return
					}
				}
			})
		}
		wg.Go(func() {
			for i := range int32(each) {
				l.conn.Write(requesting(i+1, jute.OpDelete))
			}
		})
		wg.Wait()
		<-served
		l.requireLive()
		goZookeepers, calls := int64(0), int64(-xidFirstCall-1)
		for _, name := range names {
			op, n, _ := strings.Cut(name, " ")
			xid, _ := strconv.ParseInt(n, 10, 64)
			if op == "delete" {
				goZookeepers++
				require.Equal(t, goZookeepers, xid)
			} else {
				calls++
				require.Equal(t, -calls, xid)
			}
		}
		require.Len(t, names, callers*each+each)
		require.Zero(t, l.conn.pendingBytes, "all of it was answered")
	})
}

func TestACallReturnsAtOnceWhereTheServerDoesNotRead(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		l := r.deaf()
		began := time.Now()
		var calls []*Call
		for range 10 {
			calls = append(calls, l.start(make([]byte, 1<<20)...), l.start())
		}
		require.Zero(t, time.Since(began))
		time.Sleep(asked/2 - 1)
		for _, call := range calls {
			require.False(t, over(call))
		}
		time.Sleep(time.Nanosecond)
		for i, call := range calls {
			err := l.endOf(call)
			require.True(t, err == ErrNoReply || i > 0 && err == ErrNotSent, "%d: %v", i, err)
		}
		require.ErrorContains(t, l.conn.Cause(), "timeout", "a server that does not read is left")
	})
}

// A pipe has no buffer, so even the smallest write waits for the other end.
func TestASmallCallReturnsAtOnceOnAPipe(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		l := r.deaf()
		began := time.Now()
		call := l.call()
		require.Zero(t, time.Since(began))
		l.conn.Close()
		require.ErrorIs(t, l.endOf(call), ErrNoReply)
	})
}

// Each write is to be done within half the timeout; what has gathered is no one
// write.
func TestLargeFramesThatHaveGatheredAreWrittenOneByOne(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		const n = 6
		l := r.deaf()
		var calls []*Call
		for range n {
			calls = append(calls, l.start(make([]byte, 1<<20)...))
		}
		for i, call := range calls {
			time.Sleep(asked/2 - time.Second)
			l.listen(1)
			l.answer(reply(xidFirstCall-int32(i), 1, 0))
			require.NoError(t, l.endOf(call))
		}
		l.requireLive()
	})
}

// On a socket, small calls are written by their callers, for as long as the
// socket takes them whatever the server does.
func TestCallsReturnWhereASocketIsFull(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	leave := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		nc.(*net.TCPConn).SetReadBuffer(64 << 10)
		if _, err := jute.ReadFrame(nc, 4096); err == nil {
			nc.Write(welcoming(time.Hour, session))
		}
		<-leave // and reads no more
	})
	nc, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	require.NoError(t, nc.(*net.TCPConn).SetWriteBuffer(64<<10))
	s := NewSession(Config{
		Timeout: time.Hour, Leases: func() bool { return false },
		Up: func(uint64) {}, Down: func(uint64, error) {},
	})
	conn := s.Wrap(nc, s.Attempt())
	conn.Write(connectRequest(0))
	_, err = jute.ReadFrame(conn, 4096)
	require.NoError(t, err)
	wg.Go(func() { io.Copy(io.Discard, conn) })

	var calls []*Call
	for range 20_000 {
		calls = append(calls, conn.Call(jute.OpMulti, record(100)))
	}
	calls = append(calls, conn.Call(jute.OpMulti, record(1<<20)))
	for _, call := range calls {
		require.False(t, over(call))
	}
	require.NoError(t, conn.Cause())
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
	close(leave)
	wg.Wait()
}

// lingering is a connection that takes its time to close.
type lingering struct {
	net.Conn
	closing, free chan struct{}
}

func (c lingering) Close() error {
	close(c.closing)
	<-c.free
	return c.Conn.Close()
}

// Who repeats a call that was not sent would else do so at once, and again, for
// as long as it takes until Down is told.
func TestACallMadeWhileTheConnectionEndsEndsAfterDownToo(t *testing.T) {
	client, server := net.Pipe()
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := jute.ReadFrame(server, 4096); err == nil {
			server.Write(welcoming(asked, session))
		}
	})
	down := make(chan struct{})
	s := NewSession(Config{
		Timeout: asked, Leases: func() bool { return false },
		Up: func(uint64) {}, Down: func(uint64, error) { close(down) },
	})
	nc := lingering{client, make(chan struct{}), make(chan struct{})}
	conn := s.Wrap(nc, s.Attempt())
	conn.Write(connectRequest(0))
	_, err := jute.ReadFrame(conn, 4096)
	require.NoError(t, err)
	wg.Go(func() { conn.Close() })
	<-nc.closing
	call := conn.Call(jute.OpMulti, record(0))
	require.False(t, over(call))
	close(nc.free)
	<-call.Done()
	<-down
	_, _, err = call.Result()
	require.ErrorIs(t, err, ErrNotSent)
	wg.Wait()
	server.Close()
}

func TestAReplyThatComesAfterTheEndIsNobodys(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		l := r.bare()
		take := func(n int) error {
			_, err := io.ReadFull(l.conn, make([]byte, n))
			synctest.Wait()
			return err
		}
		l.write(connectRequest(0))
		go l.server.Write(welcoming(asked, session))
		require.NoError(t, take(len(welcoming(asked, session))))
		call := l.call()
		before := r.ValidUntil()
		time.Sleep(time.Second)
		fired := event(jute.EventDeleted, "/a")
		go l.server.Write(append(fired, reply(xidFirstCall, 70, 0, 'x')...)) // both are read at once
		require.NoError(t, take(len(fired)-1))
		l.conn.Close()
		require.ErrorIs(t, l.endOf(call), ErrNoReply)

		require.NoError(t, take(1), "what was begun is seen through")
		require.ErrorIs(t, take(1), errClosed, "and nothing follows")
		require.Equal(t, before, r.ValidUntil())
		_, record, err := call.Result()
		require.ErrorIs(t, err, ErrNoReply)
		require.Empty(t, record)
	})
}

func TestAReplyToACallThatNobodyMadeIsDropped(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		before := r.ValidUntil()
		time.Sleep(time.Second)
		l.answer(reply(xidFirstCall, 5, 0, 'x'), reply(xidLastCall, 5, 0), reply(-1<<31, 5, 0))
		require.Empty(t, l.read())
		require.Equal(t, before, r.ValidUntil())
		call := l.call()
		l.answer(reply(xidFirstCall, 6, 0), reply(xidFirstCall, 7, 0)) // the second one once more
		require.NoError(t, l.endOf(call))
		l.requireUp()
	})
}

func TestXidsOfCallsWrapAround(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
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
			require.Less(t, xid, xidSync, "those of events, pings, credentials and the sync are higher")
			want = append(want, fmt.Sprintf("multi %d", xid))
		}
		require.Equal(t, want, l.sent())
		for i, xid := range xids {
			l.answer(reply(xid, 1, int32(i)))
		}
		for i, call := range calls {
			require.NoError(t, l.endOf(call))
			code, _, _ := call.Result()
			require.Equal(t, int32(i), code)
		}
	})
}

func TestXidsOfCallsBeginAnewOnEachConnection(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		first := l.call()
		l = r.resume(l)
		second := l.call()
		require.Equal(t, []string{fmt.Sprintf("multi %d", xidFirstCall)}, l.sent())
		l.answer(reply(xidFirstCall, 1, 0))
		require.ErrorIs(t, l.endOf(first), ErrNoReply)
		require.NoError(t, l.endOf(second))
	})
}

// The clock, the zxid and the gate.

func TestAnAnswerToACallCountsFromItsSending(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		for i, code := range []int32{0, jute.ErrNoNode, jute.ErrConnectionLoss, jute.ErrThrottled} {
			time.Sleep(time.Second)
			sent := time.Now()
			l.call()
			time.Sleep(time.Second)
			require.NotEqual(t, sent.Add(granted), r.ValidUntil(), "not answered yet")
			l.answer(reply(xidFirstCall-int32(i), 0, code))
			require.Equal(t, sent.Add(granted), r.ValidUntil(), "error %d", code)
		}
	})
}

func TestAnswersToCallsThatSayNothingOfTheSessionDoNotCount(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		before := r.ValidUntil()
		time.Sleep(time.Second)
		expired, moved := l.call(), l.call()
		l.answer(reply(xidFirstCall, 0, jute.ErrSessionExpired), reply(xidFirstCall-1, 0, jute.ErrSessionMoved))
		require.NoError(t, l.endOf(expired))
		require.NoError(t, l.endOf(moved))
		require.Equal(t, before, r.ValidUntil())
	})
}

// The reply to a transaction bears no error itself: its results do.
func TestTransactionsRefusedForTheSessionDoNotCount(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		results := func(codes ...int32) (b []byte) {
			for _, code := range codes {
				b = jute.AppendInt32(append(jute.AppendInt32(b, -1), 0), code)
				b = jute.AppendInt32(b, code)
			}
			return jute.AppendInt32(append(jute.AppendInt32(b, -1), 1), -1)
		}
		l := r.connect()
		before := r.ValidUntil()
		time.Sleep(time.Second)
		sent := time.Now()
		for i, codes := range [][]int32{{jute.ErrSessionExpired}, {0, jute.ErrSessionMoved, -2}} {
			l.call()
			l.answer(reply(xidFirstCall-int32(i), 0, 0, results(codes...)...))
			require.Equal(t, before, r.ValidUntil(), "%d", codes)
		}
		l.call()
		l.answer(reply(xidFirstCall-2, 0, 0, results(0, jute.ErrNoNode)...))
		require.Equal(t, sent.Add(granted), r.ValidUntil())
	})
}

// A call that waits for another to be written is sent after it.
func TestACallThatWaitedCountsFromWhenItWasSent(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		l := r.deaf()
		made := time.Now()
		l.call(make([]byte, big)...) // it is being written
		waiting := l.call()
		time.Sleep(time.Second)
		l.listen(2)
		sent := made.Add(time.Second)
		time.Sleep(time.Second)
		l.answer(reply(xidFirstCall, 0, 0))
		require.Equal(t, made.Add(granted), r.ValidUntil(), "the writing began then")
		l.answer(reply(xidFirstCall-1, 0, 0))
		require.NoError(t, l.endOf(waiting))
		require.Equal(t, sent.Add(granted), r.ValidUntil())
	})
}

func TestPingsAmongCallsAreMatchedInTheOrderOfTheirSending(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		l := r.deaf()
		first := time.Now()
		go l.listen(1)
		l.write(ping())
		time.Sleep(time.Second)
		l.call(make([]byte, big)...) // it is being written
		l.write(ping())
		time.Sleep(time.Second)
		l.listen(2)
		second := time.Now()
		l.answer(reply(jute.XidPing, 0, 0))
		require.Equal(t, first.Add(granted), r.ValidUntil())
		l.answer(reply(jute.XidPing, 0, 0))
		require.Equal(t, second.Add(granted), r.ValidUntil())
	})
}

func TestTheZxidOfACallsReplyCounts(t *testing.T) {
	for _, code := range []int32{0, jute.ErrNoNode} {
		scripted(t, nil, func(t *testing.T, r *rig) {
			l := r.connect()
			l.watching("/a")
			l.call()
			l.call()
			l.answer(reply(xidFirstCall-1, 71, code), reply(xidFirstCall, 70, code))
			l.server.Close()

			l = r.dial()
			l.write(connectRequest(session))
			require.Equal(t, int64(71), lastSeen(t, l.frames()))
			l.answer(welcoming(asked, session))
			l.write(setWatches(3, []string{"/a"}, nil, nil))
			require.Equal(t, int64(71), relative(t, l.frames()))
		})
	}
}

// A call that is made as soon as it may be goes behind what was held.
func TestACallMadeWhenTheGateOpensGoesBehindWhatWasHeld(t *testing.T) {
	for _, leases := range []bool{false, true} {
		scripted(t, nil, func(t *testing.T, r *rig) {
			var resumed atomic.Pointer[link]
			var call *Call
			r.cfg.Up = func(conn uint64) {
				if conn == 2 {
					call = resumed.Load().start()
				}
			}
			first := r.connect()
			first.watching("/a")
			r.leases.Store(leases)
			first.server.Close()
			l := r.dial()
			resumed.Store(l)
			l.write(connectRequest(session))
			l.answer(welcoming(asked, session))
			l.frames()
			l.write(requesting(1, jute.OpDelete), requesting(2, jute.OpCreate), setWatches(3, []string{"/a"}, nil, nil))
			l.answer(reply(3, 0, 0))
			want := []string{"setWatches 3", "delete 1", "create 2", fmt.Sprintf("multi %d", xidFirstCall)}
			if leases {
				l.answer(reply(xidSync, 0, 0, jute.AppendString(nil, "/")...))
				want = append([]string{"setWatches 3", "sync -1000"}, want[1:]...)
			}
			require.Equal(t, want, l.sent())
			l.answer(reply(xidFirstCall, 1, 0))
			require.NoError(t, l.endOf(call))
		})
	}
}

func TestWhatIsAnsweredIsNoLongerCountedAsUnanswered(t *testing.T) {
	scripted(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		for i := range int32(3) {
			l.call(make([]byte, 1000)...)
			l.write(requesting(10+i, jute.OpDelete), ping())
			synctest.Wait()
			l.answer(reply(10+i, 0, 0), reply(xidFirstCall-i, 0, 0), reply(jute.XidPing, 0, 0), reply(xidFirstCall-i, 0, 0))
		}
		l.conn.mu.Lock()
		defer l.conn.mu.Unlock()
		require.Zero(t, l.conn.pendingBytes)
		require.Empty(t, l.conn.pending)
	})
}
