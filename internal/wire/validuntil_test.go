package wire

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

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
		l.answer(welcome())
		require.Zero(t, r.ValidUntil())
		time.Sleep(100 * time.Millisecond)
		l.answer(reply(jute.XidAuth, 0, 0))
		require.Equal(t, sent.Add(validFor), r.ValidUntil())
	})
}

func TestAReplyExtendsValidUntilFromTheSendingUnlessTheSessionIsOverOrWasNotLookedAt(t *testing.T) {
	for code, extends := range map[int32]bool{
		0: true, jute.ErrNoNode: true, -102: true, jute.ErrConnectionLoss: true, jute.ErrThrottled: true,
		jute.ErrSessionExpired: false, jute.ErrSessionMoved: false, jute.ErrSASL: false,
	} {
		inBubble(t, nil, func(t *testing.T, r *rig) {
			l := r.connect()
			want := r.ValidUntil()
			time.Sleep(time.Second)
			sent := time.Now()
			l.call()
			time.Sleep(time.Second)
			require.Equal(t, want, r.ValidUntil(), "not answered yet")
			if extends {
				want = sent.Add(validFor)
			}
			l.answer(reply(xidFirstCall, 0, code))
			require.Equal(t, want, r.ValidUntil(), "error %d", code)
			l.requireUp()
		})
	}
}

func TestAPingOfASessionThatIsGoneDoesNotExtendValidUntil(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		before := r.ValidUntil()
		time.Sleep(time.Second)
		l.write(ping(), ping())
		for _, code := range []int32{jute.ErrSessionExpired, jute.ErrSessionMoved} {
			l.answer(reply(jute.XidPing, 0, code))
			require.Equal(t, before, r.ValidUntil(), "%d", code)
		}
		sent := time.Now()
		l.write(ping())
		l.answer(reply(jute.XidPing, 0, 0))
		require.Equal(t, sent.Add(validFor), r.ValidUntil(), "the answers are matched all the same")
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
		l.call()
		time.Sleep(time.Second)
		sent := time.Now()
		l.write(ping())
		l.answer(reply(jute.XidPing, 0, 0), reply(xidFirstCall, 0, 0))
		require.Equal(t, sent.Add(validFor), r.ValidUntil())
	})
}

// Behind the gate no lease can be used or released, however alive the session is.
func TestWhatIsAnsweredBehindTheGateCountsOnceItOpens(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		first := r.connect()
		r.watches.Data = []string{"/a"}
		before := r.ValidUntil()
		time.Sleep(time.Second)
		l := r.resume(first)
		require.Equal(t, before, r.ValidUntil(), "the handshake was answered")
		time.Sleep(time.Second)
		l.write(ping())
		l.answer(reply(jute.XidPing, 0, 0))
		require.Equal(t, before, r.ValidUntil(), "a ping was answered")
		require.False(t, l.conn.served)
		time.Sleep(time.Second)
		sent := time.Now() // the Conn asks for the session's znodes
		l.armed()
		require.Equal(t, sent.Add(validFor), r.ValidUntil(), "the gate is open")
		require.True(t, l.conn.served)
	})
}

func TestAConnectionWithoutAGateHasServedOnceARequestIsAnswered(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		l.write(ping())
		l.answer(reply(jute.XidPing, 0, 0))
		require.False(t, l.conn.served)
		l.call()
		l.answer(reply(xidFirstCall, 0, 0))
		require.True(t, l.conn.served)
	})
}

// A lease must end when the server that granted the shorter timeout may have ended
// the session.
func TestAShorterTimeoutMovesValidUntilToAnEarlierTime(t *testing.T) {
	for _, gated := range []bool{false, true} {
		inBubble(t, nil, func(t *testing.T, r *rig) {
			first := r.connect()
			if gated {
				r.watches.Data = []string{"/a"}
			}
			first.server.Close()
			r.reported()
			sent := time.Now()
			l := r.handshake(connectReply(4*time.Second, sessionID))
			require.Equal(t, 4*time.Second, r.Timeout())
			l.requireUp()
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
			l.write(ping(), ping())
			if silence == maxSilence(sessionTimeout) {
				l.requireUp()
				require.Equal(t, []string{"ping -2", "ping -2", "ping -2"}, l.sent())
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
