package line_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// What an RWLock does and a Mutex does not. What both do is in lock_test.go.

// rwWorld is a world with an RWLock in two sessions.
type rwWorld struct {
	*recipetest.World
	c, d         *zkrecipes.Client
	ours, theirs *zkrecipes.RWLock
}

func inRWBubble(t *testing.T, f func(t *testing.T, w *rwWorld), opts ...zktest.Option) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		rw := &rwWorld{World: w, c: w.Stranger(nil), d: w.Stranger(nil)}
		rw.ours, rw.theirs = zkrecipes.NewRWLock(rw.c, w.Path), zkrecipes.NewRWLock(rw.d, w.Path)
		require.NoError(t, rw.ours.Do(t.Context(), recipetest.Nothing))
		require.NoError(t, rw.theirs.Do(t.Context(), recipetest.Nothing))
		f(t, rw)
	}, opts...)
}

// waits calls lock and requires that the call waits.
func (w *rwWorld) waits(lock func(context.Context) (*zkrecipes.Lease, error)) *harness.Call[*zkrecipes.Lease] {
	w.T.Helper()
	a := recipetest.Later(w.T, lock)
	synctest.Wait()
	require.True(w.T, a.Waiting())
	return a
}

// lastReleased releases all leases, and requires that the call is granted only then.
func (w *rwWorld) lastReleased(a *harness.Call[*zkrecipes.Lease], ls ...*zkrecipes.Lease) {
	w.T.Helper()
	for _, l := range ls {
		synctest.Wait()
		require.True(w.T, a.Waiting())
		require.NoError(w.T, l.Release())
	}
	require.NoError(w.T, a.Get().Release())
}

// place creates a place as Curator would.
func (w *rwWorld) place(kind string) string {
	path, err := w.Bare().Create(w.Path+"/_c_"+recipetest.CuratorUUID(1)+"-"+kind, nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	require.NoError(w.T, err)
	return path
}

func TestAReaderWaitsForTheNearestWriterAhead(t *testing.T) {
	for name, nearestGoesFirst := range map[string]bool{"the first goes first": false, "the nearest gives up first": true} {
		t.Run(name, func(t *testing.T) {
			inRWBubble(t, func(t *testing.T, w *rwWorld) {
				first, between, nearest, last := w.place("__WRIT__"), w.place("__READ__"), w.place("__WRIT__"), w.place("__READ__")
				reader := w.waits(w.ours.RLock)
				own := w.Path + "/" + w.Line()[4].Name
				require.ElementsMatch(t, []string{own, nearest}, recipetest.Watched(w.c))
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
					require.Contains(t, recipetest.Watched(w.c), first)
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

func TestAnRWLocksPathIsGoneAfterTheSessionIsKilled(t *testing.T) {
	inRWBubble(t, func(t *testing.T, w *rwWorld) {
		recipetest.Held(t, w.ours.RLock)
		recipetest.Held(t, w.ours.RLock)
		l := recipetest.Held(t, zkrecipes.NewRWLock(w.c, w.Path+"/below").Lock)
		work := l.Context(t.Context())
		require.NoError(t, w.d.Close())
		w.Srv.Expire(recipetest.SessionID(w.c))
		require.ErrorIs(t, harness.Cause(t, work), zkrecipes.ErrLost)
		require.NoError(t, w.c.Close())
		time.Sleep(10 * time.Minute)
		require.False(t, w.Has(w.Path))
	}, zktest.ContainerCheckInterval(time.Minute))
}

func TestAZeroRWLockIsAnError(t *testing.T) {
	inRWBubble(t, func(t *testing.T, w *rwWorld) {
		l := recipetest.Held(t, w.ours.Lock)
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
			zkrecipes.NewRWLock(w.c, "bad"): `bad: path does not begin with "/"`,
		} {
			for op, f := range calls(lock) {
				require.EqualError(t, f(t.Context()), "zkrecipes: "+op+" "+want)
			}
		}
		var none context.Context
		for _, f := range calls(w.ours) {
			require.ErrorIs(t, f(none), errs.ErrNilContext)
		}
		require.ErrorContains(t, w.ours.Do(t.Context(), nil), "nil function")
		require.ErrorContains(t, w.ours.RDo(t.Context(), nil), "nil function")
		require.NoError(t, w.c.Close())
		for _, f := range calls(w.ours) {
			require.ErrorIs(t, f(t.Context()), zkrecipes.ErrClosed)
		}
	})
}

func TestAReaderNeverSignalsAndItsDataIsIgnored(t *testing.T) {
	inRWBubble(t, func(t *testing.T, w *rwWorld) {
		reader := recipetest.Held(t, w.theirs.RLock)
		writer := w.waits(w.ours.Lock)
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
