package line_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// What an RWLock does and a Mutex does not. What both do is in lock_test.go.

func TestAReaderWaitsForTheNearestWriterAhead(t *testing.T) {
	for name, nearestGoesFirst := range map[string]bool{"the first goes first": false, "the nearest gives up first": true} {
		t.Run(name, func(t *testing.T) {
			recipetest.InRWBubble(t, func(t *testing.T, w *recipetest.RWWorld) {
				first, between, nearest, last := w.CuratorPlace("__WRIT__"), w.CuratorPlace("__READ__"), w.CuratorPlace("__WRIT__"), w.CuratorPlace("__READ__")
				reader := w.MustWait(w.OurLock.RLock)
				own := w.Path + "/" + w.Line()[4].Name
				require.ElementsMatch(t, []string{own, nearest}, w.SessionOf(w.C).Watches)
				raw := w.Bare()
				goes := func(places ...string) map[string]int {
					return w.Requests(func() {
						for _, place := range places {
							require.NoError(t, raw.Delete(place, -1))
						}
					})
				}
				if nearestGoesFirst {
					require.Equal(t, 1, goes(nearest)["getChildren2"], "it looks again")
					require.Contains(t, w.SessionOf(w.C).Watches, first)
					require.True(t, reader.Waiting())
					goes(first)
				} else {
					require.Zero(t, goes(first, between, last)["getChildren2"])
					require.Equal(t, 1, goes(nearest)["getChildren2"], "the reader wakes once")
				}
				require.NoError(t, reader.Get().Release())
			})
		})
	}
}

func TestAReaderNeverSignalsAndItsDataIsIgnored(t *testing.T) {
	recipetest.InRWBubble(t, func(t *testing.T, w *recipetest.RWWorld) {
		reader := recipetest.Held(t, w.TheirLock.RLock)
		writer := w.MustWait(w.OurLock.Lock)
		conn := w.Bare()
		for range 3 {
			requests := w.Requests(func() {
				_, err := conn.Set(reader.Check().Path, []byte("released"), -1)
				require.NoError(t, err)
			})
			require.Equal(t, 1, recipetest.Sum(requests), "nobody wakes")
			require.True(t, writer.Waiting())
		}
		var l *zkrecipes.Lease
		requests := w.Requests(func() {
			require.NoError(t, reader.Release())
			l = writer.Get()
		})
		require.Equal(t, 1, requests[recipetest.OpReadRelease])
		require.Equal(t, 1, requests["getChildren2"], "the waiter lists")
		require.Equal(t, 1, w.Requests(func() { require.NoError(t, l.Release()) })[recipetest.OpRelease])
	})
}
