package line_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// Recipes that take turns by other rules, or whose tokens do not compare, must not use one
// path. The data of the znodes name the recipe.

// recipeUse uses a path and returns what gives it back.
type recipeUse func(c *zkrecipes.Client, path string) (release func() error, err error)

// recipeUses are the recipes with a place, by name.
var recipeUses = map[string]recipeUse{
	"mutex": func(c *zkrecipes.Client, path string) (func() error, error) {
		l, err := zkrecipes.NewMutex(c, path).Lock(context.Background())
		if err != nil {
			return nil, err
		}
		return l.Release, nil
	},
	"kept mutex": func(c *zkrecipes.Client, path string) (func() error, error) {
		l, err := zkrecipes.NewMutex(c, path, zkrecipes.KeepFor(1)).Lock(context.Background())
		if err != nil {
			return nil, err
		}
		return l.Release, nil
	},
	"rwlock": func(c *zkrecipes.Client, path string) (func() error, error) {
		l, err := zkrecipes.NewRWLock(c, path).RLock(context.Background())
		if err != nil {
			return nil, err
		}
		return l.Release, nil
	},
	"election": func(c *zkrecipes.Client, path string) (func() error, error) {
		term, err := zkrecipes.NewElection(c, path).Campaign(context.Background(), nil)
		if err != nil {
			return nil, err
		}
		return term.Resign, nil
	},
	"semaphore": func(c *zkrecipes.Client, path string) (func() error, error) {
		l, err := zkrecipes.NewSemaphore(c, path, 2).Acquire(context.Background())
		if err != nil {
			return nil, err
		}
		return l.Release, nil
	},
	"queue": func(c *zkrecipes.Client, path string) (func() error, error) {
		_, err := zkrecipes.NewQueue(c, path, nil).Put(context.Background(), nil)
		return func() error { return nil }, err
	},
	"double barrier": func(c *zkrecipes.Client, path string) (func() error, error) {
		v, err := zkrecipes.NewDoubleBarrier(c, path, 1).Enter(context.Background())
		if err != nil {
			return nil, err
		}
		return func() error { return v.Leave(context.Background()) }, nil
	},
	"barrier": func(c *zkrecipes.Client, path string) (func() error, error) {
		_, err := zkrecipes.NewBarrier(c, path, 1).Wait(context.Background())
		return func() error { return nil }, err
	},
}

func TestRecipesRefuseThePathOfAnother(t *testing.T) {
	unnoticed := map[[2]string]bool{ // see ErrPathInUse
		{"mutex", "kept mutex"}: true, {"kept mutex", "mutex"}: true, // the same recipe
		{"mutex", "rwlock"}: true, {"rwlock", "mutex"}: true, // noticed if places of both stand in the line
		{"kept mutex", "rwlock"}: true, {"rwlock", "kept mutex"}: true,
		{"queue", "double barrier"}: true,                                 // their znodes have other names
		{"semaphore", "barrier"}:    true, {"barrier", "semaphore"}: true, // they share the number
	}
	for first, one := range recipeUses {
		for second, other := range recipeUses {
			if first == second || unnoticed[[2]string{first, second}] {
				continue
			}
			t.Run(second+" after "+first, func(t *testing.T) {
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					a := w.Stranger(nil)
					for _, c := range []*zkrecipes.Client{a, w.Stranger(nil)} {
						release, err := one(a, "/one")
						require.NoError(t, err)
						require.NoError(t, release())
						synctest.Wait()
						_, err = other(c, "/one")
						require.ErrorIs(t, err, zkrecipes.ErrPathInUse)
						release, err = one(a, "/one") // it is not disturbed
						require.NoError(t, err)
						require.NoError(t, release())
					}
				})
			})
		}
	}
}

// A lock that one process has used as a Mutex may be used as an RWLock afterwards.
func TestMutexAndRWLockMayUseAPathOneAfterTheOther(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		for range 2 {
			require.NoError(t, zkrecipes.NewMutex(c, "/one").Do(t.Context(), recipetest.Nothing))
			require.NoError(t, zkrecipes.NewRWLock(c, "/one").RDo(t.Context(), recipetest.Nothing))
		}
	})
}

// A line without this library's data may be Curator's.
func TestLocksUseAPathWithoutAMarker(t *testing.T) {
	for _, data := range []string{"", "mine", "-1", "02", "zkrecipes"} {
		for _, name := range []string{"mutex", "rwlock", "election"} {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				conn := w.Bare()
				_, err := conn.Create("/one", []byte(data), 0, zk.WorldACL(zk.PermAll))
				require.NoError(t, err)
				_, err = conn.Create("/one/s", []byte("mine"), 0, zk.WorldACL(zk.PermAll)) // no queue's
				require.NoError(t, err)
				release, err := recipeUses[name](w.Stranger(nil), "/one")
				require.NoError(t, err, "%s at %q", name, data)
				require.NoError(t, release())
			})
		}
	}
}

// A znode of somebody's own that is used as a lock may come to hold a number under the lock.
// That is no other recipe's.
func TestALockOnAZnodeGoesOnWhenItComesToHoldANumber(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		_, err := w.Bare().Create("/counter", []byte("0"), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		c, waiter := w.Stranger(nil), w.Stranger(nil)
		l := recipetest.LockOn(t, zkrecipes.NewMutex(c, "/counter"))
		next := recipetest.LockLater(t, zkrecipes.NewMutex(waiter, "/counter"))
		synctest.Wait()
		_, err = l.Commit(t.Context(), zkrecipes.OpSet("/counter", []byte("1"), -1))
		require.NoError(t, err)
		time.Sleep(line.IdleLine + time.Second)
		require.True(t, w.Srv.Expire(recipetest.SessionID(waiter)))
		time.Sleep(time.Minute)
		require.True(t, next.Waiting(), "the wait goes on in the next session")
		require.NoError(t, l.Release())
		require.NoError(t, next.Get().Release())
		require.NoError(t, zkrecipes.NewMutex(c, "/counter").Do(t.Context(), recipetest.Nothing))
	})
}

func TestALockThatIsRefusedOnAQueuesPathWritesNothingThere(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		recipetest.PutOn(t, zkrecipes.NewQueue(c, "/one", nil), "0")
		_, err := zkrecipes.NewMutex(c, "/one").Lock(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrPathInUse)
		data, _, err := w.Bare().Get("/one")
		require.NoError(t, err)
		require.Empty(t, data)
	})
}
