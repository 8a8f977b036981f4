package wire

import (
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

func TestAConnectionIsUpOnceGoZookeeperHasReadTheConnectResponse(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.handshake()
		require.Empty(t, r.reported())
		require.Zero(t, r.ID())
		response := connectReply(4*time.Second, sessionID)
		l.answer(response)
		require.Equal(t, []string{"up 1"}, r.reported())
		require.Equal(t, [][]byte{response}, l.read(), "unchanged")
		require.Equal(t, int64(sessionID), r.ID())
		require.Equal(t, 4*time.Second, r.Timeout(), "the server's, not the requested one")
		l.requireUp()
	})
}

func TestCredentialsAreAnsweredBeforeTheConnectResponseIsDelivered(t *testing.T) {
	creds := []Credential{{Scheme: "digest", Auth: []byte("user:password")}, {Scheme: "x509", Auth: []byte{1}}}
	inBubble(t, creds, func(t *testing.T, r *rig) {
		l := r.handshake()
		l.frames()
		response := welcome()
		l.answer(response)

		frames := l.frames()
		require.Len(t, frames, 2)
		for i, frame := range frames {
			d := jute.NewDecoder(frame[4:])
			require.Equal(t, jute.XidAuth, d.Int32())
			require.Equal(t, jute.OpAuth, d.Int32())
			require.Zero(t, d.Int32())
			require.Equal(t, creds[i].Scheme, d.String())
			require.Equal(t, creds[i].Auth, d.Buffer())
			require.NoError(t, d.Err)
		}
		l.answer(reply(jute.XidAuth, 0, 0))
		require.Empty(t, l.read(), "one answer is missing")
		require.Empty(t, r.reported())
		l.answer(reply(jute.XidAuth, 0, 0))
		require.Equal(t, [][]byte{response}, l.read(), "without the answers")
		require.Equal(t, []string{"up 1"}, r.reported())
	})
}

func TestARefusedCredentialIsAnAuthErrorWithoutTheSecret(t *testing.T) {
	inBubble(t, []Credential{{Scheme: "digest", Auth: []byte("user:hush")}}, func(t *testing.T, r *rig) {
		l := r.handshake(welcome(), reply(jute.XidAuth, 0, jute.ErrAuthFailed))
		var refused *AuthError
		require.ErrorAs(t, l.down(), &refused)
		require.Equal(t, "digest", refused.Scheme)
		require.NotContains(t, refused.Error(), "hush")
		require.Empty(t, l.read())
		require.Zero(t, r.ID(), "the session is not accepted")
	})
}

func TestAConnectResponseWithIDZeroEndsTheSessionAndTheSocket(t *testing.T) {
	inBubble(t, []Credential{{Scheme: "digest"}}, func(t *testing.T, r *rig) {
		l := r.handshake(welcome(), reply(jute.XidAuth, 0, 0))
		l.requireUp()
		l.server.Close()
		r.reported()

		l = r.handshake()
		l.sent()
		expired := connectReply(0, 0)
		l.answer(expired)
		require.Equal(t, [][]byte{expired}, l.read(), "go-zookeeper must see it")
		require.ErrorIs(t, l.down(), errExpired)
		require.Empty(t, l.sent(), "no credentials for a session that is over")
		require.Equal(t, []string{"down 2: session has expired"}, r.reported())
		require.True(t, r.Over())

		// go-zookeeper requests a new session next.
		l = r.dial()
		l.write(connectRequest(0))
		require.Error(t, l.down())
		require.Empty(t, l.sent())
	})
}

func TestAnotherSessionIsRefusedOnBothSides(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.connect().server.Close()
		for _, id := range []int64{0, sessionID + 1} {
			l := r.dial()
			l.write(connectRequest(id))
			require.ErrorContains(t, l.down(), "0x5e55")
			require.Empty(t, l.sent(), "the server must not see it")
		}
		l := r.handshake(connectReply(sessionTimeout, sessionID+1))
		require.ErrorContains(t, l.down(), "0x5e56 instead of 0x5e55")
		require.Empty(t, l.read())
		require.Equal(t, int64(sessionID), r.ID())
		require.False(t, r.Over())
	})
}

func TestGarbageInsteadOfAConnectResponseFailsTheHandshake(t *testing.T) {
	eachInBubble(t, nil, map[string][]byte{
		"a web server":    []byte("HTTP/1.1 400 Bad Request\r\n\r\n"),
		"a TLS alert":     {0x15, 3, 1, 0, 2, 2, 0x46},
		"an SSH server":   []byte("SSH-2.0-OpenSSH_9.2\r\n"),
		"zeros":           make([]byte, 64),
		"an empty frame":  jute.Frame(nil),
		"half a response": jute.Frame(welcome()[4:16]),
		"no password":     jute.Frame(welcome()[4:20]),
		"a password too long": jute.Frame(jute.AppendInt32(
			slices.Clone(welcome()[4:20]), 1<<20)),
		"a password beyond the limit": jute.Frame(slices.Concat(
			welcome()[4:20], jute.AppendBuffer(nil, make([]byte, maxPassword+1)))),
		"a frame too long":  jute.AppendInt32(nil, maxConnectResponse+1),
		"a negative length": jute.AppendInt32(nil, -1),
		"nothing":           nil,
		"half a length":     {0, 0},
		"half a frame":      welcome()[:20],
	}, func(t *testing.T, r *rig, garbage []byte) {
		l := r.handshake(garbage)
		l.server.Close()
		require.ErrorContains(t, l.down(), "handshake")
		require.Empty(t, l.read(), "go-zookeeper must not see it")
		require.Zero(t, r.ID())
		require.False(t, r.Over())
		require.Len(t, r.reported(), 1)
	})
}

// The first request after the ConnectRequest is a credential or, if there is none, a ping.
func TestGarbageInsteadOfTheNextReplyFailsTheHandshake(t *testing.T) {
	for _, creds := range [][]Credential{nil, {{Scheme: "digest"}}} {
		for _, garbage := range [][]byte{
			[]byte("HTTP/1.1 400 Bad Request\r\n\r\n"), jute.Frame(nil), reply(7, 0, 0), event(jute.EventDeleted, "/a"),
			jute.Frame(jute.AppendInt32(nil, jute.XidAuth)), jute.Frame(pong()[4:12]), nil,
		} {
			inBubble(t, creds, func(t *testing.T, r *rig) {
				l := r.dial()
				l.hasPing = true
				l.write(connectRequest(0))
				l.answer(welcome(), garbage)
				if garbage == nil {
					l.server.Close()
				}
				require.ErrorContains(t, l.down(), "handshake: ")
				require.Empty(t, l.read())
				require.Zero(t, r.ID())
			})
		}
	}
}

func TestAHandshakeFailsWhenItsBudgetIsSpent(t *testing.T) {
	challenge := tokenReply(1, []byte("who?"))
	for _, c := range []struct {
		login   *Login
		answers [][]byte
	}{
		{nil, nil}, {nil, [][]byte{welcome()[:10]}}, {nil, [][]byte{welcome()}},
		{loginOf(), [][]byte{welcome()}}, {loginOf(), [][]byte{welcome(), challenge[:9]}}, {loginOf(), [][]byte{welcome(), challenge}},
	} {
		inBubble(t, []Credential{{Scheme: "digest"}}, func(t *testing.T, r *rig) {
			r.login = c.login
			l := r.handshake()
			l.conn.SetReadDeadline(time.Now().Add(time.Hour)) // go-zookeeper's
			l.answer(c.answers...)
			time.Sleep(HandshakeBudget(sessionTimeout) - 1)
			l.requireUp()
			time.Sleep(time.Nanosecond)
			var late net.Error
			require.ErrorAs(t, l.down(), &late)
			require.True(t, late.Timeout())
		})
	}
}

func TestHandshakeBudgetIsASixthOfTheTimeoutOrASecond(t *testing.T) {
	for timeout, budget := range map[time.Duration]time.Duration{
		60 * time.Second: 10 * time.Second,
		12 * time.Second: 2 * time.Second,
		6 * time.Second:  time.Second,
		5 * time.Second:  time.Second,
		4 * time.Second:  time.Second,
		2 * time.Second:  500 * time.Millisecond,
	} {
		require.Equal(t, budget, HandshakeBudget(timeout), "%v", timeout)
	}
}

// Those of a server with myid 200.
func TestSessionIDsAreNamedUnsigned(t *testing.T) {
	require.Equal(t, "0xc800000000000001", SessionName(-56<<56|1))
	require.Equal(t, "0x100000000000001", SessionName(1<<56|1))
}
