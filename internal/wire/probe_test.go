package wire

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// fakeServer returns a connection to a server that answers each frame with the
// next of answers. After the last answer it closes the connection on the next
// frame.
func fakeServer(t *testing.T, answers ...[]byte) (nc net.Conn, sent func() [][]byte) {
	client, server := net.Pipe()
	frames := make(chan [][]byte, 1)
	go func() {
		var got [][]byte
		defer func() {
			server.Close()
			frames <- got
		}()
		for {
			frame, err := jute.ReadFrame(server, 1<<20)
			if err != nil {
				return
			}
			got = append(got, frame)
			if len(answers) == 0 {
				return
			}
			server.Write(answers[0])
			answers = answers[1:]
		}
	}()
	t.Cleanup(func() { client.Close() })
	return client, func() [][]byte {
		client.Close()
		return <-frames
	}
}

func TestProbeSendsTheZxidOnlyOnRequest(t *testing.T) {
	for _, seen := range []bool{true, false} {
		inBubble(t, nil, func(t *testing.T, r *rig) {
			l := r.connect()
			l.call()
			l.answer(reply(xidFirstCall, 70, 0))
			l.server.Close()
			nc, sent := fakeServer(t, welcome())
			known, err := r.Probe(nc, seen)
			require.NoError(t, err)
			require.True(t, known)
			require.False(t, r.Over())

			frames := sent()
			require.Len(t, frames, 1, "no request to close the session")
			zxid := int64(0) // any server answers it
			if seen {
				zxid = 70
			}
			require.Equal(t, zxid, presentedZxid(t, frames[0]))
			d := jute.NewDecoder(frames[0][16:])
			require.Equal(t, int32(sessionTimeout/time.Millisecond), d.Int32())
			require.Equal(t, int64(sessionID), d.Int64())
			require.Equal(t, "sixteen bytes...", d.String())
		})
	}
}

func TestProbeEndsASessionThatTheServerDoesNotKnow(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.connect().server.Close()
		nc, _ := fakeServer(t, connectReply(0, 0))
		known, err := r.Probe(nc, true)
		require.NoError(t, err)
		require.False(t, known)
		require.True(t, r.Over())

		l := r.handshake() // go-zookeeper does not know it yet
		require.Error(t, l.down())
		require.Empty(t, l.sent())
	})
}

func TestProbeDoesNotEndTheSessionWithoutAnAnswer(t *testing.T) {
	eachInBubble(t, nil, map[string][][]byte{
		"closed without an answer": nil,
		"another session":          {connectReply(sessionTimeout, sessionID+1)},
		"garbage":                  {[]byte("HTTP/1.1 400 Bad Request\r\n\r\n")},
		"too short":                {jute.Frame([]byte{1, 2, 3})},
	}, func(t *testing.T, r *rig, answers [][]byte) {
		r.connect().server.Close()
		nc, _ := fakeServer(t, answers...)
		known, err := r.Probe(nc, true)
		require.Error(t, err)
		require.False(t, known)
		require.False(t, r.Over())
	})
}

func TestASessionIsClosedIfASyncShowsThatTheServersAreBehindIt(t *testing.T) {
	type answers struct {
		sync           []byte
		closes, closed bool // it sends the request; the session is over
		fails          bool
	}
	eachInBubble(t, nil, map[string]answers{
		"as far":                {sync: reply(1, 70, 0, 0, 0, 0, 1, '/')},
		"farther":               {sync: reply(1, 71, 0, 0, 0, 0, 1, '/')},
		"behind":                {sync: reply(1, 69, 0, 0, 0, 0, 1, '/'), closes: true, closed: true},
		"they require SASL":     {sync: reply(1, 0, jute.ErrSASL), closed: true},
		"refused":               {sync: reply(1, 69, jute.ErrOperationTimeout), fails: true},
		"not answered in full":  {sync: jute.Frame([]byte{0, 0, 0, 1}), fails: true},
		"not answered, garbage": {sync: []byte{0xff, 0xff, 0xff, 0xff}, fails: true},
	}, func(t *testing.T, r *rig, a answers) {
		l := r.connect()
		l.call()
		l.answer(reply(xidFirstCall, 70, 0))
		l.server.Close()
		nc, sent := fakeServer(t, welcome(), a.sync)
		known, err := r.Probe(nc, false)
		require.NoError(t, err)
		require.True(t, known)
		closed, err := r.CloseSession(nc, true)
		require.Equal(t, a.fails, err != nil, "%v", err)
		require.Equal(t, a.closed, closed)
		require.Equal(t, a.closed, r.Over())
		want := []string{"sync 1"}
		if a.closes {
			want = append(want, "closeSession 1")
		}
		require.Equal(t, want, opNames(sent()[1:]))
	})
}

func TestCloseSessionEndsTheSession(t *testing.T) {
	eachInBubble(t, nil, map[string][][]byte{
		"answered":       {welcome(), reply(1, 80, 0)},
		"closed at once": {welcome()},
	}, func(t *testing.T, r *rig, answers [][]byte) {
		r.connect().server.Close()
		nc, sent := fakeServer(t, answers...)
		known, err := r.Probe(nc, false)
		require.NoError(t, err)
		require.True(t, known)
		closed, err := r.CloseSession(nc, false)
		require.NoError(t, err)
		require.True(t, closed)
		require.True(t, r.Over())
		require.Equal(t, requestFrame(1, jute.OpClose), sent()[1])
	})
	t.Run("garbage", func(t *testing.T) {
		inBubble(t, nil, func(t *testing.T, r *rig) {
			r.connect().server.Close()
			nc, _ := fakeServer(t, []byte{0xff, 0xff, 0xff, 0xff})
			closed, err := r.CloseSession(nc, false)
			require.Error(t, err)
			require.False(t, closed)
			require.False(t, r.Over())
		})
	})
}

func TestAConnectionIsRejectedIfTheServerClosesItWithoutAnAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		end      func(l *link)
		rejected bool
	}{
		"closed":            {func(l *link) { l.server.Close() }, true},
		"silent":            {func(*link) { time.Sleep(sessionTimeout) }, false},
		"closed by us":      {func(l *link) { l.conn.Close() }, false},
		"not at all":        {func(*link) {}, false},
		"id 0":              {func(l *link) { l.answer(connectReply(0, 0)) }, false},
		"closed afterwards": {func(l *link) { l.answer(welcome()); l.server.Close() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, []Credential{{Scheme: "digest"}}, func(t *testing.T, r *rig) {
				l := r.handshake()
				c.end(l)
				synctest.Wait()
				require.Equal(t, c.rejected, !l.conn.answered && IsRejected(l.conn.closedBy()))
			})
		})
	}
}
