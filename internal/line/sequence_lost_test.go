package line_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Joins whose reply is lost, and whose place the servers refuse to search for.

func TestB70PlaceOfALostJoinIsDeletedWhenItsSearchWasRefused(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		c := w.Client(nil)
		w.RefuseSearch(4)
		_, err := w.Ours(c, w.Path).Lock(harness.Within(t, time.Minute))
		require.ErrorIs(t, err, zkrecipes.ErrUncertain)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		require.Len(t, w.Line(), 1)
		time.Sleep(time.Minute)
		require.Empty(t, w.Line(), "nobody has called anything")
		require.Equal(t, 4, w.Plan.Fired()["answer before"])
		require.Zero(t, w.Requests(func() { time.Sleep(time.Hour) })["getChildren2"], "the search has ended")
		require.NoError(t, w.Ours(c, w.Path).Do(t.Context(), recipetest.Nothing))
	})
}

func TestB70PlaceOfALostJoinWhoseCallerHasLeftIsDeleted(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "getChildren2", For: time.Second})
		w.RefuseSearch(2)
		a := w.LockLater(c)
		a.Cancel(nil)
		_, err := a.Wait()
		require.ErrorIs(t, err, context.Canceled)
		require.Len(t, w.Line(), 1)
		time.Sleep(time.Minute)
		require.Empty(t, w.Line())
	})
}

func TestB70SearchThatIsRefusedForLongSlowsDownAndGoesOn(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		w.RefuseSearch(-1)
		_, err := zkrecipes.NewMutex(c, w.Path).Lock(harness.Within(t, time.Minute))
		require.ErrorIs(t, err, zkrecipes.ErrUncertain)
		time.Sleep(time.Minute)
		n := w.Requests(func() { time.Sleep(time.Hour) })["getChildren2"]
		require.InDelta(t, 360, n, 2, "one in a session timeout")
		require.Len(t, w.Line(), 1)
		w.Plan.Stop()
		time.Sleep(11 * time.Second)
		require.Empty(t, w.Line())
	})
}

func TestB70RefusedSearchEndsWithTheSessionAndTheClient(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		w.RefuseSearch(-1)
		_, err := zkrecipes.NewMutex(c, w.Path).Lock(harness.Within(t, time.Minute))
		require.ErrorIs(t, err, zkrecipes.ErrUncertain)
		w.Srv.Expire(recipetest.SessionID(c))
		time.Sleep(time.Minute)
		require.Zero(t, w.Requests(func() { time.Sleep(time.Hour) })["getChildren2"])

		w.Plan.Stop()
		w.RefuseSearch(-1)
		_, err = zkrecipes.NewMutex(c, w.Path).Lock(harness.Within(t, time.Minute))
		require.ErrorIs(t, err, zkrecipes.ErrUncertain)
		began := time.Now()
		require.NoError(t, c.Close())
		require.Less(t, time.Since(began), 100*time.Millisecond)
		require.Empty(t, w.Line())
	})
}

// A place that is left may count as a member. So the next call of the same Client does
// not begin beside it, and does not wait for ever either.
func TestB70NextCallOfABarrierIsNotCountedWithAPlaceThatIsLeft(t *testing.T) {
	barriers := []struct {
		name, line string
		skip       int // requests like the join
		wait       func(c *zkrecipes.Client, path string) func(context.Context) (any, error)
	}{
		{"Barrier", "/line/round", 1, func(c *zkrecipes.Client, path string) func(context.Context) (any, error) {
			return func(ctx context.Context) (any, error) { return zkrecipes.NewBarrier(c, path, 2).Wait(ctx) }
		}},
		{"DoubleBarrier", "/line", 0, func(c *zkrecipes.Client, path string) func(context.Context) (any, error) {
			return func(ctx context.Context) (any, error) { return zkrecipes.NewDoubleBarrier(c, path, 2).Enter(ctx) }
		}},
	}
	for _, b := range barriers {
		t.Run(b.name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				wait := b.wait(w.Stranger(nil), w.Path)
				join := zktest.Fault{Do: zktest.Drop, After: true, Op: "multi", Path: b.line + "/_c_*", Skip: b.skip}
				w.Plan.Add(join, zktest.Fault{Do: zktest.Answer, Code: jute.ErrNoAuth, Op: "getChildren2", Path: b.line, Times: -1})
				_, err := wait(t.Context())
				require.ErrorIs(t, err, zkrecipes.ErrUncertain)
				require.ErrorIs(t, err, zk.ErrNoAuth)

				_, err = wait(harness.Within(t, time.Minute))
				require.ErrorIs(t, err, zk.ErrNoAuth)
				require.NotErrorIs(t, err, zkrecipes.ErrUncertain, "it has written nothing")

				w.Plan.Stop()
				a := harness.Go(t, wait)
				time.Sleep(time.Minute)
				require.True(t, a.Waiting(), "it is alone")
				other := harness.Go(t, b.wait(w.Stranger(nil), w.Path))
				a.Get()
				other.Get()
			})
		})
	}
}

func TestB70RefusedSearchOfOnePathDelaysNoOther(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		w.RefuseSearch(-1)
		_, err := zkrecipes.NewMutex(c, w.Path).Lock(harness.Within(t, time.Minute))
		require.ErrorIs(t, err, zkrecipes.ErrUncertain)
		_, err = zkrecipes.NewBarrier(c, "/other", 1).Wait(harness.Within(t, time.Second))
		require.NoError(t, err)
		synctest.Wait()
	})
}
