package zkrecipes_test

import (
	"math"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// withCounter runs f in a bubble with a counter at /c, in a session of its own.
func withCounter(t *testing.T, f func(t *testing.T, w *recipetest.World, x *zkrecipes.Counter)) {
	t.Helper()
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) { f(t, w, zkrecipes.NewCounter(w.Stranger(nil), "/c")) })
}

func TestACounterCounts(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		x := zkrecipes.NewCounter(w.Stranger(nil), "/n/counter")
		v, err := x.Get(t.Context())
		require.NoError(t, err)
		require.Zero(t, v)
		require.NotContains(t, w.Srv.Tree(), "/n", "a read creates nothing")
		require.Equal(t, int64(5), recipetest.Count(t, x, 5))
		require.Equal(t, int64(3), recipetest.Count(t, x, -2))
		require.Equal(t, "3", w.Text("/n/counter"))
		require.NoError(t, x.Set(t.Context(), -7))
		require.Equal(t, "-7", w.Text("/n/counter"))
		for _, c := range []struct {
			old, value int64
			swapped    bool
		}{{3, 4, false}, {-7, 4, true}, {-7, 5, false}, {4, 4, true}} {
			swapped, err := x.CompareAndSet(t.Context(), c.old, c.value)
			require.NoError(t, err)
			require.Equal(t, c.swapped, swapped, c)
		}
		v, err = zkrecipes.NewCounter(w.Stranger(nil), "/n/counter").Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(4), v)
	})
}

// Nothing deletes an idle counter, whoever has made its znode.
func TestAnIdleCounterStays(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		require.NoError(t, zkrecipes.NewMutex(c, "/parent/lock").Do(t.Context(), recipetest.Nothing)) // /parent is a container
		recipetest.Count(t, zkrecipes.NewCounter(c, "/new"), 1)
		recipetest.Count(t, zkrecipes.NewCounter(c, "/parent"), 2)
		recipetest.Count(t, zkrecipes.NewCounter(c, "/parent"), 2)
		require.NoError(t, c.Close())
		time.Sleep(5 * time.Hour)
		require.Equal(t, "1", w.Text("/new"))
		require.Equal(t, "4", w.Text("/parent"))
		require.Empty(t, w.Srv.Children("/new"))
		require.Equal(t, []string{"counter"}, w.Srv.Children("/parent"))
	})
}

func TestACounterSharesItsPathWithOthers(t *testing.T) {
	withCounter(t, func(t *testing.T, w *recipetest.World, x *zkrecipes.Counter) {
		w.Write("/c", "") // as kazoo creates it
		require.Equal(t, int64(1), recipetest.Count(t, x, 1))
		w.Write("/c", "41")
		require.Equal(t, int64(42), recipetest.Count(t, x, 1))
		w.Write("/c", "-3")
		swapped, err := x.CompareAndSet(t.Context(), -3, 7)
		require.NoError(t, err)
		require.True(t, swapped, "it knew 42")
		w.Write("/c", "8")
		swapped, err = x.CompareAndSet(t.Context(), 7, 1)
		require.NoError(t, err)
		require.False(t, swapped, "it knew 7")
		require.Equal(t, "8", w.Text("/c"))
	})
}

func TestACounterRefusesTextThatIsNoInteger(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		for _, text := range []string{"x", "1.5", "9223372036854775808", " 1", "1_000", "zkrecipes/1 mutex"} {
			w.Write("/c", text)
			x := zkrecipes.NewCounter(c, "/c")
			_, err := x.Add(t.Context(), 1)
			require.ErrorIs(t, err, zkrecipes.ErrPathInUse, text)
			require.ErrorContains(t, err, "/c:")
			require.ErrorContains(t, err, strconv.Quote(text))
			require.ErrorIs(t, errOf(x.Get)(t.Context()), zkrecipes.ErrPathInUse, text)
			require.ErrorIs(t, x.Set(t.Context(), 1), zkrecipes.ErrPathInUse, text)
			require.Equal(t, text, w.Text("/c"))
		}
		recipetest.PutOn(t, zkrecipes.NewQueue(c, "/q", nil), "a")
		_, err := zkrecipes.NewCounter(c, "/q").Add(t.Context(), 1)
		require.ErrorIs(t, err, zkrecipes.ErrPathInUse)
		require.ErrorIs(t, errOf(zkrecipes.NewCounter(c, "/q").Get)(t.Context()), zkrecipes.ErrPathInUse)
	})
}

func TestASumThatDoesNotFitIsRefused(t *testing.T) {
	withCounter(t, func(t *testing.T, w *recipetest.World, x *zkrecipes.Counter) {
		for _, c := range []struct{ value, delta int64 }{
			{math.MaxInt64, 1}, {1, math.MaxInt64}, {math.MinInt64, -1}, {-1, math.MinInt64},
		} {
			require.NoError(t, x.Set(t.Context(), c.value))
			v, err := x.Add(t.Context(), c.delta)
			require.ErrorIs(t, err, zkrecipes.ErrOverflow)
			require.Zero(t, v)
			require.Equal(t, strconv.FormatInt(c.value, 10), w.Text("/c"))
		}
		require.NoError(t, x.Set(t.Context(), math.MaxInt64-1))
		require.Equal(t, int64(math.MaxInt64), recipetest.Count(t, x, 1))
		require.Equal(t, int64(-1), recipetest.Count(t, x, math.MinInt64))
	})
}

// What refuses a call is not read from a server that lags: it may have been so before the call.
func TestACallIsRefusedByWhatIsSoNow(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		other, x := zkrecipes.NewCounter(w.Stranger(nil), "/c"), zkrecipes.NewCounter(w.Stranger(nil), "/c")
		require.NoError(t, other.Set(t.Context(), 1))
		v, err := x.Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(1), v)
		require.NoError(t, other.Set(t.Context(), math.MaxInt64))
		swapped, err := x.CompareAndSet(t.Context(), math.MaxInt64, 2)
		require.NoError(t, err)
		require.True(t, swapped)
	}, recipetest.Behind(1, 20))
}

// Callers that leave before their add is under way have not added.
func TestACallerThatLeavesInTimeHasNotAdded(t *testing.T) {
	withCounter(t, func(t *testing.T, w *recipetest.World, x *zkrecipes.Counter) {
		recipetest.Count(t, x, 1)
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpCount, For: time.Second})
		first := recipetest.Adds(t, x, 10)
		second := recipetest.Adds(t, x, 100)
		recipetest.Cancels(t, second)
		require.Equal(t, int64(11), first.Get())
		synctest.Wait()
		require.Equal(t, "11", w.Text("/c"))

		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpCount, For: time.Second})
		third := recipetest.Adds(t, x, 1000)
		recipetest.Cancels(t, third, zkrecipes.ErrUncertain)
		time.Sleep(2 * time.Second)
		require.Equal(t, "1011", w.Text("/c"), "it was under way")
	})
}

func TestACounterThatMayNotBeWrittenReturnsTheServersError(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		_, err := w.Bare().Create("/c", []byte("5"), 0, append(zk.WorldACL(zk.PermRead|zk.PermCreate), zk.DigestACL(zk.PermWrite, "a", "b")...))
		require.NoError(t, err)
		x := zkrecipes.NewCounter(w.Stranger(nil), "/c")
		_, err = x.Add(t.Context(), 1)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		require.NotErrorIs(t, err, zkrecipes.ErrUncertain)
		v, err := x.Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(5), v)
	})
}

func TestShutdownWaitsForAddsAndCloseEndsThem(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		x := zkrecipes.NewCounter(c, "/c")
		recipetest.Count(t, x, 1)
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpCount, For: time.Second})
		a := recipetest.Adds(t, x, 1)
		require.NoError(t, c.Shutdown(t.Context()))
		require.Equal(t, int64(2), a.Get())
		require.ErrorIs(t, get(x.Add, 1)(t.Context()), zkrecipes.ErrClosed)

		c = w.Stranger(nil)
		x = zkrecipes.NewCounter(c, "/c")
		recipetest.Count(t, x, 1)
		w.Plan.Add(zktest.Fault{Do: zktest.Withhold, Op: recipetest.OpCount})
		a = recipetest.Adds(t, x, 1)
		c.Close()
		recipetest.Fails(t, a, zkrecipes.ErrClosed, zkrecipes.ErrUncertain)
	})
}
