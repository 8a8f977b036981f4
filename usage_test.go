package zkrecipes_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// recipesBelow returns what Recipes yields, by path, and requires that it skips nothing.
func recipesBelow(t *testing.T, c *zkrecipes.Client, root string) map[string]zkrecipes.Usage {
	t.Helper()
	found, skipped := lookBelow(t, c, root, nil)
	require.Empty(t, skipped)
	return found
}

// lookBelow returns what Recipes finds and what it skips, by path.
func lookBelow(t *testing.T, c *zkrecipes.Client, root string, opts *zkrecipes.RecipesOptions) (found map[string]zkrecipes.Usage, skipped map[string]error) {
	t.Helper()
	found, skipped = map[string]zkrecipes.Usage{}, map[string]error{}
	for u, err := range c.Recipes(t.Context(), root, opts) {
		if err != nil {
			require.NotContains(t, skipped, u.Path)
			skipped[u.Path] = err
			continue
		}
		require.NotContains(t, found, u.Path)
		found[u.Path] = u
	}
	return found, skipped
}

// busyWorld has every recipe in use, with things that happened an hour apart.
type busyWorld struct {
	*recipetest.World
	c     *zkrecipes.Client // that looks
	began time.Time
}

// after sleeps until so many hours have passed.
func (w *busyWorld) after(hours int) {
	time.Sleep(time.Until(w.began.Add(time.Duration(hours) * time.Hour)))
	synctest.Wait()
}

// at returns the time so many hours after the beginning.
func (w *busyWorld) at(hours int) time.Time { return w.began.Add(time.Duration(hours) * time.Hour) }

func inBusyBubble(t *testing.T, f func(t *testing.T, w *busyWorld)) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		b := &busyWorld{World: w, began: time.Now()}
		b.use(t)
		b.c = w.Stranger(nil)
		f(t, b)
	}, zktest.ContainerCheckInterval(1000*time.Hour))
}

func (w *busyWorld) use(t *testing.T) {
	one, two, three := w.Stranger(nil), w.Stranger(nil), w.Stranger(nil)
	recipetest.LockOn(t, zkrecipes.NewMutex(one, "/app/mutex"))
	recipetest.Held(t, zkrecipes.NewRWLock(one, "/app/rw").RLock)
	recipetest.Acquire(t, zkrecipes.NewSemaphore(one, "/app/semaphore", 3), 2)
	recipetest.Campaigns(t, zkrecipes.NewElection(one, "/app/election"), "one")
	q := zkrecipes.NewQueue(one, "/app/queue", nil)
	recipetest.PutOn(t, q, "a", "b", "c")
	recipetest.WaitLater(t, zkrecipes.NewBarrier(one, "/app/barrier", 3))
	recipetest.EnterLater(t, zkrecipes.NewDoubleBarrier(one, "/app/double", 3))
	require.NoError(t, zkrecipes.NewGate(one, "/app/gate").Shut(t.Context()))
	recipetest.Count(t, zkrecipes.NewCounter(one, "/app/counter"), 3)
	join(t, one, "/app/group", "one")
	harness.GoErr(t, does(zkrecipes.NewShards(one, "/app/shards", 5, nil).Serve))
	w.after(1)
	join(t, two, "/app/group", "two")
	harness.GoErr(t, does(zkrecipes.NewShards(two, "/app/shards", 5, nil).Serve))
	recipetest.LockLater(t, zkrecipes.NewMutex(two, "/app/mutex"))
	recipetest.Held(t, zkrecipes.NewRWLock(two, "/app/rw").RLock)
	recipetest.CampaignLater(t, zkrecipes.NewElection(two, "/app/election"), "two")
	recipetest.TakeOn(t, q)
	recipetest.WaitLater(t, zkrecipes.NewBarrier(two, "/app/barrier", 3))
	recipetest.EnterLater(t, zkrecipes.NewDoubleBarrier(two, "/app/double", 3))
	recipetest.AcquireLater(t, zkrecipes.NewSemaphore(two, "/app/semaphore", 3), 2)
	w.after(2)
	recipetest.LockLater(t, zkrecipes.NewMutex(three, "/app/mutex"))
	recipetest.Later(t, zkrecipes.NewRWLock(three, "/app/rw").Lock)
	recipetest.LockOn(t, zkrecipes.NewMutex(three, "/app/mutex/below"))
	recipetest.AcquireLater(t, zkrecipes.NewSemaphore(three, "/app/semaphore", 3), 1)
	w.after(3)
	recipetest.Count(t, zkrecipes.NewCounter(one, "/app/counter"), 3)
}

func join(t *testing.T, c *zkrecipes.Client, path, id string) {
	t.Helper()
	_, err := zkrecipes.NewGroup(c, path).Join(t.Context(), nil, zkrecipes.MemberID(id))
	require.NoError(t, err)
}

func TestRecipesTellsWhatIsInUseAndSinceWhen(t *testing.T) {
	inBusyBubble(t, func(t *testing.T, w *busyWorld) {
		want := []zkrecipes.Usage{
			{Recipe: zkrecipes.RecipeMutex, Path: "/app/mutex", Holders: 1, Waiters: 2, HeldSince: w.at(0), WaitingSince: w.at(1)},
			{Recipe: zkrecipes.RecipeMutex, Path: "/app/mutex/below", Holders: 1, HeldSince: w.at(2)},
			{Recipe: zkrecipes.RecipeRWLock, Path: "/app/rw", Holders: 2, Waiters: 1, HeldSince: w.at(0), WaitingSince: w.at(2)},
			{Recipe: zkrecipes.RecipeSemaphore, Path: "/app/semaphore", Size: 3, Holders: 1, Waiters: 2, HeldSince: w.at(0), WaitingSince: w.at(1)},
			{Recipe: zkrecipes.RecipeElection, Path: "/app/election", Holders: 1, Waiters: 1, HeldSince: w.at(0), WaitingSince: w.at(1)},
			{Recipe: zkrecipes.RecipeQueue, Path: "/app/queue", Holders: 1, Len: 3, HeldSince: w.at(1), ItemSince: w.at(0)},
			{Recipe: zkrecipes.RecipeBarrier, Path: "/app/barrier", Size: 3, Waiters: 2, WaitingSince: w.at(0)},
			{Recipe: zkrecipes.RecipeDoubleBarrier, Path: "/app/double", Waiters: 2, WaitingSince: w.at(0)},
			{Recipe: zkrecipes.RecipeGate, Path: "/app/gate", HeldSince: w.at(0)},
			{Recipe: zkrecipes.RecipeCounter, Path: "/app/counter"},
			{Recipe: zkrecipes.RecipeGroup, Path: "/app/group", Holders: 2, HeldSince: w.at(0)},
			{Recipe: zkrecipes.RecipeShards, Path: "/app/shards", Size: 5, Holders: 5, HeldSince: w.at(0)},
		}
		for _, root := range []string{"/", "/app"} {
			found := recipesBelow(t, w.c, root)
			for _, u := range want {
				require.Equal(t, u, found[u.Path], root)
			}
			require.Len(t, found, len(want), root)
		}
		require.Equal(t, want[0], recipesBelow(t, w.c, "/app/mutex")["/app/mutex"], "the root itself counts")
		for range w.c.Recipes(t.Context(), "/", nil) {
			break // and nothing more is sent
		}
	})
}

// Those that have been let go hold.
func TestRecipesTellsOfMembersThatWereLetGo(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		began := time.Now()
		first := recipetest.EnterLater(t, zkrecipes.NewDoubleBarrier(w.Stranger(nil), "/double", 2))
		time.Sleep(time.Hour)
		recipetest.EnterLater(t, zkrecipes.NewDoubleBarrier(w.Stranger(nil), "/double", 2)).Get()
		first.Get()
		time.Sleep(time.Hour)
		require.Equal(t, map[string]zkrecipes.Usage{
			"/double": {Recipe: zkrecipes.RecipeDoubleBarrier, Path: "/double", Holders: 2, HeldSince: began.Add(time.Hour)},
		}, recipesBelow(t, w.Stranger(nil), "/"))
	})
}

// Its members are yet to leave it.
func TestRecipesTellsOfARoundThatWasOpened(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		began := time.Now()
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpLeaveRound, For: time.Minute, Times: -1})
		a := recipetest.WaitLater(t, zkrecipes.NewBarrier(w.Stranger(nil), "/b", 2))
		time.Sleep(time.Hour)
		recipetest.Indexes(t, a, recipetest.WaitLater(t, zkrecipes.NewBarrier(w.Stranger(nil), "/b", 2)))
		require.Equal(t, map[string]zkrecipes.Usage{
			"/b": {Recipe: zkrecipes.RecipeBarrier, Path: "/b", Size: 2, Holders: 2, HeldSince: began.Add(time.Hour)},
		}, recipesBelow(t, w.Stranger(nil), "/"))
		time.Sleep(2 * time.Minute)
	})
}

func TestRecipesSkipsWhatItMayNotReadOrDoesNotKnow(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
		conn, secret := w.Bare(), zk.DigestACL(zk.PermAll, "someone", "else")
		for _, znode := range []struct {
			path, data string
			acl        []zk.ACL
		}{
			{"/secret", "", secret}, {"/below", "", zk.WorldACL(zk.PermAll)}, {"/below/secret", "", secret}, {"/new", "zkrecipes/9 mutex", zk.WorldACL(zk.PermAll)},
		} {
			_, err := conn.Create(znode.path, []byte(znode.data), 0, znode.acl)
			require.NoError(t, err)
		}
		found, skipped := lookBelow(t, w.Stranger(nil), "/", nil)
		require.Equal(t, []string{w.Path}, slices.Collect(maps.Keys(found)))
		require.Len(t, skipped, 3)
		require.ErrorIs(t, skipped["/new"], zkrecipes.ErrPathInUse, "of another layout")
		for _, path := range []string{"/secret", "/below/secret"} {
			require.ErrorIs(t, skipped[path], zk.ErrNoAuth)
			require.ErrorContains(t, skipped[path], path)
		}
	})
}

func TestRecipesTellsNoTimeOfAMemberThatItMayNotRead(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		harness.GoErr(t, does(zkrecipes.NewShards(w.Stranger(nil), "/s", 1, &zkrecipes.ShardsOptions{Member: "m"}).Serve))
		synctest.Wait()
		_, err := w.Bare().SetACL("/s/members/m", zk.DigestACL(zk.PermAll, "someone", "else"), -1)
		require.NoError(t, err)
		require.Zero(t, recipesBelow(t, w.Stranger(nil), "/s")["/s"].HeldSince)
	})
}

// Plain znodes, sizes with nothing below, and what recipes have below their paths.
func TestRecipesFindsNothingThatIsNone(t *testing.T) {
	inBusyBubble(t, func(t *testing.T, w *busyWorld) {
		for _, znode := range []string{"/plain", "/plain/5", "/plain/s", "/plain/_c_x", "/plain/latch-0000000001"} {
			w.Write(znode, path.Base(znode)) // a size, for example
		}
		for _, root := range []string{"/plain", "/app/semaphore/line", "/app/queue/s", "/app/barrier/round"} {
			require.Empty(t, recipesBelow(t, w.c, root), root)
		}
	})
}

func TestRecipesFindsLocksWithoutAMarker(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		for _, path := range []string{"/kazoo", "/curator", "/readers"} {
			w.Write(path, "somebody's own")
		}
		began := time.Now()
		for _, place := range []string{"/kazoo/0f__lock__0000000000", "/kazoo/0e__lock__0000000001", "/curator/_c_x-__READ__0000000000", "/readers/0e__rlock__0000000003"} {
			w.Write(place, "")
		}
		require.Equal(t, map[string]zkrecipes.Usage{
			"/kazoo":   {Recipe: zkrecipes.RecipeMutex, Path: "/kazoo", Holders: 1, Waiters: 1, HeldSince: began, WaitingSince: began},
			"/curator": {Recipe: zkrecipes.RecipeRWLock, Path: "/curator", Holders: 1, HeldSince: began},
			"/readers": {Recipe: zkrecipes.RecipeRWLock, Path: "/readers", Holders: 1, HeldSince: began},
		}, recipesBelow(t, w.Stranger(nil), "/"))
	})
}

func TestRecipesTellsWhatItsBoundsLeaveOut(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		for i := range 5 {
			require.NoError(t, zkrecipes.NewMutex(c, fmt.Sprintf("/a/b%d/c/d", i)).Do(t.Context(), recipetest.Nothing))
		}
		leftOut := func(opts zkrecipes.RecipesOptions, path, says string, finds int) {
			t.Helper()
			found, skipped := lookBelow(t, c, "/a", &opts)
			require.Len(t, found, finds)
			require.ErrorIs(t, skipped[path], zkrecipes.ErrLeftOut)
			require.ErrorContains(t, skipped[path], says)
			require.Len(t, skipped, 1)
		}
		leftOut(zkrecipes.RecipesOptions{Depth: 2}, "/a/b0/c/d", "5 znodes", 0)
		leftOut(zkrecipes.RecipesOptions{Depth: 1}, "/a/b0/c", "5 znodes", 0)
		leftOut(zkrecipes.RecipesOptions{Znodes: 15}, "/a/b4/c/d", "1 znodes", 4)
		leftOut(zkrecipes.RecipesOptions{Znodes: 4}, "/a", "5 children", 0)
		leftOut(zkrecipes.RecipesOptions{Znodes: 5}, "/a/b4", "5 znodes", 0) // one beside four, and what is below these
		found, skipped := lookBelow(t, c, "/a", &zkrecipes.RecipesOptions{Depth: 3, Znodes: 16})
		require.Len(t, found, 5)
		require.Empty(t, skipped)
	})
}

func TestRecipesTakesWhatVanishesForNothing(t *testing.T) {
	for _, op := range []string{"getData", "getChildren2", "exists"} {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
			waits := w.LockLater(w.Stranger(nil))
			c := w.Stranger(nil)
			w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: op, For: time.Second, Times: -1})
			a := harness.Go(t, func(ctx context.Context) ([]zkrecipes.Usage, error) {
				var us []zkrecipes.Usage
				for u, err := range c.Recipes(ctx, "/", nil) {
					if err != nil {
						return nil, err
					}
					us = append(us, u)
				}
				return us, nil
			})
			time.Sleep(2500 * time.Millisecond) // the root has been read and listed
			w.Plan.Stop()
			require.NoError(t, l.Release())
			require.NoError(t, waits.Get().Release())
			if err := w.Bare().Delete(w.Path, -1); !errors.Is(err, zk.ErrNotEmpty) && !errors.Is(err, zk.ErrNoNode) {
				require.NoError(t, err)
			}
			a.Get()
		})
	}
}

func TestRecipesGoesOnThroughLostConnectionsAndSessions(t *testing.T) {
	inBusyBubble(t, func(t *testing.T, w *busyWorld) {
		want := recipesBelow(t, w.c, "/")
		for _, op := range []string{"getData", "getChildren2", "exists"} {
			for skip := range 6 {
				for _, fault := range []zktest.Fault{{Do: zktest.Drop}, {Do: zktest.Drop, After: true}} {
					fault.Op, fault.Skip = op, skip
					w.Plan.Add(fault)
					require.Equal(t, want, recipesBelow(t, w.c, "/"), fault)
					w.Plan.Stop()
				}
			}
		}
	})
}

func TestRecipesEndsWithTheErrorOfTheRootAndOfTheContext(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		_, skipped := lookBelow(t, c, "/none", nil)
		require.ErrorIs(t, skipped["/none"], zk.ErrNoNode)
		for _, root := range []string{"", "none", "/none/", "//"} {
			_, skipped = lookBelow(t, c, root, nil)
			require.ErrorIs(t, skipped[root], zkrecipes.ErrInvalidPath, root)
		}
		_, skipped = lookBelow(t, c, "/", &zkrecipes.RecipesOptions{Depth: -1})
		require.ErrorContains(t, skipped["/"], "RecipesOptions.Depth must not be negative: -1")
		_, skipped = lookBelow(t, nil, "/", nil)
		require.ErrorContains(t, skipped["/"], "nil client")
		_, skipped = lookBelow(t, &zkrecipes.Client{}, "/", nil)
		require.ErrorContains(t, skipped["/"], "not made by Dial")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		n := 0
		for _, err := range c.Recipes(ctx, "/", nil) {
			require.ErrorIs(t, err, context.Canceled)
			n++
		}
		require.Equal(t, 1, n)
		require.NoError(t, c.Close())
		_, skipped = lookBelow(t, c, "/", nil)
		require.ErrorIs(t, skipped["/"], zkrecipes.ErrClosed)
	})
}

func TestRecipesAreBelowThePrefix(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
		c := w.Stranger(&zkrecipes.Options{Prefix: "/tenant"})
		recipetest.LockOn(t, zkrecipes.NewMutex(c, "/locks/a"))
		require.Equal(t, []string{"/locks/a"}, slices.Collect(maps.Keys(recipesBelow(t, c, "/"))))
		require.Contains(t, recipesBelow(t, w.Stranger(nil), "/"), "/tenant/locks/a")
	})
}
