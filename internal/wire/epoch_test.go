package wire

import (
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// resumeAsking is like resumeAlone for a connection that asks at once.
func (r *rig) resumeAsking(last *link) *link {
	r.t.Helper()
	l := r.resumeAlone(last)
	require.Contains(r.t, l.sent(), "getEphemerals -1000")
	return l
}

// refuse makes a connection that the server closes without an answer.
func (r *rig) refuse(last *link) {
	r.t.Helper()
	last.server.Close()
	l := r.dial()
	l.write(connectRequest(r.ID()))
	l.server.Close()
	r.reported()
}

func ephemerals(zxid int64, path string) []byte {
	return reply(xidEphemerals, zxid, 0, jute.AppendString(jute.AppendInt32(nil, 1), path)...)
}

func TestAResumedConnectionTellsWhetherTransactionsMayBeLost(t *testing.T) {
	const old, newEpoch = 7, 1<<32 | 1
	for name, c := range map[string]struct {
		before func(r *rig, l *link) // between the connections
		zxid   int64
		lost   bool
	}{
		"the same epoch":                  {func(*rig, *link) {}, old + 1, false},
		"a new epoch":                     {func(*rig, *link) {}, newEpoch, true},
		"the same epoch, after a refusal": {func(r *rig, l *link) { r.refuse(l) }, old + 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, r *rig) {
				l := r.connect()
				l.write(ping())
				l.answer(reply(jute.XidPing, old, 0))
				history := r.History()
				c.before(r, l)
				l = r.resumeAsking(l)
				l.answer(ephemerals(c.zxid, "/a"))
				says := "ephemerals [/a], may have lost: false"
				if c.lost {
					says = "ephemerals [/a], may have lost: true"
				}
				require.Contains(t, r.reported(), says)
				require.Equal(t, c.lost, r.History() > history)

				l = r.resumeAsking(l)
				l.answer(ephemerals(c.zxid+1, "/a"))
				require.Contains(t, r.reported(), "ephemerals [/a], may have lost: false", "it was asked since")
			})
		})
	}
}

// The next connection asks again, and knows it still.
func TestThatTransactionsMayBeLostIsRememberedUntilTheZnodesWereCompared(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		r.refuse(l)
		l = r.resumeAsking(l)
		l.answer(reply(xidEphemerals, 0, jute.ErrOperationTimeout))
		require.Error(t, l.down())
		l = r.resumeAsking(l)
		l.answer(ephemerals(9, "/a"))
		require.Contains(t, r.reported(), "ephemerals [/a], may have lost: true")
	})
}

// A server that does not answer that question is of use all the same if nothing is lost.
func TestAServerThatDoesNotTellTheZnodesServes(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		r.watches.Data = []string{"/a"}
		l = r.resumeAlone(l)
		l.armed()
		require.Empty(t, r.reported(), "the gate is closed")
		l.answer(reply(xidEphemerals, 0, jute.ErrThrottled))
		l.requireUp()
		require.Equal(t, []string{"up 2"}, r.reported())
	})
}

// A question that is answered before all watches are armed leaves them as they are: what follows is
// armed from where it was, and until then no request passes.
func TestTheAnswerToTheComparisonDoesNotArmWatches(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		r.watches.Data = []string{"/a"}
		l.write(ping())
		l.answer(reply(jute.XidPing, 7, 0))
		armed := r.armedFrom()
		l = r.resumeAlone(l)
		const newEpoch = 1 << 32
		l.write(ping())
		l.answer(reply(jute.XidPing, newEpoch, 0))
		require.Contains(t, l.sent(), "getEphemerals -1000")
		l.answer(ephemerals(newEpoch+5, "/a"))
		require.Less(t, r.armedFrom(), int64(newEpoch+5))
		require.GreaterOrEqual(t, r.armedFrom(), armed)
		require.NotContains(t, r.reported(), "up 2")
		l.armed()
		require.Contains(t, r.reported(), "up 2")
	})
}

// The reply comes right behind the one that lets the gate open, before it has opened.
func TestTheGateStaysClosedIfANewEpochShowsBeforeItHasOpened(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // what opens the gate runs when the reader waits
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		r.watches.Data = []string{"/a"}
		l.write(ping())
		l.answer(reply(jute.XidPing, 7, 0))
		l = r.resumeAlone(l)
		l.write(ping())
		l.answer(reply(xidFirstCall, 8, 0))
		require.Contains(t, l.sent(), "getEphemerals -1000")
		const newEpoch = 1 << 32
		l.answer(slices.Concat(ephemerals(8, "/a"), reply(jute.XidPing, newEpoch, 0)))
		require.Equal(t, []string{"ephemerals [/a], may have lost: false"}, r.reported())
		require.Equal(t, []string{"getEphemerals -1000"}, l.sent())
		l.answer(ephemerals(newEpoch+1, "/a"))
		require.Equal(t, []string{"ephemerals [/a], may have lost: true", "up 2"}, r.reported())
	})
}

func TestAReplyThatNobodyAskedForDoesNotAnswerTheQuestionThatItRaises(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.resumeAlone(r.connect())
		l.answer(ephemerals(7, "/a"))
		l.conn.kernelBuffer = true // it asks while it reads
		l.sent()
		r.reported()
		l.answer(ephemerals(1<<32|1, "/b"))
		require.Contains(t, l.sent(), "getEphemerals -1000")
		require.NotContains(t, r.reported(), "ephemerals [/b], may have lost: true")
	})
}
