package semaphore_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// Bad input, and refusals of the servers.

func TestSemaphoreRefusesBadInput(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		ctx := harness.Within(t, time.Minute)
		for name, x := range map[string]*zkrecipes.Semaphore{
			"n is 0 slots: must be from 1 to 2147483647":          zkrecipes.NewSemaphore(c, "/s", 0),
			"n is -1 slots: must be from 1 to 2147483647":         zkrecipes.NewSemaphore(c, "/s", -1),
			"n is 2147483648 slots: must be from 1 to 2147483647": zkrecipes.NewSemaphore(c, "/s", math.MaxInt32+1),
		} {
			_, err := x.Acquire(ctx)
			require.ErrorContains(t, err, name)
			_, err = x.TryAcquire(ctx)
			require.ErrorContains(t, err, name)
			require.ErrorContains(t, x.Do(ctx, func(context.Context, *zkrecipes.SlotLease) error { return nil }), name)
		}
		x := zkrecipes.NewSemaphore(c, "/s", 2)
		for _, k := range []int{0, -1} {
			_, err := x.AcquireN(ctx, k)
			require.ErrorContains(t, err, "slots: must be at least 1")
			_, err = x.TryAcquireN(ctx, k)
			require.ErrorContains(t, err, "slots: must be at least 1")
			require.ErrorContains(t, x.Resize(ctx, k), "slots: must be from 1")
		}
		require.NotContains(t, w.Srv.Children("/"), "s", "nothing was sent")
	})
}

// A request for which a transaction has no room is refused before anything is sent.
func TestSemaphoreRefusesMoreSlotsThanATransactionTakes(t *testing.T) {
	recipetest.InSemaphoreBubble(t, func(t *testing.T, w *recipetest.World) {
		x := w.Semaphore(1_000_000)
		_, err := x.AcquireN(harness.Within(t, time.Minute), 1_000_000)
		require.ErrorIs(t, err, zkrecipes.ErrTooLarge)
		l := recipetest.Acquire(t, x, 4000)
		require.Len(t, l.Slots(), 4000)
		_, err = l.Commit(harness.Within(t, time.Minute))
		require.NoError(t, err)
		recipetest.ReleaseSlots(t, l)
	})
}

// What the servers refuse is an error at once, and leaves nothing behind. The refusal is
// not remembered.
func TestSemaphoreReturnsNoAuthAtOnce(t *testing.T) {
	for at, perms := range map[string]int32{
		"/s":       zk.PermAll &^ zk.PermRead,
		"/s/line":  zk.PermAll &^ zk.PermWrite,
		"/s/slots": zk.PermAll &^ zk.PermCreate,
	} {
		for _, used := range []bool{false, true} {
			recipetest.InSemaphoreBubble(t, func(t *testing.T, w *recipetest.World) {
				x, y, conn := w.Semaphore(2), w.Semaphore(2), w.Bare()
				cycle(t, x, 1)
				if used {
					cycle(t, x, 1)
				}
				for range 2 {
					_, err := conn.SetACL(at, zk.WorldACL(perms), -1)
					require.NoError(t, err)
					for _, x := range []*zkrecipes.Semaphore{x, y} {
						require.ErrorIs(t, second(x.Acquire(harness.Within(t, time.Minute))), zk.ErrNoAuth, at)
					}
					_, err = conn.SetACL(at, zk.WorldACL(zk.PermAll), -1)
					require.NoError(t, err)
					cycle(t, x, 2)
					cycle(t, y, 2)
				}
			})
		}
	}
}

// If somebody else's data are in the line's znode, they cannot show that a waiter has joined.
// The refusal is not remembered.
func TestSemaphoreWorksAgainWhenItsLineIsMended(t *testing.T) {
	recipetest.InSemaphoreBubble(t, func(t *testing.T, w *recipetest.World) {
		held, conn, x := recipetest.Acquire(t, w.Semaphore(1), 1), w.Bare(), w.Semaphore(1)
		_, err := conn.SetACL("/s/line", zk.WorldACL(zk.PermAll&^zk.PermWrite), -1)
		require.NoError(t, err)
		require.ErrorIs(t, second(x.Acquire(t.Context())), zk.ErrNoAuth)
		_, err = conn.SetACL("/s/line", zk.WorldACL(zk.PermAll), -1)
		require.NoError(t, err)
		a := w.WaitsForSlots(1, 1)
		b := recipetest.WaitsFor(t, x, 1)
		recipetest.ReleaseSlots(t, held)
		recipetest.Served(t, a)
		recipetest.Served(t, b)
	})
	recipetest.InSemaphoreBubble(t, func(t *testing.T, w *recipetest.World) {
		for _, path := range []string{"/s", "/s/line"} {
			w.Write(path, "1")
		}
		x := w.Semaphore(1)
		for range 2 {
			require.ErrorIs(t, second(x.Acquire(t.Context())), zkrecipes.ErrPathInUse)
			require.ErrorIs(t, second(x.TryAcquire(t.Context())), zkrecipes.ErrPathInUse)
		}
		w.Write("/s/line", "")
		cycle(t, x, 1)
	})
}

func TestSemaphoreAppliesACLsAndWorksUnderAPrefix(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		opts := &zkrecipes.Options{Prefix: "/app", Auth: []zkrecipes.Auth{{Scheme: "digest", Data: []byte("user:secret")}}}
		x := zkrecipes.NewSemaphore(w.Stranger(opts), "/s", 2)
		l := recipetest.Acquire(t, x, 2)
		require.True(t, strings.HasPrefix(l.Checks()[0].Path, "/app/s/slots/0-"), l.Checks()[0].Path)
		conn := w.Bare()
		require.NoError(t, conn.AddAuth("digest", []byte("user:secret")))
		for _, path := range []string{"/app/s", "/app/s/line", "/app/s/slots", l.Checks()[0].Path} {
			got, _, err := conn.GetACL(path)
			require.NoError(t, err)
			require.Equal(t, zk.DigestACL(zk.PermAll, "user", "secret"), got, path)
		}
		a := recipetest.WaitsFor(t, zkrecipes.NewSemaphore(w.Stranger(opts), "/s", 2), 1)
		recipetest.ReleaseSlots(t, l)
		recipetest.Served(t, a)
	})
}
