package zkrecipes

import (
	"context"
	"fmt"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/tuning"
)

// Children that are no places do not make a line long: the lock may be a znode that has
// children of its own.
func TestChildrenThatAreNoPlacesDoNotMakeALineLong(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c, conn := w.client(nil), w.bare()
		for i := range longLine + 4 {
			_, err := conn.Create(fmt.Sprintf("%s/config-%d", w.path, i), nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
		}
		m := NewMutex(c, w.path)
		require.NoError(t, m.Do(t.Context(), nothing)) // it has seen them
		requests := w.requests(func() { require.NoError(t, m.Do(t.Context(), nothing)) })
		require.Equal(t, map[string]int{opJoin: 1, "getChildren2": 1, opRelease: 1}, requests)
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
		_, err = NewMutex(c, w.path).TryLock(t.Context()) // lists
		require.ErrorIs(t, err, ErrLocked)
		requests := w.requests(func() { calls = append(calls, w.lockLater(c)) })
		require.Equal(t, 3, ahead)
		require.Equal(t, 0, requests["getChildren2"], "it has guessed")
		require.NoError(t, l.Release())
		for _, a := range calls {
			require.NoError(t, a.Get().Release())
		}
	})
}
