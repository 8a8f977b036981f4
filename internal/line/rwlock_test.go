package line_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/errs"
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
				require.ElementsMatch(t, []string{own, nearest}, recipetest.Watched(w.C))
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
					require.Contains(t, recipetest.Watched(w.C), first)
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

func TestAZeroRWLockIsAnError(t *testing.T) {
	recipetest.InRWBubble(t, func(t *testing.T, w *recipetest.RWWorld) {
		l := recipetest.Held(t, w.OurLock.Lock)
		calls := func(w *zkrecipes.RWLock) map[string]func(context.Context) error {
			return map[string]func(context.Context) error{
				"lock": only(w.Lock), "read lock": only(w.RLock), "try lock": only(w.TryLock), "try read lock": only(w.TryRLock),
				"list": only(w.Contenders), "downgrade": func(ctx context.Context) error { return w.Downgrade(ctx, l) },
			}
		}
		for lock, want := range map[*zkrecipes.RWLock]string{
			{}:                              `"": not made by its constructor (NewMutex, NewRWLock, NewGate, ...)`,
			nil:                             `"": not made by its constructor (NewMutex, NewRWLock, NewGate, ...)`,
			zkrecipes.NewRWLock(nil, "/x"):  `/x: nil client`,
			zkrecipes.NewRWLock(w.C, "bad"): `bad: path does not begin with "/"`,
		} {
			for op, f := range calls(lock) {
				require.EqualError(t, f(t.Context()), "zkrecipes: "+op+" "+want)
			}
		}
		var none context.Context
		for _, f := range calls(w.OurLock) {
			require.ErrorIs(t, f(none), errs.ErrNilContext)
		}
		require.ErrorContains(t, w.OurLock.Do(t.Context(), nil), "nil function")
		require.ErrorContains(t, w.OurLock.RDo(t.Context(), nil), "nil function")
		require.NoError(t, w.C.Close())
		for _, f := range calls(w.OurLock) {
			require.ErrorIs(t, f(t.Context()), zkrecipes.ErrClosed)
		}
	})
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
