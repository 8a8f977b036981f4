package wire

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// presentedZxid returns the zxid of a ConnectRequest or a setWatches.
func presentedZxid(t *testing.T, frame []byte) int64 {
	t.Helper()
	d := jute.NewDecoder(frame[4:])
	if d.Int32() != 0 {
		require.Equal(t, jute.OpSetWatches, d.Int32())
	}
	return d.Int64()
}

// resumedAt makes the next connection of a session, and requires the zxids of its handshake and of its
// setWatches.
func (l *link) resumedAt(r *rig, connect, armed int64) *link {
	l.t.Helper()
	l.server.Close()
	r.reported()
	l = r.handshake()
	handshake := l.frames()
	require.Len(l.t, handshake, 1)
	require.Equal(l.t, connect, presentedZxid(l.t, handshake[0]))
	l.answer(welcome())
	sent := l.frames()
	require.NotEmpty(l.t, sent)
	for _, frame := range sent {
		require.Equal(l.t, armed, presentedZxid(l.t, frame))
	}
	return l
}

func TestConnectRequestAndSetWatchesBearTheHighestZxidOfAReply(t *testing.T) {
	for _, code := range []int32{0, jute.ErrNoNode} { // an error has a zxid, too
		inBubble(t, nil, func(t *testing.T, r *rig) {
			r.watches.Data = []string{"/a"}
			l := r.connect()
			l.call()
			l.call()
			l.write(ping())
			l.answer(reply(xidFirstCall-1, 71, code), reply(xidFirstCall, 70, code))
			l.answer(reply(jute.XidPing, 90, 0), event(jute.EventDeleted, "/c"))
			l.resumedAt(r, 71, 71)
		})
	}
}

// A lagging server must not take the session of a client that has acted upon an event. But watches
// are armed again from the last reply: else another event of the same transaction would be lost with
// the connection, and so would that of a watch which was not armed when the event came.
func TestOnlyTheConnectRequestBearsTheZxidOfAnEvent(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.watches.Data = []string{"/b", "/c"}
		l := r.connect()
		l.call()
		l.answer(reply(xidFirstCall, 70, 0), event(jute.EventDeleted, "/unknown"))
		l.answer(eventOf(90, jute.EventDataChanged, "/a")) // that of /b is lost
		l = l.resumedAt(r, 90, 70)
		l.answer(eventOf(95, jute.EventDeleted, "/b"))
		l.resumedAt(r, 95, 70)
	})
}

// resumedWithTwo returns the second connection of a session, which has sent two setWatches.
func (r *rig) resumedWithTwo() *link {
	r.t.Helper()
	r.watches.Data = []string{"/" + string(make([]byte, maxSetWatches)), "/b"}
	l := r.connect()
	l.call()
	l.answer(reply(xidFirstCall, 70, 0))
	return l.resumedAt(r, 70, 70)
}

// If the connection is lost between two setWatches, the watches of the second
// must not be compared with a zxid at which they were not armed.
func TestTheReplyToSetWatchesAdvancesNoZxid(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.resumedWithTwo()
		l.answer(reply(xidFirstCall, 99, 0))
		l = l.resumedAt(r, 70, 70)
		l.answer(reply(xidFirstCall, 99, 0), reply(xidFirstCall-1, 99, 0))
		require.Contains(t, r.reported(), "up 3")
		require.Equal(t, int64(70), r.armedFrom(), "until another reply has come")
	})
}

// What is still read once the connection is closed answers nothing any more.
func TestAReplyToSetWatchesThatIsReadAfterCloseAdvancesNoZxid(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.resumedWithTwo()
		l.answer(append(reply(xidFirstCall, 99, jute.ErrThrottled), reply(xidFirstCall-1, 99, 0)...)) // both in one read
		require.Error(t, l.down())
		l.resumedAt(r, 70, 70)
	})
}

func TestAFrameForGoZookeeperTakesEffectWhenItsLastByteIsDelivered(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.dialWithoutReader()
		delivers := func(frame []byte, happened func() bool) {
			t.Helper()
			go l.server.Write(frame)
			for _, part := range [][]byte{make([]byte, len(frame)-1), make([]byte, 1)} {
				r.reported()
				require.False(t, happened())
				_, err := io.ReadFull(l.conn, part)
				require.NoError(t, err)
			}
			require.True(t, happened())
		}
		l.write(connectRequest(0))
		delivers(welcome(), func() bool { return r.ID() == sessionID })
		l.write(requestFrame(1, jute.OpClose))
		delivers(reply(1, 70, 0), r.Over)
	})
}
