package zkrecipes

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
)

// Bad input, and refusals of the servers.

func TestB40SemaphoreRefusesBadInput(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		ctx := harness.Within(t, time.Minute)
		for name, x := range map[string]*Semaphore{
			"a semaphore of 0 slots":   NewSemaphore(c, "/s", 0),
			"a semaphore of -1 slots":  NewSemaphore(c, "/s", -1),
			"nil client":               NewSemaphore(nil, "/s", 1),
			"not made by Dial":         NewSemaphore(&Client{}, "/s", 1),
			"not made by NewSemaphore": nil,
			"made by NewSemaphore":     {},
		} {
			_, err := x.Acquire(ctx)
			require.ErrorContains(t, err, name)
			_, err = x.TryAcquire(ctx)
			require.ErrorContains(t, err, name)
			require.ErrorContains(t, x.Do(ctx, func(context.Context, *SlotLease) error { return nil }), name)
			if !strings.HasPrefix(name, "a sem") {
				require.ErrorContains(t, x.Resize(ctx, 1), name)
				_, err = x.Holders(ctx)
				require.ErrorContains(t, err, name)
			}
		}
		x := NewSemaphore(c, "/s", 2)
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
		require.NotContains(t, w.srv.Children("/"), "s", "nothing was sent")
	})
}

func TestB39SemaphoreRefusesBadPaths(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		for _, path := range []string{"", "s", "/s/", "//s", "/s/./a", "/s\x00"} {
			_, err := NewSemaphore(c, path, 1).Acquire(harness.Within(t, time.Minute))
			var e *Error
			require.ErrorAs(t, err, &e, path)
			require.Equal(t, path, e.Path)
		}
		_, err := w.bare().Create("/e", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		for _, path := range []string{"/e", "/e/s"} {
			_, err = NewSemaphore(c, path, 1).Acquire(harness.Within(t, time.Minute))
			require.ErrorIs(t, err, zk.ErrNoChildrenForEphemerals, path)
		}
	})
}

// A request for which a transaction has no room is refused before anything is sent.
func TestB52SemaphoreRefusesMoreSlotsThanATransactionTakes(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		x := w.semaphore(1_000_000)
		_, err := x.AcquireN(harness.Within(t, time.Minute), 1_000_000)
		require.ErrorIs(t, err, ErrTooLarge)
		l := acquire(t, x, 4000)
		require.Len(t, l.Slots(), 4000)
		_, err = l.Commit(harness.Within(t, time.Minute))
		require.NoError(t, err)
		releaseSlots(t, l)
		w.semaphoreAtRest()
	})
}

// What the servers refuse is an error at once, and leaves nothing behind.
func TestB36SemaphoreReturnsNoAuthAtOnce(t *testing.T) {
	for at, perms := range map[string]int32{
		"/s":       zk.PermAll &^ zk.PermRead,
		"/s/line":  zk.PermAll &^ zk.PermWrite,
		"/s/slots": zk.PermAll &^ zk.PermCreate,
	} {
		for _, used := range []bool{false, true} {
			inBubble(t, func(t *testing.T, w *world) {
				x := w.semaphore(2)
				releaseSlots(t, acquire(t, x, 1))
				if used {
					releaseSlots(t, acquire(t, x, 1))
				}
				conn := w.bare()
				_, err := conn.SetACL(at, zk.WorldACL(perms), -1)
				require.NoError(t, err)
				for _, x := range []*Semaphore{x, w.semaphore(2)} {
					if at == "/s" && used && x.slotted.Known != nil {
						continue // it need not read
					}
					_, err = x.Acquire(harness.Within(t, time.Minute))
					require.ErrorIs(t, err, zk.ErrNoAuth, at)
				}
				w.semaphoreAtRest()
			})
		}
	}
}

// The refusal is not remembered: once the line may be written, the semaphore works.
func TestSemaphoreWorksAgainWhenItsLineIsMended(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		held, conn := acquire(t, w.semaphore(1), 1), w.bare()
		x := w.semaphore(1)
		_, err := conn.SetACL("/s/line", zk.WorldACL(zk.PermAll&^zk.PermWrite), -1)
		require.NoError(t, err)
		_, err = x.Acquire(harness.Within(t, time.Minute))
		require.ErrorIs(t, err, zk.ErrNoAuth)
		_, err = conn.SetACL("/s/line", zk.WorldACL(zk.PermAll), -1)
		require.NoError(t, err)
		a := waitsFor(t, x, 1)
		releaseSlots(t, held)
		releaseSlots(t, a.Get())
		w.semaphoreAtRest()
	})
	inBubble(t, func(t *testing.T, w *world) {
		conn := w.insider()
		for _, path := range []string{"/s", "/s/line"} {
			_, err := conn.Create(path, []byte("1"), 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
		}
		x := w.semaphore(1)
		_, err := x.Acquire(harness.Within(t, time.Minute))
		require.ErrorIs(t, err, ErrPathInUse)
		_, err = conn.Set("/s/line", nil, -1)
		require.NoError(t, err)
		releaseSlots(t, acquire(t, x, 1))
		w.semaphoreAtRest()
	})
}

// If somebody else's data are in the line's znode, they cannot show that a waiter has
// joined.
func TestSemaphoreRefusesALineWithOtherData(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		conn := w.bare()
		for _, path := range []string{"/s", "/s/line"} {
			_, err := conn.Create(path, []byte("1"), 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
		}
		x := w.semaphore(1)
		_, err := x.Acquire(harness.Within(t, time.Minute))
		require.ErrorIs(t, err, ErrPathInUse)
		_, err = x.TryAcquire(harness.Within(t, time.Minute))
		require.ErrorIs(t, err, ErrPathInUse)
	})
}

func TestA18SemaphoreAppliesACLsAndA05WorksUnderAPrefix(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		opts := &Options{Prefix: "/app", Auth: []Auth{{"digest", []byte("user:secret")}}}
		x := NewSemaphore(w.stranger(opts), "/s", 2)
		l := acquire(t, x, 2)
		require.True(t, strings.HasPrefix(l.Checks()[0].Path, "/app/s/slots/0-"), l.Checks()[0].Path)
		conn := w.bare()
		require.NoError(t, conn.AddAuth("digest", []byte("user:secret")))
		for _, path := range []string{"/app/s", "/app/s/line", "/app/s/slots", l.Checks()[0].Path} {
			got, _, err := conn.GetACL(path)
			require.NoError(t, err)
			require.Equal(t, x.slotted.Held.Client.Created, got, path)
		}
		a := waitsFor(t, NewSemaphore(w.stranger(opts), "/s", 2), 1)
		releaseSlots(t, l)
		releaseSlots(t, a.Get())
	})
}
