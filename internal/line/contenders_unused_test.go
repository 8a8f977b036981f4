package line_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/placename"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// lists are the calls that list what there is at a path, by the recipe.
var lists = map[string]func(context.Context, *zkrecipes.Client, string) (int, error){
	"mutex": func(ctx context.Context, c *zkrecipes.Client, path string) (int, error) {
		cs, err := zkrecipes.NewMutex(c, path).Contenders(ctx)
		return len(cs), err
	},
	"rwlock": func(ctx context.Context, c *zkrecipes.Client, path string) (int, error) {
		cs, err := zkrecipes.NewRWLock(c, path).Contenders(ctx)
		return len(cs), err
	},
	"semaphore": func(ctx context.Context, c *zkrecipes.Client, path string) (int, error) {
		hs, err := zkrecipes.NewSemaphore(c, path, 2).Holders(ctx)
		return len(hs), err
	},
	"barrier": func(ctx context.Context, c *zkrecipes.Client, path string) (int, error) {
		cs, err := zkrecipes.NewBarrier(c, path, 2).Contenders(ctx)
		return len(cs), err
	},
	"doublebarrier": func(ctx context.Context, c *zkrecipes.Client, path string) (int, error) {
		cs, err := zkrecipes.NewDoubleBarrier(c, path, 1).Contenders(ctx)
		return len(cs), err
	},
	"queue": func(ctx context.Context, c *zkrecipes.Client, path string) (int, error) {
		return zkrecipes.NewQueue(c, path, nil).Len(ctx)
	},
	"queue's items": func(ctx context.Context, c *zkrecipes.Client, path string) (n int, err error) {
		for _, err = range zkrecipes.NewQueue(c, path, nil).Items(ctx) {
			if err != nil {
				return n, err
			}
			n++
		}
		return n, nil
	},
}

func TestUnusedPathsAndThoseOfOtherRecipesAreToldFromEmptyOnes(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		bare := w.Bare()
		_, err := bare.Create("/plain", nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		require.NoError(t, zkrecipes.NewMutex(c, "/plain/mutex").Do(t.Context(), recipetest.Nothing))
		require.NoError(t, zkrecipes.NewRWLock(c, "/plain/rwlock").Do(t.Context(), recipetest.Nothing))
		recipetest.ReleaseSlots(t, recipetest.Acquire(t, zkrecipes.NewSemaphore(c, "/plain/semaphore", 2), 1))
		waits := recipetest.WaitLater(t, zkrecipes.NewBarrier(c, "/plain/barrier", 2))
		recipetest.WaitLater(t, zkrecipes.NewBarrier(w.Stranger(nil), "/plain/barrier", 2)).Get()
		waits.Get()
		visit := recipetest.Visits(t, recipetest.Enter(t, zkrecipes.NewDoubleBarrier(c, "/plain/doublebarrier", 1)))[0]
		require.NoError(t, visit.Leave(t.Context()))
		q := zkrecipes.NewQueue(c, "/plain/queue", nil)
		recipetest.PutOn(t, q, "a")
		recipetest.AckOn(t, recipetest.TakeOn(t, q))
		require.NoError(t, recipetest.Campaigns(t, zkrecipes.NewElection(c, "/plain/election"), "v").Resign())
		time.Sleep(2 * time.Second)
		synctest.Wait()

		alike := map[string]string{ // that cannot be told apart, or are allowed
			"mutex": "rwlock", "rwlock": "mutex", "barrier": "semaphore", "semaphore": "barrier",
			"queue's items": "queue", "queue": "queue",
		}
		for recipe, list := range lists {
			_, err := list(t.Context(), c, "/none/here")
			require.ErrorIs(t, err, zkrecipes.ErrUnused, recipe)
			require.ErrorIs(t, err, zk.ErrNoNode, recipe)
			_, err = list(t.Context(), c, "/plain")
			require.ErrorIs(t, err, zkrecipes.ErrUnused, recipe)
			for _, of := range []string{"mutex", "rwlock", "semaphore", "barrier", "doublebarrier", "queue", "election"} {
				n, err := list(t.Context(), c, "/plain/"+of)
				if of == recipe || of == alike[recipe] {
					require.NoError(t, err, "%s at the path of a %s", recipe, of)
				} else {
					require.ErrorIs(t, err, zkrecipes.ErrPathInUse, "%s at the path of a %s", recipe, of)
				}
				require.Zero(t, n)
			}
		}
		_, err = zkrecipes.NewQueue(c, "/none", nil).Peek(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrUnused)
		require.ErrorIs(t, err, zkrecipes.ErrEmpty)
		_, err = q.Peek(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrEmpty)
		n, err := q.DeadLetters().Len(t.Context())
		require.NoError(t, err, "there was no dead letter")
		require.Zero(t, n)
	})
}

// While somebody holds, too.
func TestTheLineOfAnotherRecipeIsNotListedAsALocks(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		recipetest.Campaigns(t, zkrecipes.NewElection(c, "/election"), "v")
		recipetest.Held(t, zkrecipes.NewRWLock(c, "/rwlock").RLock)
		recipetest.WaitLater(t, zkrecipes.NewBarrier(c, "/barrier", 2))
		recipetest.Enter(t, zkrecipes.NewDoubleBarrier(c, "/doublebarrier", 2))
		recipetest.Acquire(t, zkrecipes.NewSemaphore(c, "/semaphore", 2), 1)
		synctest.Wait()
		for _, path := range []string{"/election", "/rwlock", "/barrier", "/doublebarrier", "/semaphore"} {
			_, err := zkrecipes.NewMutex(c, path).Contenders(t.Context())
			require.ErrorIs(t, err, zkrecipes.ErrPathInUse, path)
		}
		require.NoError(t, c.Close())
	})
}

// Another library's lock is listed, and so is one on a znode with somebody's data.
func TestLocksWithoutAMarkerAreListed(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c, bare := w.Stranger(nil), w.Bare()
		for path, data := range map[string]string{"/curator": "", "/account": "balance"} {
			_, err := bare.Create(path, []byte(data), 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			_, err = bare.Create(path+"/_c_"+placename.NoUUID+"-lock-", []byte("theirs"), zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			cs, err := zkrecipes.NewMutex(c, path).Contenders(t.Context())
			require.NoError(t, err)
			require.Len(t, cs, 1)
			require.Equal(t, "theirs", cs[0].Identity)
			require.True(t, cs[0].Held)
		}
		bare.Close()
		synctest.Wait()
		cs, err := zkrecipes.NewMutex(c, "/account").Contenders(t.Context())
		require.NoError(t, err, "whose data do not tell")
		require.Empty(t, cs)
	})
}

func TestContendersSaySinceWhenTheyHold(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c, other := w.Stranger(nil), w.Stranger(nil)
		list := func(c *zkrecipes.Client) []zkrecipes.Contender {
			t.Helper()
			cs, err := zkrecipes.NewMutex(c, w.Path).Contenders(t.Context())
			require.NoError(t, err)
			return cs
		}
		first := recipetest.LockOn(t, zkrecipes.NewMutex(other, w.Path))
		began := time.Now()
		time.Sleep(time.Minute)
		next := recipetest.LockLater(t, zkrecipes.NewMutex(c, w.Path, zkrecipes.KeepFor(time.Hour)))
		synctest.Wait()
		cs := list(other)
		require.Equal(t, began, cs[0].HeldSince)
		require.Zero(t, cs[1].HeldSince)
		time.Sleep(time.Minute)
		require.NoError(t, first.Release())
		l := next.Get()
		since := time.Now()
		time.Sleep(time.Minute)
		cs = list(c)
		require.Equal(t, began.Add(time.Minute), cs[0].Since.In(began.Location()))
		require.Equal(t, since, cs[0].HeldSince)
		require.NoError(t, l.Release())
		require.Equal(t, since, list(c)[0].HeldSince, "the process keeps it")
		require.True(t, list(other)[0].Held)
		require.Zero(t, list(other)[0].HeldSince, "the servers do not know")
	})
}

func TestMembersOfBarriersSaySinceWhenTheirRoundIsOpen(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		since := func(contenders func(context.Context) ([]zkrecipes.Contender, error)) (all []time.Time) {
			t.Helper()
			cs, err := contenders(t.Context())
			require.NoError(t, err)
			for _, c := range cs {
				all = append(all, c.HeldSince)
			}
			return all
		}
		d := recipetest.Couple(w.Stranger(nil))
		first := recipetest.Enter(t, recipetest.Couple(w.Member(1)))
		synctest.Wait()
		require.Equal(t, []time.Time{{}}, since(d.Contenders))
		time.Sleep(time.Minute)
		recipetest.Visits(t, first, recipetest.Enter(t, recipetest.Couple(w.Member(2))))
		opened := time.UnixMilli(time.Now().UnixMilli())
		require.Equal(t, []time.Time{opened, opened}, since(d.Contenders))

		b := zkrecipes.NewBarrier(w.Stranger(nil), "/b", 2)
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpLeaveRound, For: time.Minute, Times: -1})
		a := recipetest.WaitLater(t, zkrecipes.NewBarrier(w.Member(1), "/b", 2))
		synctest.Wait()
		require.Equal(t, []time.Time{{}}, since(b.Contenders))
		time.Sleep(time.Minute)
		recipetest.Indexes(t, a, recipetest.WaitLater(t, zkrecipes.NewBarrier(w.Member(2), "/b", 2)))
		opened = time.UnixMilli(time.Now().UnixMilli())
		require.Equal(t, []time.Time{opened, opened}, since(b.Contenders))
		time.Sleep(2 * time.Minute)
	})
}
