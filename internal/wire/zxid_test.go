package wire

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// presentedZxid returns the zxid of the only frame, a ConnectRequest or a setWatches.
func presentedZxid(t *testing.T, frames [][]byte) int64 {
	t.Helper()
	require.Len(t, frames, 1)
	d := jute.NewDecoder(frames[0][4:])
	if d.Int32() != 0 {
		require.Equal(t, jute.OpSetWatches, d.Int32())
	}
	return d.Int64()
}

func TestConnectRequestAndSetWatchesBearTheHighestZxidOfAReply(t *testing.T) {
	eachInBubble(t, nil, map[string]func(l *link){
		"go-zookeeper's": func(l *link) {
			l.write(readRequest(1, jute.OpGetData, "/b", false), requestFrame(2, jute.OpDelete), ping())
			l.answer(reply(1, 70, 0, record(jute.OpGetData)...), reply(2, 71, jute.ErrNoNode)) // an error has a zxid too
			l.answer(reply(jute.XidPing, 90, 0), event(jute.EventDeleted, "/c"))
			require.Equal(l.t, [][]byte{reply(1, 0, 0, record(jute.OpGetData)...), reply(2, 0, jute.ErrNoNode)},
				l.read()[:2], "go-zookeeper sees no zxid")
		},
		"a Call's": func(l *link) {
			l.call()
			l.call()
			l.answer(reply(xidFirstCall-1, 71, 0), reply(xidFirstCall, 70, 0))
		},
		"an error of a Call": func(l *link) {
			l.call()
			l.call()
			l.answer(reply(xidFirstCall-1, 71, jute.ErrNoNode), reply(xidFirstCall, 70, jute.ErrNoNode))
		},
	}, func(t *testing.T, r *rig, advance func(l *link)) {
		l := r.connect()
		l.setDataWatches("/a")
		advance(l)
		l.server.Close()

		l = r.handshake()
		require.Equal(t, int64(71), presentedZxid(t, l.frames()))
		l.answer(welcome())
		l.write(setWatches(3, []string{"/a"}, nil, nil))
		require.Equal(t, int64(71), presentedZxid(t, l.frames()))
	})
}

// A lagging server must not take the session of a client that has acted upon an event. But watches
// are armed again from the last reply: else another event of the same transaction would be lost with
// the connection, and so would that of a watch which was not armed when the event came.
func TestOnlyTheConnectRequestBearsTheZxidOfAnEvent(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		l.setDataWatches("/a", "/b", "/c")
		l.write(readRequest(1, jute.OpGetData, "/", false))
		l.answer(reply(1, 70, 0, record(jute.OpGetData)...), event(jute.EventDeleted, "/unknown"))
		l.answer(eventOf(90, jute.EventDataChanged, "/a")) // that of /b is lost
		l.read()
		l.server.Close()

		l = r.handshake()
		require.Equal(t, int64(90), presentedZxid(t, l.frames()))
		l.answer(welcome())
		l.write(setWatches(2, []string{"/b"}, nil, nil))
		require.Equal(t, int64(70), presentedZxid(t, l.frames()))
		l.answer(reply(2, 95, 0), eventOf(95, jute.EventDeleted, "/b")) // one that /b got anew
		l.read()
		l.write(setWatches(3, []string{"/c"}, nil, nil))
		require.Equal(t, int64(70), presentedZxid(t, l.frames()))
		l.server.Close()
		require.Equal(t, int64(95), presentedZxid(t, r.handshake().frames()))
	})
}

// If the connection is lost between two setWatches, the watches of the second
// must not be compared with a zxid at which they were not armed.
func TestTheReplyToSetWatchesAdvancesNoZxid(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		l.setDataWatches("/a", "/b")
		l.write(readRequest(1, jute.OpGetData, "/", false))
		l.answer(reply(1, 70, 0, record(jute.OpGetData)...))
		l = r.resume(l)
		l.write(setWatches(2, []string{"/a"}, nil, nil))
		l.answer(reply(2, 99, 0))
		l.sent()
		l.write(setWatches(3, []string{"/b"}, nil, nil))
		require.Equal(t, int64(70), presentedZxid(t, l.frames()), "not on the same connection either")
		l.server.Close()
		require.Equal(t, int64(70), presentedZxid(t, r.handshake().frames()))
	})
}

// go-zookeeper must have read the whole reply. Otherwise its table of watches
// and the Session's copy would differ.
func TestAReplyTakesEffectWhenItsLastByteIsDelivered(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.dialWithoutReader()
		delivers := func(frame []byte, reported string, early func()) {
			t.Helper()
			go l.server.Write(frame)
			for _, part := range [][]byte{make([]byte, len(frame)-1), make([]byte, 1)} {
				require.Empty(t, r.reported())
				early()
				_, err := io.ReadFull(l.conn, part)
				require.NoError(t, err)
			}
			require.Equal(t, []string{reported}, r.reported())
		}
		l.write(connectRequest(0))
		delivers(welcome(), "up 1", func() { require.Zero(t, r.ID()) })
		require.Equal(t, int64(sessionID), r.ID())

		l.write(readRequest(1, jute.OpGetData, "/a", true))
		delivers(reply(1, 70, 0, record(jute.OpGetData)...), "armed /a on 1", func() { require.Zero(t, r.armedFrom()) })
		require.Equal(t, int64(70), r.armedFrom())

		delivers(event(jute.EventDeleted, "/a"), "event 2 /a on 1", func() {})
	})
}
