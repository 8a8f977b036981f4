package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// recipesBelow returns what Recipes yields, by path, and requires that it skips nothing.
func recipesBelow(t *testing.T, c *Client, root string) map[string]Usage {
	t.Helper()
	found, skipped := lookBelow(t, c, root, nil)
	require.Empty(t, skipped)
	return found
}

// lookBelow returns what Recipes finds and what it skips, by path.
func lookBelow(t *testing.T, c *Client, root string, opts *RecipesOptions) (found map[string]Usage, skipped map[string]error) {
	t.Helper()
	found, skipped = map[string]Usage{}, map[string]error{}
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
	*world
	c     *Client // that looks
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
	inBubble(t, func(t *testing.T, w *world) {
		b := &busyWorld{world: w, began: time.Now()}
		b.use(t)
		b.c = w.stranger(nil)
		f(t, b)
	}, zktest.ContainerCheckInterval(1000*time.Hour))
}

func (w *busyWorld) use(t *testing.T) {
	one, two, three := w.stranger(nil), w.stranger(nil), w.stranger(nil)
	lockOn(t, NewMutex(one, "/app/mutex"))
	held(t, NewRWLock(one, "/app/rw").RLock)
	acquire(t, NewSemaphore(one, "/app/semaphore", 3), 2)
	campaigns(t, NewElection(one, "/app/election"), "one")
	q := NewQueue(one, "/app/queue", nil)
	putOn(t, q, "a", "b", "c")
	waitLater(t, NewBarrier(one, "/app/barrier", 3))
	enterLater(t, NewDoubleBarrier(one, "/app/double", 3))
	require.NoError(t, NewGate(one, "/app/gate").Shut(t.Context()))
	w.after(1)
	lockLater(t, NewMutex(two, "/app/mutex"))
	held(t, NewRWLock(two, "/app/rw").RLock)
	campaignLater(t, NewElection(two, "/app/election"), "two")
	takeOn(t, q)
	waitLater(t, NewBarrier(two, "/app/barrier", 3))
	enterLater(t, NewDoubleBarrier(two, "/app/double", 3))
	acquireLater(t, NewSemaphore(two, "/app/semaphore", 3), 2)
	w.after(2)
	lockLater(t, NewMutex(three, "/app/mutex"))
	later(t, NewRWLock(three, "/app/rw").Lock)
	lockOn(t, NewMutex(three, "/app/mutex/below"))
	acquireLater(t, NewSemaphore(three, "/app/semaphore", 3), 1)
	w.after(3)
}

func TestRecipesTellsWhatIsInUseAndSinceWhen(t *testing.T) {
	inBusyBubble(t, func(t *testing.T, w *busyWorld) {
		want := []Usage{
			{Recipe: RecipeMutex, Path: "/app/mutex", Holders: 1, Waiters: 2, HeldSince: w.at(0), WaitingSince: w.at(1)},
			{Recipe: RecipeMutex, Path: "/app/mutex/below", Holders: 1, HeldSince: w.at(2)},
			{Recipe: RecipeRWLock, Path: "/app/rw", Holders: 2, Waiters: 1, HeldSince: w.at(0), WaitingSince: w.at(2)},
			{Recipe: RecipeSemaphore, Path: "/app/semaphore", Size: 3, Holders: 1, Waiters: 2, HeldSince: w.at(0), WaitingSince: w.at(1)},
			{Recipe: RecipeElection, Path: "/app/election", Holders: 1, Waiters: 1, HeldSince: w.at(0), WaitingSince: w.at(1)},
			{Recipe: RecipeQueue, Path: "/app/queue", Holders: 1, Len: 3, HeldSince: w.at(1), ItemSince: w.at(0)},
			{Recipe: RecipeBarrier, Path: "/app/barrier", Size: 3, Waiters: 2, WaitingSince: w.at(0)},
			{Recipe: RecipeDoubleBarrier, Path: "/app/double", Waiters: 2, WaitingSince: w.at(0)},
			{Recipe: RecipeGate, Path: "/app/gate", HeldSince: w.at(0)},
		}
		for _, root := range []string{"/", "/app"} {
			found := recipesBelow(t, w.c, root)
			for _, u := range want {
				require.Equal(t, u, found[u.Path], root)
			}
			require.Len(t, found, len(want), root)
		}
		require.Equal(t, want[0], recipesBelow(t, w.c, "/app/mutex")["/app/mutex"], "the root itself counts")
	})
}

// Those that have been let go hold.
func TestRecipesTellsOfMembersThatWereLetGo(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		began := time.Now()
		first := enterLater(t, NewDoubleBarrier(w.stranger(nil), "/double", 2))
		time.Sleep(time.Hour)
		enterLater(t, NewDoubleBarrier(w.stranger(nil), "/double", 2)).Get()
		first.Get()
		time.Sleep(time.Hour)
		require.Equal(t, map[string]Usage{
			"/double": {Recipe: RecipeDoubleBarrier, Path: "/double", Holders: 2, HeldSince: began.Add(time.Hour)},
		}, recipesBelow(t, w.stranger(nil), "/"))
	})
}

// Its members are yet to leave it.
func TestRecipesTellsOfARoundThatWasOpened(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		began := time.Now()
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opLeaveRound, For: time.Minute, Times: -1})
		a := waitLater(t, NewBarrier(w.stranger(nil), "/b", 2))
		time.Sleep(time.Hour)
		indexes(t, a, waitLater(t, NewBarrier(w.stranger(nil), "/b", 2)))
		require.Equal(t, map[string]Usage{
			"/b": {Recipe: RecipeBarrier, Path: "/b", Size: 2, Holders: 2, HeldSince: began.Add(time.Hour)},
		}, recipesBelow(t, w.stranger(nil), "/"))
		time.Sleep(2 * time.Minute)
	})
}

func TestRecipesCostsAReadAndAListingOfEachZnodeAndLittleMore(t *testing.T) {
	inBusyBubble(t, func(t *testing.T, w *busyWorld) {
		for path, want := range map[string]map[string]int{
			// The three lines and their parent; holder and first waiter of each.
			"/app/mutex":     {"getData": 2, "getChildren2": 2, "exists": 3},
			"/app/rw":        {"getData": 1, "getChildren2": 1, "exists": 2},
			"/app/semaphore": {"getData": 1, "getChildren2": 3, "exists": 3},
			"/app/election":  {"getData": 1, "getChildren2": 1, "exists": 2},
			"/app/queue":     {"getData": 2, "getChildren2": 5, "exists": 2},
			"/app/barrier":   {"getData": 2, "getChildren2": 2, "exists": 1},
			"/app/double":    {"getData": 1, "getChildren2": 1, "exists": 3},
			"/app/gate":      {"getData": 1},
		} {
			require.Equal(t, want, withoutPings(w.requests(func() { recipesBelow(t, w.c, path) })), path)
		}
	})
}

// However many wait, each costs a name in a listing.
func TestRecipesReadsNoPlaceButTheFirst(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		lockOn(t, NewMutex(w.client(nil), w.path))
		for range 20 {
			w.lockLater(w.stranger(nil))
		}
		c := w.stranger(nil)
		requests := w.requests(func() { require.Equal(t, 20, recipesBelow(t, c, "/")[w.path].Waiters) })
		require.Equal(t, map[string]int{"getData": 2, "getChildren2": 2, "exists": 2}, withoutPings(requests))
	})
}

func TestRecipesSkipsWhatItMayNotRead(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		lockOn(t, NewMutex(w.client(nil), w.path))
		secret := zk.DigestACL(zk.PermAll, "someone", "else")
		for _, path := range []string{"/secret", "/below", "/below/secret"} {
			acl := zk.WorldACL(zk.PermAll)
			if strings.HasSuffix(path, "secret") {
				acl = secret
			}
			_, err := w.bare().Create(path, nil, 0, acl)
			require.NoError(t, err)
		}
		found, skipped := lookBelow(t, w.stranger(nil), "/", nil)
		require.Equal(t, []string{w.path}, slices.Collect(maps.Keys(found)))
		require.Equal(t, []string{"/below/secret", "/secret"}, slices.Sorted(maps.Keys(skipped)))
		for path, err := range skipped {
			require.ErrorIs(t, err, zk.ErrNoAuth)
			require.ErrorContains(t, err, path)
		}
	})
}

func TestRecipesTellsOfAnotherLayout(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		_, err := w.bare().Create("/new", []byte("zkrecipes/9 mutex"), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		_, skipped := lookBelow(t, w.stranger(nil), "/", nil)
		require.ErrorIs(t, skipped["/new"], ErrPathInUse)
		require.Len(t, skipped, 1)
	})
}

// Plain znodes, sizes with nothing below, and what recipes have below their paths.
func TestRecipesFindsNothingThatIsNone(t *testing.T) {
	inBusyBubble(t, func(t *testing.T, w *busyWorld) {
		for path, data := range map[string]string{"/plain": "data", "/plain/5": "5", "/plain/s": "", "/plain/_c_x": "", "/plain/latch-0000000001": ""} {
			_, err := w.bare().Create(path, []byte(data), 0, zk.WorldACL(zk.PermAll))
			if errors.Is(err, zk.ErrNoNode) {
				_, err = w.bare().Create("/plain", nil, 0, zk.WorldACL(zk.PermAll))
				require.NoError(t, err)
				_, err = w.bare().Create(path, []byte(data), 0, zk.WorldACL(zk.PermAll))
			}
			if !errors.Is(err, zk.ErrNodeExists) {
				require.NoError(t, err)
			}
		}
		for _, root := range []string{"/plain", "/app/semaphore/line", "/app/queue/s", "/app/queue/puts", "/app/barrier/round"} {
			require.Empty(t, recipesBelow(t, w.c, root), root)
		}
	})
}

func TestRecipesFindsLocksWithoutAMarker(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		conn := w.bare()
		for _, path := range []string{"/guest", "/kazoo", "/curator", "/readers"} {
			_, err := conn.Create(path, []byte("somebody's own"), 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
		}
		lockOn(t, NewMutex(w.stranger(nil), "/guest"))
		began := time.Now()
		for _, place := range []string{"/kazoo/0f__lock__0000000000", "/kazoo/0e__lock__0000000001", "/curator/_c_x-__READ__0000000000", "/readers/0e__rlock__0000000003"} {
			_, err := conn.Create(place, nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
		}
		require.Equal(t, map[string]Usage{
			"/guest":   {Recipe: RecipeMutex, Path: "/guest", Holders: 1, HeldSince: began},
			"/kazoo":   {Recipe: RecipeMutex, Path: "/kazoo", Holders: 1, Waiters: 1, HeldSince: began, WaitingSince: began},
			"/curator": {Recipe: RecipeRWLock, Path: "/curator", Holders: 1, HeldSince: began},
			"/readers": {Recipe: RecipeRWLock, Path: "/readers", Holders: 1, HeldSince: began},
		}, recipesBelow(t, w.stranger(nil), "/"))
	})
}

func TestRecipesTellsWhatItsBoundsLeaveOut(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		for i := range 5 {
			require.NoError(t, NewMutex(c, fmt.Sprintf("/a/b%d/c/d", i)).Do(t.Context(), nothing))
		}
		leftOut := func(opts RecipesOptions, path, says string, finds int) {
			t.Helper()
			found, skipped := lookBelow(t, c, "/a", &opts)
			require.Len(t, found, finds)
			require.ErrorIs(t, skipped[path], ErrLeftOut)
			require.ErrorContains(t, skipped[path], says)
			require.Len(t, skipped, 1)
		}
		leftOut(RecipesOptions{Depth: 2}, "/a/b0/c/d", "5 znodes", 0)
		leftOut(RecipesOptions{Depth: 1}, "/a/b0/c", "5 znodes", 0)
		leftOut(RecipesOptions{Znodes: 15}, "/a/b4/c/d", "1 znodes", 4)
		leftOut(RecipesOptions{Znodes: 4}, "/a", "5 children", 0)
		leftOut(RecipesOptions{Znodes: 5}, "/a/b4", "5 znodes", 0) // one beside four, and what is below these
		found, skipped := lookBelow(t, c, "/a", &RecipesOptions{Depth: 3, Znodes: 16})
		require.Len(t, found, 5)
		require.Empty(t, skipped)
	})
}

func TestRecipesTakesWhatVanishesForNothing(t *testing.T) {
	for _, op := range []string{"getData", "getChildren2", "exists"} {
		inBubble(t, func(t *testing.T, w *world) {
			l := lockOn(t, NewMutex(w.client(nil), w.path))
			waits := w.lockLater(w.stranger(nil))
			c := w.stranger(nil)
			w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: op, For: time.Second, Times: -1})
			a := harness.Go(t, func(ctx context.Context) ([]Usage, error) {
				var us []Usage
				for u, err := range c.Recipes(ctx, "/", nil) {
					if err != nil {
						return nil, err
					}
					us = append(us, u)
				}
				return us, nil
			})
			time.Sleep(2500 * time.Millisecond) // the root has been read and listed
			w.plan.Stop()
			require.NoError(t, l.Release())
			require.NoError(t, waits.Get().Release())
			if err := w.insider().Delete(w.path, -1); !errors.Is(err, zk.ErrNotEmpty) && !errors.Is(err, zk.ErrNoNode) {
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
					w.plan.Add(fault)
					require.Equal(t, want, recipesBelow(t, w.c, "/"), fault)
					w.plan.Stop()
				}
			}
		}
	})
}

func TestRecipesEndsWithTheErrorOfTheRootAndOfTheContext(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		_, skipped := lookBelow(t, c, "/none", nil)
		require.ErrorIs(t, skipped["/none"], zk.ErrNoNode)
		for _, root := range []string{"", "none", "/none/", "//"} {
			_, skipped = lookBelow(t, c, root, nil)
			require.ErrorIs(t, skipped[root], ErrInvalidPath, root)
		}
		_, skipped = lookBelow(t, c, "/", &RecipesOptions{Depth: -1})
		require.ErrorContains(t, skipped["/"], "Depth:-1")
		_, skipped = lookBelow(t, nil, "/", nil)
		require.ErrorContains(t, skipped["/"], "nil client")
		_, skipped = lookBelow(t, &Client{}, "/", nil)
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
		require.ErrorIs(t, skipped["/"], ErrClosed)
	})
}

func TestRecipesEndsWhenTheLoopDoes(t *testing.T) {
	inBusyBubble(t, func(t *testing.T, w *busyWorld) {
		n := 0
		for range w.c.Recipes(t.Context(), "/", nil) {
			n++
			break
		}
		require.Equal(t, 1, n)
	})
}

func TestRecipesAreBelowThePrefix(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		lockOn(t, NewMutex(w.client(nil), w.path))
		c := w.stranger(&Options{Prefix: "/tenant"})
		lockOn(t, NewMutex(c, "/locks/a"))
		require.Equal(t, []string{"/locks/a"}, slices.Collect(maps.Keys(recipesBelow(t, c, "/"))))
		require.Contains(t, recipesBelow(t, w.stranger(nil), "/"), "/tenant/locks/a")
	})
}
