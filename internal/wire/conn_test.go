package wire

import (
	"crypto/tls"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

func TestWriteNeverFailsAndReadReportsTheCause(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		l.socket.broken.Store(true)
		r.reported()
		l.write(ping()) // requires no error
		require.ErrorIs(t, l.down(), errBroken)
		l.write(ping(), ping())
		require.Equal(t, []string{"down 1: write: broken"}, r.reported(), "reported once")

		l = r.dial()
		l.socket.broken.Store(true)
		l.write(connectRequest(sessionID))
		require.ErrorIs(t, l.down(), errBroken)
		l.write([]byte{0, 0}, nil)

		l = r.dial()
		l.write([]byte{0, 0})
		require.ErrorIs(t, l.down(), jute.ErrShort)
		l = r.connect()
		l.write(jute.Frame([]byte{1, 2}))
		require.ErrorIs(t, l.down(), jute.ErrShort)
		l = r.connect()
		l.write(requestFrame(1, jute.OpDelete))
		require.ErrorContains(t, l.down(), "go-zookeeper sends delete, for which nobody has asked it")
	})
}

func TestAConnectionToAServerThatDoesNotReadIsClosedAfterHalfTheTimeout(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.connectStalled()
		began := time.Now()
		time.AfterFunc(time.Second, func() { l.server.Write(event(jute.EventCreated, "/a")) }) // it is not silent
		l.write(ping())                                                                        // requires no error
		require.Equal(t, sessionTimeout/2, time.Since(began))
		require.ErrorContains(t, l.conn.closedBy(), "write")
	})
}

func TestAServerSilentForHalfTheTimeoutIsDisconnected(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		for range 3 {
			for _, at := range []time.Time{time.Now().Add(-time.Second), time.Now().Add(time.Hour)} { // go-zookeeper's deadlines are ignored
				require.NoError(t, l.conn.SetDeadline(at))
				require.NoError(t, l.conn.SetReadDeadline(at))
				require.NoError(t, l.conn.SetWriteDeadline(at))
			}
			time.Sleep(sessionTimeout/2 - 1)
			l.write(ping()) // sending does not count
			l.requireUp()
			l.answer(event(jute.EventCreated, "/a")) // any frame will do
		}
		time.Sleep(sessionTimeout/2 - 1)
		l.write(ping())
		l.requireUp()
		time.Sleep(time.Nanosecond)
		var late net.Error
		require.ErrorAs(t, l.down(), &late)
		require.True(t, late.Timeout())
	})
}

// wrapping is a connection that a Dialer has made.
type wrapping struct{ net.Conn }

func (c wrapping) NetConn() net.Conn { return c.Conn }

func TestASocketIsKnownBelowWhatADialerAndTLSMakeOfIt(t *testing.T) {
	socket, pipe := new(net.TCPConn), &breakableConn{}
	for _, nc := range []net.Conn{socket, wrapping{socket}, tls.Client(socket, nil), tls.Client(wrapping{socket}, nil), wrapping{tls.Client(socket, nil)}} {
		require.True(t, hasKernelBuffer(nc))
	}
	for _, nc := range []net.Conn{pipe, wrapping{pipe}, tls.Client(wrapping{pipe}, nil)} {
		require.False(t, hasKernelBuffer(nc))
	}
}
