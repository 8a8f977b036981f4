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
			"a semaphore of 0 slots":          zkrecipes.NewSemaphore(c, "/s", 0),
			"a semaphore of -1 slots":         zkrecipes.NewSemaphore(c, "/s", -1),
			"a semaphore of 2147483648 slots": zkrecipes.NewSemaphore(c, "/s", math.MaxInt32+1),
			"nil client":                      zkrecipes.NewSemaphore(nil, "/s", 1),
			"not made by Dial":                zkrecipes.NewSemaphore(&zkrecipes.Client{}, "/s", 1),
			"not made by NewSemaphore":        nil,
			"made by NewSemaphore":            {},
		} {
			_, err := x.Acquire(ctx)
			require.ErrorContains(t, err, name)
			_, err = x.TryAcquire(ctx)
			require.ErrorContains(t, err, name)
			require.ErrorContains(t, x.Do(ctx, func(context.Context, *zkrecipes.SlotLease) error { return nil }), name)
			if !strings.HasPrefix(name, "a sem") {
				require.ErrorContains(t, x.Resize(ctx, 1), name)
				_, err = x.Holders(ctx)
				require.ErrorContains(t, err, strings.TrimSuffix(name, "NewSemaphore"))
			}
		}
		x := zkrecipes.NewSemaphore(c, "/s", 2)
		for _, k := range []int{0, -1} {
			_, err := x.AcquireN(ctx, k)
			require.ErrorContains(t, err, "slots requested")
			_, err = x.TryAcquireN(ctx, k)
			require.ErrorContains(t, err, "slots requested")
			require.ErrorContains(t, x.Resize(ctx, k), "a semaphore of")
		}
		var none context.Context
		_, err := x.Acquire(none)
		require.ErrorContains(t, err, "nil context")
		require.NotContains(t, w.Srv.Children("/"), "s", "nothing was sent")
	})
}

func TestSemaphoreRefusesBadPaths(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		for _, path := range []string{"", "s", "/s/", "//s", "/s/./a", "/s\x00"} {
			_, err := zkrecipes.NewSemaphore(c, path, 1).Acquire(harness.Within(t, time.Minute))
			var e *zkrecipes.Error
			require.ErrorAs(t, err, &e, path)
			require.Equal(t, path, e.Path)
		}
		_, err := w.Bare().Create("/e", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		for _, path := range []string{"/e", "/e/s"} {
			_, err = zkrecipes.NewSemaphore(c, path, 1).Acquire(harness.Within(t, time.Minute))
			require.ErrorIs(t, err, zk.ErrNoChildrenForEphemerals, path)
		}
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
						if at == "/s" && recipetest.SlotsOf(x).Known != nil {
							continue // it need not read
						}
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
		conn := w.Bare()
		for _, path := range []string{"/s", "/s/line"} {
			w.Write(path, "1")
		}
		x := w.Semaphore(1)
		for range 2 {
			require.ErrorIs(t, second(x.Acquire(t.Context())), zkrecipes.ErrPathInUse)
			require.ErrorIs(t, second(x.TryAcquire(t.Context())), zkrecipes.ErrPathInUse)
		}
		_, err := conn.Set("/s/line", nil, -1)
		require.NoError(t, err)
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
			require.Equal(t, recipetest.SlotsOf(x).At.Client.ACL, got, path)
		}
		a := recipetest.WaitsFor(t, zkrecipes.NewSemaphore(w.Stranger(opts), "/s", 2), 1)
		recipetest.ReleaseSlots(t, l)
		recipetest.Served(t, a)
	})
}
