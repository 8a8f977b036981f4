package zkrecipes

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Joins whose reply is lost, and whose place the servers refuse to search for.

// refuseSearch loses the reply to the next join, and refuses the following listings of
// the line, so many times.
func (w *world) refuseSearch(listings int) {
	w.plan.Add(
		zktest.Fault{Do: zktest.Drop, After: true, Op: opJoin, Path: w.path},
		zktest.Fault{Do: zktest.Answer, Code: jute.ErrNoAuth, Op: "getChildren2", Path: w.path, Times: listings})
}

func TestB70PlaceOfALostJoinIsDeletedWhenItsSearchWasRefused(t *testing.T) {
	eachSideInBubble(t, func(t *testing.T, w *sideWorld) {
		c := w.client(nil)
		w.refuseSearch(4)
		_, err := w.ours(c, w.path).Lock(harness.Within(t, time.Minute))
		require.ErrorIs(t, err, ErrUncertain)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		require.Len(t, w.line(), 1)
		time.Sleep(time.Minute)
		require.Empty(t, w.line(), "nobody has called anything")
		require.Equal(t, 4, w.plan.Fired()["answer before"])
		require.Zero(t, w.requests(func() { time.Sleep(time.Hour) })["getChildren2"], "the search has ended")
		require.NoError(t, w.ours(c, w.path).Do(t.Context(), nothing))
	})
}

func TestB70PlaceOfALostJoinWhoseCallerHasLeftIsDeleted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: "getChildren2", For: time.Second})
		w.refuseSearch(2)
		a := w.lockLater(c)
		a.Cancel(nil)
		_, err := a.Wait()
		require.ErrorIs(t, err, context.Canceled)
		require.Len(t, w.line(), 1)
		time.Sleep(time.Minute)
		require.Empty(t, w.line())
	})
}

func TestB70SearchThatIsRefusedForLongSlowsDownAndGoesOn(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		w.refuseSearch(-1)
		_, err := NewMutex(c, w.path).Lock(harness.Within(t, time.Minute))
		require.ErrorIs(t, err, ErrUncertain)
		time.Sleep(time.Minute)
		n := w.requests(func() { time.Sleep(time.Hour) })["getChildren2"]
		require.InDelta(t, 360, n, 2, "one in a session timeout")
		require.Len(t, w.line(), 1)
		w.plan.Stop()
		time.Sleep(11 * time.Second)
		require.Empty(t, w.line())
	})
}

func TestB70RefusedSearchEndsWithTheSessionAndTheClient(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		w.refuseSearch(-1)
		_, err := NewMutex(c, w.path).Lock(harness.Within(t, time.Minute))
		require.ErrorIs(t, err, ErrUncertain)
		w.srv.Expire(sessionID(c))
		time.Sleep(time.Minute)
		require.Zero(t, w.requests(func() { time.Sleep(time.Hour) })["getChildren2"])

		w.plan.Stop()
		w.refuseSearch(-1)
		_, err = NewMutex(c, w.path).Lock(harness.Within(t, time.Minute))
		require.ErrorIs(t, err, ErrUncertain)
		began := time.Now()
		require.NoError(t, c.Close())
		require.Less(t, time.Since(began), 100*time.Millisecond)
		require.Empty(t, w.line())
	})
}

// A place that is left may count as a member. So the next call of the same Client does
// not begin beside it, and does not wait for ever either.
func TestB70NextCallOfABarrierIsNotCountedWithAPlaceThatIsLeft(t *testing.T) {
	barriers := []struct {
		name, line string
		skip       int // requests like the join
		wait       func(c *Client, path string) func(context.Context) (any, error)
	}{
		{"Barrier", "/line/round", 1, func(c *Client, path string) func(context.Context) (any, error) {
			return func(ctx context.Context) (any, error) { return NewBarrier(c, path, 2).Wait(ctx) }
		}},
		{"DoubleBarrier", "/line", 0, func(c *Client, path string) func(context.Context) (any, error) {
			return func(ctx context.Context) (any, error) { return NewDoubleBarrier(c, path, 2).Enter(ctx) }
		}},
	}
	for _, b := range barriers {
		t.Run(b.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				wait := b.wait(w.stranger(nil), w.path)
				join := zktest.Fault{Do: zktest.Drop, After: true, Op: "multi", Path: b.line + "/_c_*", Skip: b.skip}
				w.plan.Add(join, zktest.Fault{Do: zktest.Answer, Code: jute.ErrNoAuth, Op: "getChildren2", Path: b.line, Times: -1})
				_, err := wait(t.Context())
				require.ErrorIs(t, err, ErrUncertain)
				require.ErrorIs(t, err, zk.ErrNoAuth)

				_, err = wait(harness.Within(t, time.Minute))
				require.ErrorIs(t, err, zk.ErrNoAuth)
				require.NotErrorIs(t, err, ErrUncertain, "it has written nothing")

				w.plan.Stop()
				a := harness.Go(t, wait)
				time.Sleep(time.Minute)
				require.True(t, a.Waiting(), "it is alone")
				other := harness.Go(t, b.wait(w.stranger(nil), w.path))
				a.Get()
				other.Get()
			})
		})
	}
}

func TestB70RefusedSearchOfOnePathDelaysNoOther(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		w.refuseSearch(-1)
		_, err := NewMutex(c, w.path).Lock(harness.Within(t, time.Minute))
		require.ErrorIs(t, err, ErrUncertain)
		_, err = NewBarrier(c, "/other", 1).Wait(harness.Within(t, time.Second))
		require.NoError(t, err)
		synctest.Wait()
	})
}
