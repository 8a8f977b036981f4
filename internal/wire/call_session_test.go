package wire

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

func TestAReplyToACallExtendsValidUntilFromTheSending(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		for i, code := range []int32{0, jute.ErrNoNode, jute.ErrConnectionLoss, jute.ErrThrottled} {
			time.Sleep(time.Second)
			sent := time.Now()
			l.call()
			time.Sleep(time.Second)
			require.NotEqual(t, sent.Add(validFor), r.ValidUntil(), "not answered yet")
			l.answer(reply(xidFirstCall-int32(i), 0, code))
			require.Equal(t, sent.Add(validFor), r.ValidUntil(), "error %d", code)
		}
	})
}

func TestSessionErrorsInRepliesToCallsDoNotExtendValidUntil(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		before := r.ValidUntil()
		time.Sleep(time.Second)
		expired, moved := l.call(), l.call()
		l.answer(reply(xidFirstCall, 0, jute.ErrSessionExpired), reply(xidFirstCall-1, 0, jute.ErrSessionMoved))
		require.NoError(t, l.await(expired))
		require.NoError(t, l.await(moved))
		require.Equal(t, before, r.ValidUntil())
	})
}

// The header of the reply to a transaction bears no error: its results do.
func TestSessionErrorsInTransactionsDoNotExtendValidUntil(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
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
		require.Equal(t, sent.Add(validFor), r.ValidUntil())
	})
}

func TestAQueuedCallExtendsValidUntilFromItsWrite(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.connectStalled()
		made := time.Now()
		l.call(make([]byte, bigRecord)...) // it is being written
		waiting := l.call()
		time.Sleep(time.Second)
		l.readRequests(2)
		sent := made.Add(time.Second)
		time.Sleep(time.Second)
		l.answer(reply(xidFirstCall, 0, 0))
		require.Equal(t, made.Add(validFor), r.ValidUntil(), "its write began then")
		l.answer(reply(xidFirstCall-1, 0, 0))
		require.NoError(t, l.await(waiting))
		require.Equal(t, sent.Add(validFor), r.ValidUntil())
	})
}

func TestPingsAmongCallsAreMatchedInSendOrder(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.connectStalled()
		first := time.Now()
		go l.readRequests(1)
		l.write(ping())
		time.Sleep(time.Second)
		l.call(make([]byte, bigRecord)...) // it is being written
		l.write(ping())
		time.Sleep(time.Second)
		l.readRequests(2)
		second := time.Now()
		l.answer(reply(jute.XidPing, 0, 0))
		require.Equal(t, first.Add(validFor), r.ValidUntil())
		l.answer(reply(jute.XidPing, 0, 0))
		require.Equal(t, second.Add(validFor), r.ValidUntil())
	})
}

func TestTheZxidOfACallsReplyIsPresentedOnReconnect(t *testing.T) {
	for _, code := range []int32{0, jute.ErrNoNode} {
		inBubble(t, nil, func(t *testing.T, r *rig) {
			l := r.connect()
			l.setDataWatches("/a")
			l.call()
			l.call()
			l.answer(reply(xidFirstCall-1, 71, code), reply(xidFirstCall, 70, code))
			l.server.Close()

			l = r.dial()
			l.write(connectRequest(sessionID))
			require.Equal(t, int64(71), connectZxid(t, l.frames()))
			l.answer(connectReply(sessionTimeout, sessionID))
			l.write(setWatches(3, []string{"/a"}, nil, nil))
			require.Equal(t, int64(71), setWatchesZxid(t, l.frames()))
		})
	}
}

// Up is the first moment at which a Call may be made.
func TestACallMadeWhenTheGateOpensIsSentAfterTheHeldFrames(t *testing.T) {
	for _, leases := range []bool{false, true} {
		inBubble(t, nil, func(t *testing.T, r *rig) {
			var resumed atomic.Pointer[link]
			var call *Call
			r.cfg.Up = func(conn uint64) {
				if conn == 2 {
					call = resumed.Load().startCall()
				}
			}
			first := r.connect()
			first.setDataWatches("/a")
			r.leases.Store(leases)
			first.server.Close()
			l := r.dial()
			resumed.Store(l)
			l.write(connectRequest(sessionID))
			l.answer(connectReply(sessionTimeout, sessionID))
			l.frames()
			l.write(requestFrame(1, jute.OpDelete), requestFrame(2, jute.OpCreate), setWatches(3, []string{"/a"}, nil, nil))
			l.answer(reply(3, 0, 0))
			want := []string{"setWatches 3", "delete 1", "create 2", fmt.Sprintf("multi %d", xidFirstCall)}
			if leases {
				l.answer(reply(xidSync, 0, 0, jute.AppendString(nil, "/")...))
				want = append([]string{"setWatches 3", "sync -1000"}, want[1:]...)
			}
			require.Equal(t, want, l.sent())
			l.answer(reply(xidFirstCall, 1, 0))
			require.NoError(t, l.await(call))
		})
	}
}

func TestAnsweredRequestsAreRemovedFromPending(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		for i := range int32(3) {
			l.call(make([]byte, 1000)...)
			l.write(requestFrame(10+i, jute.OpDelete), ping())
			synctest.Wait()
			l.answer(reply(10+i, 0, 0), reply(xidFirstCall-i, 0, 0), reply(jute.XidPing, 0, 0), reply(xidFirstCall-i, 0, 0))
		}
		l.conn.mu.Lock()
		defer l.conn.mu.Unlock()
		require.Zero(t, l.conn.pendingBytes)
		require.Empty(t, l.conn.pending)
	})
}
