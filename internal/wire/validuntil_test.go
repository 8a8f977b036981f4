package wire

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

func TestValidUntilIsZeroBeforeTheHandshake(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.dial()
		l.write(connectRequest(0))
		require.Zero(t, r.ValidUntil())
		l.server.Close()
	})
}

// validFor is how far beyond the sending of a request its reply extends
// ValidUntil.
const validFor = sessionTimeout - sessionTimeout/100

func TestTheHandshakeSetsValidUntilFromTheSendingOfTheConnectRequest(t *testing.T) {
	inBubble(t, []Credential{{Scheme: "digest"}}, func(t *testing.T, r *rig) {
		l := r.dial()
		time.Sleep(100 * time.Millisecond)
		sent := time.Now()
		l.write(connectRequest(0))
		time.Sleep(100 * time.Millisecond)
		l.answer(connectReply(sessionTimeout, sessionID))
		time.Sleep(100 * time.Millisecond)
		l.answer(reply(jute.XidAuth, 0, 0))
		require.Equal(t, sent.Add(validFor), r.ValidUntil())
	})
}

func TestAReplyExtendsValidUntilFromTheSending(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		for xid, code := range []int32{0, jute.ErrNoNode, -102, jute.ErrConnectionLoss} {
			time.Sleep(time.Second)
			sent := time.Now()
			l.write(requestFrame(int32(xid), jute.OpDelete))
			time.Sleep(time.Second)
			require.NotEqual(t, sent.Add(validFor), r.ValidUntil(), "not answered yet")
			l.answer(reply(int32(xid), 0, code))
			require.Equal(t, sent.Add(validFor), r.ValidUntil(), "error %d", code)
		}
	})
}

func TestSessionErrorsAndUnknownRepliesDoNotExtendValidUntil(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		before := r.ValidUntil()
		time.Sleep(time.Second)
		l.write(requestFrame(1, jute.OpDelete), requestFrame(2, jute.OpDelete), requestFrame(3, jute.OpDelete))
		l.answer(
			reply(1, 0, jute.ErrSessionExpired), reply(2, 0, jute.ErrSessionMoved),
			event(jute.EventCreated, "/a"), reply(jute.XidPing, 0, 0))
		require.Equal(t, before, r.ValidUntil())
		require.Len(t, l.read(), 4)
		l.requireUp()
		l.answer(reply(77, 0, 0)) // answers no request
		require.Equal(t, before, r.ValidUntil())
	})
}

func TestPingsAreMatchedInOrder(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		var sent []time.Time
		for range 3 {
			time.Sleep(time.Second)
			sent = append(sent, time.Now())
			l.write(ping())
		}
		for _, at := range sent {
			time.Sleep(100 * time.Millisecond)
			l.answer(reply(jute.XidPing, 0, 0))
			require.Equal(t, at.Add(validFor), r.ValidUntil())
		}
	})
}

func TestAPingReplyDoesNotCountForAPingOfAnEarlierConnection(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		l.write(ping())
		time.Sleep(time.Second)
		l = r.resume(l)
		time.Sleep(time.Second)
		sent := time.Now()
		l.write(ping())
		l.answer(reply(jute.XidPing, 0, 0))
		require.Equal(t, sent.Add(validFor), r.ValidUntil())
	})
}

func TestValidUntilNeverGoesBack(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		l.write(requestFrame(1, jute.OpDelete))
		time.Sleep(time.Second)
		sent := time.Now()
		l.write(ping())
		l.answer(reply(jute.XidPing, 0, 0), reply(1, 0, 0))
		require.Equal(t, sent.Add(validFor), r.ValidUntil())
	})
}

func TestAHeldRequestExtendsValidUntilFromItsWrite(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		first := r.connect()
		first.setDataWatches("/a")
		l := r.resume(first)
		l.write(requestFrame(1, jute.OpDelete))
		time.Sleep(time.Second)
		sent := time.Now()
		l.write(setWatches(2, []string{"/a"}, nil, nil))
		l.answer(reply(2, 0, 0))
		require.Contains(t, l.sent(), "delete 1")
		time.Sleep(time.Second)
		l.answer(reply(1, 0, 0))
		require.Equal(t, sent.Add(validFor), r.ValidUntil())
	})
}

// Behind the gate no lease can be used or released, however alive the session is.
func TestWhatIsAnsweredBehindTheGateCountsOnceItOpens(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		first := r.connect()
		first.setDataWatches("/a")
		before := r.ValidUntil()
		time.Sleep(time.Second)
		l := r.resume(first)
		require.Equal(t, before, r.ValidUntil(), "the handshake was answered")
		time.Sleep(time.Second)
		l.write(ping())
		l.answer(reply(jute.XidPing, 0, 0))
		require.Equal(t, before, r.ValidUntil(), "a ping was answered")
		require.False(t, l.conn.Served())
		sent := time.Now()
		l.write(setWatches(2, []string{"/a"}, nil, nil))
		time.Sleep(time.Second)
		l.answer(reply(2, 0, 0))
		require.Equal(t, sent.Add(validFor), r.ValidUntil(), "the gate is open")
		require.True(t, l.conn.Served())
	})
}

func TestAConnectionWithoutAGateHasServedOnceARequestIsAnswered(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		l.write(ping())
		l.answer(reply(jute.XidPing, 0, 0))
		require.False(t, l.conn.Served())
		l.write(requestFrame(1, jute.OpDelete))
		l.answer(reply(1, 0, 0))
		require.True(t, l.conn.Served())
	})
}

// A lease must end when the server that granted the shorter timeout may have ended
// the session.
func TestAShorterTimeoutMovesValidUntilToAnEarlierTime(t *testing.T) {
	for _, gated := range []bool{false, true} {
		inBubble(t, nil, func(t *testing.T, r *rig) {
			first := r.connect()
			if gated {
				first.setDataWatches("/a")
			}
			first.server.Close()
			r.reported()
			l := r.dial()
			sent := time.Now()
			l.write(connectRequest(sessionID))
			l.answer(connectReply(4*time.Second, sessionID))
			require.Equal(t, sent.Add(3960*time.Millisecond), r.ValidUntil())
			require.Equal(t, "sooner", r.reported()[0])
		})
	}
}

// A follower answers although the leader is about to end the session, or has. Only a
// handshake asks the leader.
func TestAClientThatWasPausedMakesAHandshakeBeforeAnythingElse(t *testing.T) {
	for _, silence := range []time.Duration{maxSilence(sessionTimeout), maxSilence(sessionTimeout) + 1} {
		inBubble(t, nil, func(t *testing.T, r *rig) {
			l := r.connect()
			time.Sleep(time.Second)
			l.write(ping())
			l.answer(reply(jute.XidPing, 0, 0))
			before := r.ValidUntil()
			// Its own events keep the reading side busy.
			time.Sleep(silence / 2)
			l.answer(event(jute.EventCreated, "/a"))
			time.Sleep(silence - silence/2)
			l.write(ping(), requestFrame(1, jute.OpGetData))
			if silence == maxSilence(sessionTimeout) {
				l.requireUp()
				require.Equal(t, []string{"ping -2", "ping -2", "getData 1"}, l.sent())
				return
			}
			require.ErrorIs(t, l.down(), errSilence)
			require.Equal(t, []string{"ping -2"}, l.sent())
			require.Equal(t, before, r.ValidUntil())
			l = r.resume(l)
			l.requireUp()
		})
	}
}

func TestACallAfterAPauseIsSentOnTheNextConnection(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		time.Sleep(sessionTimeout / 3)
		l.answer(event(jute.EventCreated, "/a"))
		time.Sleep(maxSilence(sessionTimeout) - sessionTimeout/3 + 1)
		call := l.conn.Call(jute.OpMulti, callFrame(0))
		require.ErrorIs(t, l.down(), errSilence)
		require.ErrorIs(t, l.await(call), ErrNotSent)
	})
}
