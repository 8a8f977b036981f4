package wire

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// gateOf makes the next connection of a session, and returns it with the setWatches that it has sent.
func (r *rig) gateOf(last *link) (l *link, sent [][]byte) {
	r.t.Helper()
	last.server.Close()
	r.reported()
	l = r.dial()
	l.write(connectRequest(r.ID()))
	l.answer(welcome())
	l.read()
	return l, l.frames()[1:]
}

// pathsOf returns the paths of a setWatches.
func pathsOf(t *testing.T, frame []byte) (w Watches) {
	d := jute.NewDecoder(frame[8:])
	require.Equal(t, jute.OpSetWatches, d.Int32())
	d.Int64()
	w = Watches{d.Strings(), d.Strings(), d.Strings()}
	require.NoError(t, d.Err)
	require.Zero(t, d.Len())
	return w
}

func TestTheGateOpensWhenEveryWatchIsArmedAgain(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.watches = Watches{Data: []string{"/a", "/b"}, Exist: []string{"/a"}, Children: []string{"/c"}}
		l, sent := r.gateOf(r.connect())
		require.Len(t, sent, 1)
		require.Equal(t, r.watches, pathsOf(t, sent[0]))
		l.write(ping())
		require.Equal(t, []string{"ping -2"}, l.sent())
		l.answer(pong())
		require.Len(t, l.read(), 1, "go-zookeeper's")
		require.Empty(t, r.reported(), "not up yet")
		l.armed()
		require.Empty(t, l.read())
		require.Equal(t, []string{"up 2"}, r.reported())
		l.call()
		require.Equal(t, []string{fmt.Sprintf("multi %d", xidFirstCall-1)}, l.sent())

		l, _ = r.gateOf(l)
		l.write(requestFrame(62, jute.OpClose))
		require.Equal(t, []string{"closeSession 62"}, l.sent(), "which may pass")
	})
}

// Servers may accept less than usual in a request.
func TestManyWatchesAreArmedBySeveralRequests(t *testing.T) {
	for most, requests := range map[int]int{jute.MaxFrame: 2, 64 << 10: 4, 4 << 10: 51} {
		inBubble(t, nil, func(t *testing.T, r *rig) {
			r.cfg.MaxRequest = most
			name := func(i int) string { return fmt.Sprintf("/%0998d", i) }
			for i := range 100 {
				r.watches.Data = append(r.watches.Data, name(i))
				r.watches.Children = append(r.watches.Children, name(-i))
			}
			r.watches.Exist = []string{"/" + strings.Repeat("x", 5000)} // longer than the least limit
			l, sent := r.gateOf(r.connect())
			var all Watches
			for _, frame := range sent {
				require.True(t, len(frame)-4 <= most || len(pathsOf(t, frame).Exist) == 1)
				w := pathsOf(t, frame)
				all = Watches{append(all.Data, w.Data...), append(all.Exist, w.Exist...), append(all.Children, w.Children...)}
			}
			require.Equal(t, requests, len(sent))
			require.Equal(t, r.watches, all)
			for i := range sent {
				require.Empty(t, r.reported(), "not up yet")
				l.answer(reply(xidFirstCall-int32(i), 0, 0))
			}
			require.Equal(t, []string{"up 2"}, r.reported())
		})
	}
}

// For each watch whose znode has changed meanwhile, the server answers a
// setWatches with an event, before the reply.
func TestEventsDuringRearmingComeBeforeRequestsPass(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		var rearmed []bool
		report := r.cfg.Event
		r.cfg.Event = func(e Event) {
			rearmed = append(rearmed, e.Rearmed)
			report(e)
		}
		l := r.gated("/a", "/b")
		l.answer(event(jute.EventDeleted, "/a"))
		require.Equal(t, []string{"event 2 /a on 2"}, r.reported())
		l.armed()
		require.Equal(t, []string{"up 2"}, r.reported())
		l.answer(event(jute.EventDeleted, "/b"))
		require.Equal(t, []bool{true, false}, rearmed)
	})
}

func TestAnErrorReplyToSetWatchesClosesTheConnection(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.gated("/a")
		l.answer(reply(xidFirstCall, 0, -6)) // Unimplemented
		require.ErrorContains(t, l.down(), "error -6")
		l, sent := r.gateOf(l)
		require.Equal(t, r.watches, pathsOf(t, sent[0]), "the next connection tries again")
		l.requireUp()
	})
}

func TestWatchesNotArmedAgainWithinHalfTheTimeoutCloseTheConnection(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.gated("/a", "/b")
		began := time.Now()
		for time.Since(began) < sessionTimeout/2-time.Second { // the server answers everything else
			time.Sleep(time.Second)
			l.write(ping())
			l.answer(reply(jute.XidPing, 0, 0))
		}
		time.Sleep(sessionTimeout/2 - time.Since(began) - 1)
		l.requireUp()
		time.Sleep(time.Nanosecond)
		require.ErrorIs(t, l.down(), errRearmTimeout)
		require.Len(t, r.reported(), 1)
	})
}

func TestTheGateOpensAfterTheComparison(t *testing.T) {
	for _, watches := range [][]string{nil, {"/a"}} {
		inBubble(t, nil, func(t *testing.T, r *rig) {
			r.watches.Data = watches
			l := r.resumeAlone(r.connect())
			l.read()
			if watches != nil {
				time.Sleep(time.Second)
				require.NotContains(t, l.sent(), "getEphemerals -1000", "the watches must be armed first")
				l.armed()
				require.Equal(t, []string{"getEphemerals -1000"}, l.sent())
			} else {
				require.Contains(t, l.sent(), "getEphemerals -1000")
			}
			require.Empty(t, r.reported(), "not up yet")
			sent := time.Now()
			time.Sleep(time.Second)
			l.answer(reply(xidEphemerals, 80, 0, 0, 0, 0, 0))
			require.Empty(t, l.read(), "the answer is not go-zookeeper's")
			require.Equal(t, []string{"up 2"}, r.reported())
			require.Equal(t, int64(80), r.armedFrom())
			require.Equal(t, sent.Add(validFor), r.ValidUntil(), "the reply proves that the session is alive")
		})
	}
}

func TestAComparisonThatIsNotAnsweredClosesTheConnection(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.resumeAlone(r.connect())
		for range 4 {
			l.requireUp()
			l.write(ping())
			l.answer(reply(jute.XidPing, 0, 0))
			time.Sleep(sessionTimeout / 8)
		}
		require.ErrorIs(t, l.down(), errRearmTimeout)
		require.NotContains(t, r.reported(), "up 2")
	})
}
