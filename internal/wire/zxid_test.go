package wire

import (
	"io"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// setWatchesZxid returns the zxid of the only frame, a setWatches.
func setWatchesZxid(t *testing.T, frames [][]byte) int64 {
	t.Helper()
	require.Len(t, frames, 1)
	d := jute.NewDecoder(frames[0][4:])
	d.Int32()
	require.Equal(t, jute.OpSetWatches, d.Int32())
	return d.Int64()
}

// connectZxid returns the zxid of the only frame, a ConnectRequest.
func connectZxid(t *testing.T, frames [][]byte) int64 {
	t.Helper()
	require.Len(t, frames, 1)
	d := jute.NewDecoder(frames[0][4:])
	require.Zero(t, d.Int32())
	return d.Int64()
}

func TestGoZookeeperSeesNoZxid(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		l.write(readRequest(1, jute.OpGetData, "/a", false), readRequest(2, jute.OpGetData, "/b", false))
		l.answer(reply(1, 70, 0, record(jute.OpGetData)...), reply(2, 71, jute.ErrNoNode))
		require.Equal(t, [][]byte{reply(1, 0, 0, record(jute.OpGetData)...), reply(2, 0, jute.ErrNoNode)}, l.read())
	})
}

func TestConnectRequestAndSetWatchesBearTheHighestZxidOfAReply(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		l.setDataWatches("/a")
		l.write(readRequest(1, jute.OpGetData, "/b", false), requestFrame(2, jute.OpDelete), ping())
		l.answer(reply(1, 70, 0, record(jute.OpGetData)...), reply(2, 71, jute.ErrNoNode)) // an error has a zxid too
		l.answer(reply(jute.XidPing, 90, 0), event(jute.EventDeleted, "/c"))
		l.server.Close()

		l = r.dial()
		l.write(connectRequest(sessionID))
		require.Equal(t, int64(71), connectZxid(t, l.frames()))
		l.answer(connectReply(sessionTimeout, sessionID))
		l.write(setWatches(3, []string{"/a"}, nil, nil))
		require.Equal(t, int64(71), setWatchesZxid(t, l.frames()))
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
		require.Equal(t, int64(70), setWatchesZxid(t, l.frames()), "not on the same connection either")
		l.server.Close()
		l = r.dial()
		l.write(connectRequest(sessionID))
		require.Equal(t, int64(70), connectZxid(t, l.frames()))
	})
}

// go-zookeeper must have read the whole reply. Otherwise its table of watches
// and the Session's copy would differ.
func TestAReplyTakesEffectWhenItsLastByteIsDelivered(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.dialWithoutReader()
		take := func(n int) {
			_, err := io.ReadFull(l.conn, make([]byte, n))
			require.NoError(t, err)
			synctest.Wait()
		}
		l.write(connectRequest(0))
		response := connectReply(sessionTimeout, sessionID)
		go l.server.Write(response)
		take(len(response) - 1)
		require.Empty(t, r.reported())
		require.Zero(t, r.ID())
		take(1)
		require.Equal(t, []string{"up 1"}, r.reported())
		require.Equal(t, int64(sessionID), r.ID())

		l.write(readRequest(1, jute.OpGetData, "/a", true))
		answer := reply(1, 70, 0, record(jute.OpGetData)...)
		go l.server.Write(answer)
		take(len(answer) - 1)
		require.Empty(t, r.reported())
		require.Zero(t, r.lastSeenZxid())
		take(1)
		require.Equal(t, []string{"armed /a on 1"}, r.reported())
		require.Equal(t, int64(70), r.lastSeenZxid())

		fired := event(jute.EventDeleted, "/a")
		go l.server.Write(fired)
		take(len(fired) - 1)
		require.Empty(t, r.reported())
		take(1)
		require.Equal(t, []string{"event 2 /a on 1"}, r.reported())
	})
}
