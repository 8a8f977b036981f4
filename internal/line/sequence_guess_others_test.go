package line_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/tuning"
)

// Children that are no places do not make a line long: the lock may be a znode that has
// children of its own.
func TestChildrenThatAreNoPlacesDoNotMakeALineLong(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c, conn := w.Client(nil), w.Bare()
		for i := range line.LongLine + 4 {
			_, err := conn.Create(fmt.Sprintf("%s/config-%d", w.Path, i), nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
		}
		m := zkrecipes.NewMutex(c, w.Path)
		require.NoError(t, m.Do(t.Context(), recipetest.Nothing)) // it has seen them
		requests := w.Requests(func() { require.NoError(t, m.Do(t.Context(), recipetest.Nothing)) })
		require.Zero(t, requests["getData"], "it does not guess")
	})
}

// The line's data do not name another library's place, so behind one a guess is wrong.
func TestAClientBehindAnotherLibrarysPlacesStopsGuessing(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		g, conn := w.Guesser(), w.Bare()
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
		s, _ := recipetest.Core(g.C).Session()
		require.True(t, s.EnforcesACLs(t.Context(), "/")) // asked once a session
		var others []string
		var calls []*harness.Call[*zkrecipes.Lease]
		for i := range 4 {
			p, err := conn.Create(w.Path+"/_c_1f2e3d4c-5b6a-4789-8abc-def012345678-lock-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			others = append(others, p)
			requests := w.Requests(func() { calls = append(calls, w.LockLater(g.C)) })
			require.Equal(t, 1, requests["getChildren2"], "join %d", i)
			if i > 0 {
				require.Equal(t, 2, requests["getData"], "of both places: it did not guess. Join %d", i)
			}
		}
		require.NoError(t, l.Release())
		for i, a := range calls {
			require.NoError(t, conn.Delete(others[i], -1))
			require.NoError(t, a.Get().Release())
		}
	})
}

func TestAheadOfAGuessCountsPlacesOnly(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		conn, ahead := w.Bare(), -1
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
		for i := range 3 {
			_, err := conn.Create(fmt.Sprintf("%s/config-%d", w.Path, i), nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
		}
		first := w.LockLater(w.Stranger(nil))
		c, err := zkrecipes.Dial(tuning.WithLongLine(t.Context(), 0), []string{w.Srv.Addr()}, &zkrecipes.Options{
			Dialer: w.Srv.DialContext, Trace: &zkrecipes.Trace{Queued: func(_ context.Context, e zkrecipes.TraceQueued) { ahead = e.Ahead }},
		})
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		calls := []*harness.Call[*zkrecipes.Lease]{first, w.LockLater(c)}
		_, err = w.Insider().Set(w.Path, []byte("zkrecipes/1 mutex"), -1) // without a name
		require.NoError(t, err)
		calls = append(calls, w.LockLater(c)) // lists
		requests := w.Requests(func() { calls = append(calls, w.LockLater(c)) })
		require.Equal(t, 4, ahead)
		require.Equal(t, 0, requests["getChildren2"], "it has guessed")
		require.NoError(t, l.Release())
		for _, a := range calls {
			require.NoError(t, a.Get().Release())
		}
	})
}
