package wire

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

func TestTheFirstConnectionHasNoGate(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		require.Equal(t, []string{"up 1"}, r.reported())
		l.write(readRequest(1, jute.OpGetData, "/a", false))
		require.Equal(t, []string{"getData 1"}, l.sent())
	})
}

func TestTheGateHoldsAllRequestsButSetWatchesPingAndClose(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.gated("/a")
		require.Empty(t, r.reported(), "not up yet")
		var held []string
		for i, op := range []int32{
			jute.OpCreate, jute.OpDelete, jute.OpExists, jute.OpGetData, jute.OpSetData, jute.OpGetACL, jute.OpSetACL,
			jute.OpGetChildren, jute.OpSync, jute.OpGetChildren2, jute.OpCheck, jute.OpMulti, jute.OpCreateContainer,
			jute.OpAuth, 21, 16, // createTTL, reconfig
		} {
			l.write(readRequest(int32(i+1), op, "/a", false))
			held = append(held, fmt.Sprintf("%s %d", jute.OpName(op), i+1))
		}
		require.Empty(t, l.sent())
		l.write(ping(), setWatches(50, []string{"/a"}, nil, nil))
		require.Equal(t, []string{"ping -2", "setWatches 50"}, l.sent())
		l.answer(reply(jute.XidPing, 0, 0))
		require.Empty(t, l.sent())
		require.Empty(t, r.reported())
		l.answer(reply(50, 0, 0))
		require.Equal(t, held, l.sent(), "in order")
		require.Equal(t, []string{"up 2"}, r.reported())
		require.Len(t, l.read(), 2, "the replies to ping and setWatches are go-zookeeper's")
		l.write(readRequest(60, jute.OpGetData, "/a", false))
		require.Equal(t, []string{"getData 60"}, l.sent(), "the gate stays open")

		l = r.resume(l)
		l.write(requestFrame(61, jute.OpDelete), requestFrame(62, jute.OpClose))
		require.Equal(t, []string{"closeSession 62"}, l.sent())
	})
}

// go-zookeeper reuses its buffer, and fails the requests of a lost connection.
func TestHeldFramesAreCopiesAndAreDroppedWithTheConnection(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.gated("/a")
		l.write(requestFrame(1, jute.OpDelete))
		l = r.resume(l)
		frames := [][]byte{
			requestFrame(2, jute.OpSetData, []byte("first")...), requestFrame(3, jute.OpSetData, []byte("second")...),
		}
		l.write(frames...) // write clears its buffer
		l.write(setWatches(4, []string{"/a"}, nil, nil))
		require.Equal(t, []string{"setWatches 4"}, l.sent())
		l.answer(reply(4, 0, 0))
		require.Equal(t, frames, l.frames())
	})
}

func TestTheGateOpensWhenEveryWatchIsArmedAgain(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		first := r.connect()
		first.setDataWatches("/a", "/b")
		first.write(readRequest(1, jute.OpExists, "/a", true), readRequest(2, jute.OpGetChildren2, "/a", true))
		first.answer(reply(1, 0, jute.ErrNoNode), reply(2, 0, 0, record(jute.OpGetChildren2)...))
		l := r.resume(first)
		l.write(requestFrame(3, jute.OpSync))
		for xid, chunk := range [][]byte{
			setWatches(10, []string{"/a"}, nil, nil),
			setWatches(11, []string{"/other"}, nil, nil), // left from an earlier connection
			setWatches(12, nil, []string{"/a"}, nil),
			setWatches(13, nil, nil, []string{"/a"}),
		} {
			l.write(chunk)
			l.answer(reply(int32(10+xid), 0, 0))
			require.NotContains(t, l.sent(), "sync 3")
		}
		l.write(setWatches(14, []string{"/b"}, nil, nil))
		require.Equal(t, []string{"setWatches 14"}, l.sent(), "sent, but not answered")
		l.answer(reply(14, 0, 0))
		require.Equal(t, []string{"sync 3"}, l.sent())
	})
}

// For each watch whose znode has changed meanwhile, the server answers a
// setWatches with an event, before the reply.
func TestEventsDuringRearmingDoNotKeepTheGateClosed(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.gated("/a", "/b")
		l.write(requestFrame(1, jute.OpSync), setWatches(2, []string{"/a", "/b"}, nil, nil))
		l.answer(event(jute.EventDeleted, "/a"))
		require.Equal(t, []string{"event 2 /a on 2"}, r.reported())
		require.NotContains(t, l.sent(), "sync 1")
		l.answer(reply(2, 0, 0))
		require.Equal(t, []string{"sync 1"}, l.sent())
		require.Equal(t, []string{"data /b"}, r.armedWatches())
	})
}

func TestSetWatchesAfterTheGateHasOpenedIsHarmless(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.gated("/a")
		for xid := range int32(3) {
			l.write(setWatches(xid, []string{"/a"}, nil, nil))
			l.answer(reply(xid, 0, 0))
		}
		require.Equal(t, []string{"up 2"}, r.reported())
		l.write(requestFrame(9, jute.OpSync))
		require.Contains(t, l.sent(), "sync 9")
		l.requireUp()
	})
}

func TestAnErrorReplyToSetWatchesClosesTheConnection(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.gated("/a")
		l.write(requestFrame(1, jute.OpSync), setWatches(2, []string{"/a"}, nil, nil))
		l.sent()
		l.answer(reply(2, 0, -6)) // Unimplemented
		require.ErrorContains(t, l.down(), "error -6")
		require.Empty(t, l.sent())
		require.Equal(t, []string{"data /a"}, r.armedWatches(), "the next connection tries again")
	})
}

func TestWatchesNotArmedAgainWithinHalfTheTimeoutCloseTheConnection(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.gated("/a", "/b")
		began := time.Now()
		l.write(requestFrame(1, jute.OpSync), setWatches(2, []string{"/a"}, nil, nil))
		l.answer(reply(2, 0, 0))
		for time.Since(began) < sessionTimeout/2-time.Second { // the server answers everything else
			time.Sleep(time.Second)
			l.write(ping())
			l.answer(reply(jute.XidPing, 0, 0))
		}
		time.Sleep(sessionTimeout/2 - time.Since(began) - 1)
		l.requireUp()
		time.Sleep(time.Nanosecond)
		require.ErrorIs(t, l.down(), errRearmTimeout)
		require.NotContains(t, l.sent(), "sync 1")
		require.Len(t, r.reported(), 1)
	})
}

func TestTheGateOpensAfterTheComparison(t *testing.T) {
	for _, watches := range [][]string{nil, {"/a"}} {
		inBubble(t, nil, func(t *testing.T, r *rig) {
			first := r.connect()
			first.setDataWatches(watches...)
			first.server.Close()
			r.reported()
			l := r.dial()
			l.hasZnodes = true
			l.write(connectRequest(r.ID()))
			l.answer(welcome())
			l.read()
			l.write(readRequest(1, jute.OpGetData, "/x", false))
			if watches != nil {
				l.write(setWatches(2, watches, nil, nil))
				time.Sleep(time.Second)
				require.NotContains(t, l.sent(), "getEphemerals -1000", "the watches must be armed first")
				l.answer(reply(2, 0, 0))
				require.Len(t, l.read(), 1)
				require.Equal(t, []string{"getEphemerals -1000"}, l.sent())
			} else {
				require.Contains(t, l.sent(), "getEphemerals -1000")
			}
			require.Empty(t, r.reported(), "not up yet")
			sent := time.Now()
			time.Sleep(time.Second)
			l.answer(reply(xidEphemerals, 80, 0, 0, 0, 0, 0))
			require.Equal(t, []string{"getData 1"}, l.sent())
			require.Empty(t, l.read(), "the answer is not go-zookeeper's")
			require.Equal(t, []string{"up 2"}, r.reported())
			require.Equal(t, int64(80), r.armedFrom())
			require.Equal(t, sent.Add(validFor), r.ValidUntil(), "the reply proves that the session is alive")
		})
	}
}

func TestAComparisonThatIsNotAnsweredClosesTheConnection(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.connect().server.Close()
		r.reported()
		l := r.dial()
		l.hasZnodes = true
		l.write(connectRequest(r.ID()))
		l.answer(welcome())
		l.write(requestFrame(2, jute.OpDelete))
		for range 4 {
			l.requireUp()
			l.write(ping())
			l.answer(reply(jute.XidPing, 0, 0))
			time.Sleep(sessionTimeout / 8)
		}
		require.ErrorIs(t, l.down(), errRearmTimeout)
		require.NotContains(t, l.sent(), "delete 2")
	})
}

// armedWatches returns the watches that the next connection must arm again.
func (r *rig) armedWatches() []string {
	r.Session.mu.Lock()
	defer r.Session.mu.Unlock()
	var names []string
	for w := range r.watches {
		names = append(names, [...]string{"data ", "exist ", "child "}[w.kind]+w.path)
	}
	slices.Sort(names)
	return names
}

func TestRepliesArmTheWatchesThatGoZookeeperArms(t *testing.T) {
	type setting struct {
		op    int32
		watch bool
		code  int32
		armed string // "" for none
	}
	for _, c := range []setting{
		{jute.OpGetData, true, 0, "data /a"},
		{jute.OpGetData, false, 0, ""},
		{jute.OpGetData, true, jute.ErrNoNode, ""},
		{jute.OpGetData, true, -102, ""}, // NoAuth
		{jute.OpExists, true, 0, "data /a"},
		{jute.OpExists, true, jute.ErrNoNode, "exist /a"},
		{jute.OpExists, true, -102, ""},
		{jute.OpExists, false, 0, ""},
		{jute.OpGetChildren, true, 0, "child /a"},
		{jute.OpGetChildren2, true, 0, "child /a"},
		{jute.OpGetChildren2, true, jute.ErrNoNode, ""},
		{jute.OpGetChildren2, false, 0, ""},
	} {
		inBubble(t, nil, func(t *testing.T, r *rig) {
			l := r.connect()
			l.write(readRequest(1, c.op, "/a", c.watch))
			require.Empty(t, r.armedWatches(), "not answered yet")
			l.answer(reply(1, 1, c.code, record(c.op)...))
			var want []string
			if c.armed != "" {
				want = []string{c.armed}
			}
			require.Equal(t, want, r.armedWatches(), "%+v", c)
			reported := r.reported()
			require.Equal(t, c.armed == "data /a", slices.Contains(reported, "armed /a on 1"), "%+v", c)
			require.Equal(t, c.armed == "child /a", slices.Contains(reported, "armed children of /a on 1"), "%+v", c)
		})
	}
}

func TestEventsDisarmTheWatchesThatGoZookeeperDisarms(t *testing.T) {
	for typ, left := range map[int32][]string{
		jute.EventCreated:         {"child /a", "data /a", "data /b"},
		jute.EventDataChanged:     {"child /a", "data /b"},
		jute.EventChildrenChanged: {"data /a", "data /b", "exist /a"},
		jute.EventDeleted:         {"data /b"},
		-2:                        {"child /a", "data /a", "data /b", "exist /a"},
	} {
		inBubble(t, nil, func(t *testing.T, r *rig) {
			l := r.connect()
			l.setDataWatches("/a", "/b")
			l.write(readRequest(1, jute.OpExists, "/a", true), readRequest(2, jute.OpGetChildren2, "/a", true))
			l.answer(reply(1, 0, jute.ErrNoNode), reply(2, 0, 0, record(jute.OpGetChildren2)...))
			require.Equal(t, []string{"child /a", "data /a", "data /b", "exist /a"}, r.armedWatches())
			l.answer(event(typ, "/a"))
			require.Equal(t, left, r.armedWatches(), "event %d", typ)
		})
	}
}
