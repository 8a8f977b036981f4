package wire

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

func TestANewSessionOpensWithoutAGate(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.leases.Store(true)
		l := r.connect()
		require.Equal(t, []string{"up 1"}, r.reported())
		l.write(readRequest(1, jute.OpGetData, "/a", false))
		require.Equal(t, []string{"getData 1"}, l.sent())
	})
}

func TestAResumedConnectionWithoutWatchesOpensWithoutAGate(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.resume(r.connect())
		require.Equal(t, []string{"up 2"}, r.reported())
		l.write(readRequest(1, jute.OpGetData, "/a", false))
		require.Equal(t, []string{"getData 1"}, l.sent())
	})
}

func TestTheGateHoldsAllRequestsButSetWatchesPingAndClose(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		first := r.connect()
		first.setDataWatches("/a")
		l := r.resume(first)
		require.Empty(t, r.reported(), "not up yet")
		var held []string
		for i, op := range []int32{
			jute.OpCreate, jute.OpDelete, jute.OpExists, jute.OpGetData, jute.OpSetData, jute.OpGetACL, jute.OpSetACL,
			jute.OpGetChildren, jute.OpSync, jute.OpGetChildren2, jute.OpCheck, jute.OpMulti, jute.OpCreateContainer,
			jute.OpAuth, 21, 16, // createTTL, reconfig
		} {
			l.write(readRequest(int32(i+1), op, "/a", false))
			held = append(held, fmt.Sprintf("%s %d", jute.OpName(op), i+1))
		}
		require.Empty(t, l.sent())
		l.write(ping(), setWatches(50, []string{"/a"}, nil, nil))
		require.Equal(t, []string{"ping -2", "setWatches 50"}, l.sent())
		l.answer(reply(jute.XidPing, 0, 0))
		require.Empty(t, l.sent())
		require.Empty(t, r.reported())
		l.answer(reply(50, 0, 0))
		require.Equal(t, held, l.sent(), "in order")
		require.Equal(t, []string{"up 2"}, r.reported())
		require.Len(t, l.read(), 2, "the replies to ping and setWatches are go-zookeeper's")
		l.write(readRequest(60, jute.OpGetData, "/a", false))
		require.Equal(t, []string{"getData 60"}, l.sent(), "the gate stays open")

		l = r.resume(l)
		l.write(requestFrame(61, jute.OpDelete), requestFrame(62, jute.OpClose))
		require.Equal(t, []string{"closeSession 62"}, l.sent())
	})
}

func TestHeldFramesAreCopies(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		first := r.connect()
		first.setDataWatches("/a")
		l := r.resume(first)
		frames := [][]byte{
			requestFrame(1, jute.OpSetData, []byte("first")...), requestFrame(2, jute.OpSetData, []byte("second")...),
		}
		l.write(frames...) // write clears its buffer
		l.write(setWatches(3, []string{"/a"}, nil, nil))
		l.frames()
		l.answer(reply(3, 0, 0))
		require.Equal(t, frames, l.frames())
	})
}

func TestTheGateOpensWhenEveryWatchIsArmedAgain(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		first := r.connect()
		first.setDataWatches("/a", "/b")
		first.write(readRequest(1, jute.OpExists, "/a", true), readRequest(2, jute.OpGetChildren2, "/a", true))
		first.answer(reply(1, 0, jute.ErrNoNode), reply(2, 0, 0, record(jute.OpGetChildren2)...))
		l := r.resume(first)
		l.write(requestFrame(3, jute.OpSync))
		for xid, chunk := range [][]byte{
			setWatches(10, []string{"/a"}, nil, nil),
			setWatches(11, []string{"/other"}, nil, nil), // left from an earlier connection
			setWatches(12, nil, []string{"/a"}, nil),
			setWatches(13, nil, nil, []string{"/a"}),
		} {
			l.write(chunk)
			l.answer(reply(int32(10+xid), 0, 0))
			require.NotContains(t, l.sent(), "sync 3")
		}
		l.write(setWatches(14, []string{"/b"}, nil, nil))
		require.Equal(t, []string{"setWatches 14"}, l.sent(), "sent, but not answered")
		l.answer(reply(14, 0, 0))
		require.Equal(t, []string{"sync 3"}, l.sent())
	})
}

// For each watch whose znode has changed meanwhile, the server answers a
// setWatches with an event, before the reply.
func TestEventsDuringRearmingDoNotKeepTheGateClosed(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		first := r.connect()
		first.setDataWatches("/a", "/b")
		l := r.resume(first)
		l.write(requestFrame(1, jute.OpSync), setWatches(2, []string{"/a", "/b"}, nil, nil))
		l.answer(event(jute.EventDeleted, "/a"))
		require.Equal(t, []string{"event 2 /a on 2"}, r.reported())
		require.NotContains(t, l.sent(), "sync 1")
		l.answer(reply(2, 0, 0))
		require.Equal(t, []string{"sync 1"}, l.sent())
		require.Equal(t, []string{"data /b"}, r.armedWatches())
	})
}

func TestSetWatchesAfterTheGateHasOpenedIsHarmless(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		first := r.connect()
		first.setDataWatches("/a")
		l := r.resume(first)
		for xid := range int32(3) {
			l.write(setWatches(xid, []string{"/a"}, nil, nil))
			l.answer(reply(xid, 0, 0))
		}
		require.Equal(t, []string{"up 2"}, r.reported())
		l.write(requestFrame(9, jute.OpSync))
		require.Contains(t, l.sent(), "sync 9")
		l.requireUp()
	})
}

func TestAnErrorReplyToSetWatchesClosesTheConnection(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		first := r.connect()
		first.setDataWatches("/a")
		l := r.resume(first)
		l.write(requestFrame(1, jute.OpSync), setWatches(2, []string{"/a"}, nil, nil))
		l.sent()
		l.answer(reply(2, 0, -6)) // Unimplemented
		require.ErrorContains(t, l.down(), "error -6")
		require.Empty(t, l.sent())
		require.Equal(t, []string{"data /a"}, r.armedWatches(), "the next connection tries again")
	})
}

func TestWatchesNotArmedAgainWithinHalfTheTimeoutCloseTheConnection(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		first := r.connect()
		first.setDataWatches("/a", "/b")
		l := r.resume(first)
		began := time.Now()
		l.write(requestFrame(1, jute.OpSync), setWatches(2, []string{"/a"}, nil, nil))
		l.answer(reply(2, 0, 0))
		for time.Since(began) < sessionTimeout/2-time.Second { // the server answers everything else
			time.Sleep(time.Second)
			l.write(ping())
			l.answer(reply(jute.XidPing, 0, 0))
		}
		time.Sleep(sessionTimeout/2 - time.Since(began) - 1)
		l.requireUp()
		time.Sleep(time.Nanosecond)
		require.ErrorIs(t, l.down(), errRearmTimeout)
		require.NotContains(t, l.sent(), "sync 1")
		require.Len(t, r.reported(), 1)
	})
}

func TestTheGateOpensAfterASyncIfALeaseIsHeld(t *testing.T) {
	for _, watches := range [][]string{nil, {"/a"}} {
		inBubble(t, nil, func(t *testing.T, r *rig) {
			first := r.connect()
			first.setDataWatches(watches...)
			r.leases.Store(true)
			first.server.Close()
			r.reported()
			l := r.dial()
			l.write(connectRequest(sessionID))
			l.answer(connectReply(sessionTimeout, sessionID))
			l.read()
			l.write(readRequest(1, jute.OpGetData, "/x", false))
			if watches != nil {
				l.write(setWatches(2, watches, nil, nil))
				time.Sleep(time.Second)
				require.NotContains(t, l.sent(), "sync -1000", "the watches must be armed first")
				l.answer(reply(2, 0, 0))
				require.Len(t, l.read(), 1)
				require.Equal(t, []string{"sync -1000"}, l.sent())
			} else {
				require.Contains(t, l.sent(), "sync -1000")
			}
			require.Empty(t, r.reported(), "not up yet")
			sent := time.Now()
			time.Sleep(time.Second)
			l.answer(reply(xidSync, 80, 0, jute.AppendString(nil, "/")...))
			require.Equal(t, []string{"getData 1"}, l.sent())
			require.Empty(t, l.read(), "the answer is not go-zookeeper's")
			require.Equal(t, []string{"up 2"}, r.reported())
			require.Equal(t, int64(80), r.lastSeenZxid())
			require.Equal(t, sent.Add(validFor), r.ValidUntil(), "the reply proves that the session is alive")
		})
	}
}

func TestASyncThatFailsOrIsNotAnsweredClosesTheConnection(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.leases.Store(true)
		l := r.resume(r.connect())
		l.write(requestFrame(1, jute.OpDelete))
		l.answer(reply(xidSync, 0, jute.ErrConnectionLoss))
		require.ErrorContains(t, l.down(), "sync")

		l = r.connect()
		l.write(requestFrame(2, jute.OpDelete))
		for range 4 {
			l.requireUp()
			l.write(ping())
			l.answer(reply(jute.XidPing, 0, 0))
			time.Sleep(sessionTimeout / 8)
		}
		require.ErrorIs(t, l.down(), errRearmTimeout)
		require.NotContains(t, l.sent(), "delete 2")
	})
}

func TestHeldFramesAreDroppedWithTheConnection(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		first := r.connect()
		first.setDataWatches("/a")
		l := r.resume(first)
		l.write(requestFrame(1, jute.OpDelete))
		l = r.resume(l) // go-zookeeper fails the request
		l.write(setWatches(2, []string{"/a"}, nil, nil))
		l.answer(reply(2, 0, 0))
		require.Equal(t, []string{"setWatches 2"}, l.sent())
	})
}
