package wire

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

func TestAHandshakeAsksAfterOneThatWasRejectedOnceTheTimeoutIsOver(t *testing.T) {
	eachInBubble(t, nil, map[string][]byte{
		"the session is known":     welcome(),
		"the session is not known": connectReply(0, 0),
		"no answer":                nil,
	}, func(t *testing.T, r *rig, answer []byte) {
		l := r.connect()
		l.write(requestFrame(1, jute.OpDelete))
		l.answer(reply(1, 70, 0))
		l.server.Close()
		handshake := func(zxid int64) *link {
			l := r.handshake()
			require.Equal(t, zxid, presentedZxid(t, l.frames()))
			return l
		}
		for range 2 {
			handshake(70).server.Close()
		}
		time.Sleep(sessionTimeout)
		l = handshake(0)
		if answer != nil {
			l.answer(answer)
		} else {
			l.server.Close()
		}
		require.Error(t, l.down())
		require.True(t, l.conn.Asked())
		require.Equal(t, answer != nil, l.conn.Answered())
		require.False(t, r.Over())
		l = handshake(70)
		require.False(t, l.conn.Asked())
		l.server.Close()
		require.Error(t, l.down())
		require.True(t, handshake(0).conn.Asked())
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
				require.Equal(t, c.rejected, !l.conn.Answered() && IsRejected(l.conn.Cause()))
			})
		})
	}
}
