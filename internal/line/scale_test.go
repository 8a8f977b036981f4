package line_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// Ten thousand readers hold the lock. One more reader costs no more than beside a
// single one. A writer sleeps until the last reader has left. Only the writer wakes
// the readers behind it.
func TestALineOfTenThousandReadersCostsNoMoreRequests(t *testing.T) {
	const places, behind = 10_000, 30
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c, other := w.Client(nil), w.Client(nil)
		conn := w.Bare()
		holders := w.Stand(conn, layout.KindRead, places)
		var l *zkrecipes.Lease
		require.Equal(t, 2, recipetest.Sum(w.Requests(func() { l = recipetest.Held(t, zkrecipes.NewRWLock(c, w.Path).RLock) })))
		var writer *harness.Call[*zkrecipes.Lease]
		require.Equal(t, 5, recipetest.Sum(w.Requests(func() { writer = recipetest.Later(t, zkrecipes.NewRWLock(other, w.Path).Lock) })))
		var readers []*harness.Call[*zkrecipes.Lease]
		joins := w.Requests(func() {
			for range behind {
				readers = append(readers, recipetest.Later(t, zkrecipes.NewRWLock(c, w.Path).RLock))
				synctest.Wait()
			}
		})
		// Each watches its own place. All share one pair of watches on the writer's place.
		// The second reader asks the line who joined last, since the first found the writer
		// at the tail.
		require.Equal(t, behind, joins["getChildren2"])
		require.Equal(t, behind+2, joins["getData"])

		requests := w.Requests(func() {
			for _, path := range holders[:10] {
				require.NoError(t, conn.Delete(path, -1))
			}
		})
		require.Equal(t, 10, recipetest.Sum(requests), "no waiter wakes")
		conn.Close() // deletes the other places at once
		synctest.Wait()
		require.True(t, writer.Waiting(), "one reader is ahead")
		require.Equal(t, 2, recipetest.Sum(w.Requests(func() { require.NoError(t, l.Release()) })), "the writer lists once")
		l = writer.Get()
		require.Equal(t, 1, recipetest.Sum(w.Requests(func() { require.NoError(t, l.Release()) })), "no reader sends anything")
		for _, a := range readers {
			l := a.Get()
			w.Stands(l)
			require.NoError(t, l.Release())
		}
		require.Empty(t, w.Line())
	})
}
