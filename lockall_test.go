package zkrecipes_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// inLockAllBubble runs f in a bubble.
func inLockAllBubble(t *testing.T, f func(t *testing.T, w *recipetest.ElectionWorld, c *zkrecipes.Client)) {
	recipetest.InElectionBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, _, _ *zkrecipes.Election) { f(t, w, w.Stranger(nil)) })
}

func TestLockAllHoldsAllLocksUntilItsRelease(t *testing.T) {
	inLockAllBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, c *zkrecipes.Client) {
		ms := recipetest.Mutexes(c, "/b", "/a", "/c")
		ls := recipetest.LockAll(t, ms...)
		ctx := ls.Context(t.Context())
		for i, l := range ls.All() {
			require.Equal(t, ms[i].Path(), l.Path(), "in the order given")
			require.NoError(t, l.Err())
			require.ErrorIs(t, errOf(ms[i].TryLock)(t.Context()), zkrecipes.ErrLocked)
		}
		require.NoError(t, ls.Err())
		require.NoError(t, ctx.Err())
		require.NoError(t, ls.Release())
		require.ErrorIs(t, ls.Err(), zkrecipes.ErrReleased)
		require.ErrorIs(t, context.Cause(ctx), zkrecipes.ErrReleased)
		require.NoError(t, ls.Release(), "again")
		w.IsFree("/a", "/b", "/c")
	})
}

func TestDoAllReleasesWhateverItsFunctionDoes(t *testing.T) {
	inLockAllBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, c *zkrecipes.Client) {
		ms := recipetest.Mutexes(c, "/a", "/b")
		broken := errors.New("broken")
		require.Equal(t, broken, zkrecipes.DoAll(t.Context(), ms, func(ctx context.Context, ls *zkrecipes.Leases) error {
			require.NoError(t, ls.Err())
			require.NoError(t, ctx.Err())
			return broken
		}))
		require.PanicsWithValue(t, "oh", func() {
			_ = zkrecipes.DoAll(t.Context(), ms, func(context.Context, *zkrecipes.Leases) error { panic("oh") })
		})
		w.IsFree("/a", "/b")
		err := zkrecipes.DoAll(t.Context(), ms, func(ctx context.Context, _ *zkrecipes.Leases) error {
			w.Srv.Expire(recipetest.SessionID(c))
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), zkrecipes.ErrLost)
			return nil
		})
		require.ErrorIs(t, err, zkrecipes.ErrLost)
	})
}

// Each call names the locks in another order.
func TestLockAllLocksInTheOrderOfPathsAndReleasesInReverse(t *testing.T) {
	inLockAllBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, c *zkrecipes.Client) {
		var mu sync.Mutex
		var order []string
		traced := w.Stranger(&zkrecipes.Options{Trace: recipetest.TraceOf(func(what string, e recipetest.TracedEvent) {
			mu.Lock()
			defer mu.Unlock()
			if sign := map[string]string{"granted": "+", "released": "-"}[what]; sign != "" {
				order = append(order, sign+e.Path)
			}
		})})
		require.NoError(t, recipetest.LockAll(t, recipetest.Mutexes(traced, "/b", "/a/x", "/a", "/c")...).Release())
		synctest.Wait()
		require.Equal(t, []string{"+/a", "+/a/x", "+/b", "+/c", "-/c", "-/b", "-/a/x", "-/a"}, order)
	})
}

func TestLockAllGivesBackWhatItHasIfItFails(t *testing.T) {
	inLockAllBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, c *zkrecipes.Client) {
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Stranger(nil), "/b"))
		call := recipetest.LockAllLater(t, recipetest.Mutexes(c, "/c", "/b", "/a")...)
		require.Len(t, w.Srv.Children("/a"), 1)
		require.Len(t, w.Srv.Children("/b"), 2)
		why := errors.New("why")
		call.Cancel(why)
		require.ErrorContains(t, recipetest.Fails(t, call, context.Canceled, why), "zkrecipes: lock all /b")
		w.IsFree("/a", "/c")
		require.NoError(t, l.Release())
		w.IsFree("/b")

		_, err := w.Operator.Create("/eph", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		_, err = zkrecipes.LockAll(t.Context(), recipetest.Mutexes(c, "/a", "/eph/b")...)
		require.ErrorIs(t, err, zk.ErrNoChildrenForEphemerals)
		w.IsFree("/a")
	})
}

func TestLockAllOfKeptLocksSendsNothing(t *testing.T) {
	inLockAllBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, c *zkrecipes.Client) {
		ms := []*zkrecipes.Mutex{zkrecipes.NewMutex(c, "/b", zkrecipes.KeepFor(time.Minute)), zkrecipes.NewMutex(c, "/a", zkrecipes.KeepFor(time.Minute))}
		require.NoError(t, recipetest.LockAll(t, ms...).Release())
		require.Empty(t, w.Requests(func() { require.NoError(t, recipetest.LockAll(t, ms...).Release()) }))
	})
}

func TestLockAllWithAHoldersContextReturnsErrDeadlockAtOnce(t *testing.T) {
	inLockAllBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, c *zkrecipes.Client) {
		ms := recipetest.Mutexes(c, "/a", "/b", "/c")
		l := recipetest.LockOn(t, ms[1])
		ctx := l.Context(t.Context())
		require.Empty(t, w.Requests(func() {
			_, err := zkrecipes.LockAll(ctx, ms...)
			require.ErrorIs(t, err, zkrecipes.ErrDeadlock)
			require.ErrorContains(t, err, "lock all /b")
		}))
		again, err := zkrecipes.LockAll(l.Reentrant(ctx), ms...)
		require.NoError(t, err, "it re-enters")
		require.Equal(t, l.Token(), again.All()[1].Token())
		require.NoError(t, again.Release())
		require.NoError(t, l.Err())
		require.NoError(t, l.Release())

		ls := recipetest.LockAll(t, ms...)
		ctx = ls.Context(t.Context())
		for _, m := range ms {
			require.ErrorIs(t, errOf(m.Lock)(ctx), zkrecipes.ErrDeadlock)
		}
		_, err = zkrecipes.LockAll(ctx, zkrecipes.NewMutex(c, "/0"), ms[2])
		require.ErrorIs(t, err, zkrecipes.ErrDeadlock)
		more, err := zkrecipes.LockAll(ctx, zkrecipes.NewMutex(c, "/d"))
		require.NoError(t, err)
		require.NoError(t, more.Release())
		require.NoError(t, ls.Release())
		w.IsFree("/a", "/b", "/c")
	})
}

func TestTheContextOfLockAllEndsWithTheFirstLockThatIsLost(t *testing.T) {
	inLockAllBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, c *zkrecipes.Client) {
		for i := range 3 {
			ls := recipetest.LockAll(t, recipetest.Mutexes(c, "/a", "/b", "/c")...)
			ctx := ls.Context(t.Context())
			time.Sleep(5 * time.Second)
			w.Evict(ls.All()[i].Check())
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), zkrecipes.ErrLost)
			require.ErrorIs(t, ls.Err(), zkrecipes.ErrLost)
			require.ErrorIs(t, ls.Release(), zkrecipes.ErrLost)
			w.IsFree("/a", "/b", "/c")
		}
	})
}

func TestLockAllRefusesBadInputBeforeItLocksAny(t *testing.T) {
	inLockAllBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, c *zkrecipes.Client) {
		a, b := zkrecipes.NewMutex(c, "/a"), zkrecipes.NewMutex(c, "/b")
		f := func(context.Context, *zkrecipes.Leases) error { return errors.New("called") }
		for name, test := range map[string]struct {
			ms   []*zkrecipes.Mutex
			text string
		}{
			"none":              {nil, `lock all "": no mutexes`},
			"nil mutex":         {[]*zkrecipes.Mutex{a, nil}, "not made by its constructor"},
			"first nil":         {[]*zkrecipes.Mutex{nil, a}, "not made by its constructor"},
			"zero mutex":        {[]*zkrecipes.Mutex{a, {}}, "not made by its constructor"},
			"path twice":        {[]*zkrecipes.Mutex{b, a, zkrecipes.NewMutex(c, "/b")}, "lock all /b: the path is given twice"},
			"mutex twice":       {[]*zkrecipes.Mutex{a, a}, "lock all /a: the path is given twice"},
			"different clients": {[]*zkrecipes.Mutex{a, zkrecipes.NewMutex(w.Stranger(nil), "/b")}, "lock all /b: mutexes of different Clients"},
			"invalid path":      {[]*zkrecipes.Mutex{a, zkrecipes.NewMutex(c, "b")}, `lock all b: path does not begin with "/"`},
			"bad option":        {[]*zkrecipes.Mutex{a, zkrecipes.NewMutex(c, "/b", zkrecipes.KeepFor(-1))}, "must be positive"},
		} {
			require.Zero(t, w.Requests(func() {
				_, err := zkrecipes.LockAll(t.Context(), test.ms...)
				require.ErrorContains(t, err, test.text, name)
				require.ErrorContains(t, zkrecipes.DoAll(t.Context(), test.ms, f), test.text, name)
			})[recipetest.OpJoin], name)
		}
		require.ErrorContains(t, zkrecipes.DoAll(t.Context(), []*zkrecipes.Mutex{a}, nil), "nil function")
		w.IsFree("/a", "/b")
	})
}

func TestLockAllGoesOnAfterTheServersHaveLostWhatItHeldMeanwhile(t *testing.T) {
	inLockAllBubble(t, func(t *testing.T, w *recipetest.ElectionWorld, c *zkrecipes.Client) {
		last := recipetest.LockOn(t, zkrecipes.NewMutex(w.Stranger(nil), "/b"))
		before := w.Srv.Snapshot()
		call := recipetest.LockAllLater(t, recipetest.Mutexes(c, "/a", "/b")...)
		synctest.Wait() // it holds /a, and waits for /b
		w.Srv.Restore(before)
		time.Sleep(recipetest.DefaultSessionTimeout / 2)
		require.NoError(t, last.Release())
		ls, err := call.Wait()
		require.NoError(t, err)
		require.NoError(t, ls.Err())
		require.NoError(t, ls.Release())
		w.IsFree("/a", "/b")
	})
}
