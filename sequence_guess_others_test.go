package zkrecipes

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/tuning"
)

// Children that are no places do not make a line long: the lock may be a znode that has
// children of its own.
func TestChildrenThatAreNoPlacesDoNotMakeALineLong(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c, conn := w.client(nil), w.bare()
		for i := range line.LongLine + 4 {
			_, err := conn.Create(fmt.Sprintf("%s/config-%d", w.path, i), nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
		}
		m := NewMutex(c, w.path)
		require.NoError(t, m.Do(t.Context(), nothing)) // it has seen them
		requests := w.requests(func() { require.NoError(t, m.Do(t.Context(), nothing)) })
		require.Equal(t, map[string]int{opJoin: 1, "getChildren2": 1, opRelease: 1}, requests)
	})
}

// Nor where the client has not used the line for a while, and reads it again.
func TestChildrenThatAreNoPlacesAreRememberedWhileTheLineIsIdle(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c, conn := w.client(nil), w.bare()
		for i := range line.LongLine + 4 {
			_, err := conn.Create(fmt.Sprintf("%s/config-%d", w.path, i), nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
		}
		m := NewMutex(c, w.path)
		require.NoError(t, m.Do(t.Context(), nothing)) // it has seen them
		time.Sleep(line.IdleLine + time.Second)
		requests := w.requests(func() { require.NoError(t, m.Do(t.Context(), nothing)) })
		require.Equal(t, map[string]int{"getData": 1, opJoin: 1, "getChildren2": 1, opRelease: 1}, requests)
	})
}

// The line's data do not name another library's place, so behind one a guess is wrong.
func TestAClientBehindAnotherLibrarysPlacesStopsGuessing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		g, conn := w.guesser(), w.bare()
		l := lockOn(t, NewMutex(w.client(nil), w.path))
		s, _ := g.c.client.Session()
		require.True(t, s.EnforcesACLs(t.Context(), "/")) // asked once a session
		var others []string
		var calls []*harness.Call[*Lease]
		for i := range 4 {
			p, err := conn.Create(w.path+"/_c_1f2e3d4c-5b6a-4789-8abc-def012345678-lock-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			others = append(others, p)
			reads := 2 // of both places
			if i == 0 {
				reads = 4 // of the line, and of a place that there is not
			}
			requests := w.requests(func() { calls = append(calls, w.lockLater(g.c)) })
			require.Equal(t, map[string]int{opJoin: 1, "getData": reads, "getChildren2": 1}, requests, "join %d", i)
		}
		require.NoError(t, l.Release())
		for i, a := range calls {
			require.NoError(t, conn.Delete(others[i], -1))
			require.NoError(t, a.Get().Release())
		}
	})
}

func TestAheadOfAGuessCountsPlacesOnly(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		conn, ahead := w.bare(), -1
		l := lockOn(t, NewMutex(w.client(nil), w.path))
		for i := range 3 {
			_, err := conn.Create(fmt.Sprintf("%s/config-%d", w.path, i), nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
		}
		first := w.lockLater(w.stranger(nil))
		c, err := Dial(tuning.WithLongLine(t.Context(), 0), []string{w.srv.Addr()}, &Options{
			Dialer: w.srv.DialContext, Trace: &Trace{Queued: func(_ context.Context, e TraceQueued) { ahead = e.Ahead }},
		})
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		calls := []*harness.Call[*Lease]{first, w.lockLater(c)}
		_, err = w.insider().Set(w.path, []byte("zkrecipes/1 mutex"), -1) // without a name
		require.NoError(t, err)
		calls = append(calls, w.lockLater(c)) // lists
		requests := w.requests(func() { calls = append(calls, w.lockLater(c)) })
		require.Equal(t, 4, ahead)
		require.Equal(t, 0, requests["getChildren2"], "it has guessed")
		require.NoError(t, l.Release())
		for _, a := range calls {
			require.NoError(t, a.Get().Release())
		}
	})
}
