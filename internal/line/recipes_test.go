package line_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Recipes that take turns by other rules, or whose tokens do not compare, must not use one
// path. The data of the znodes name the recipe.

func TestRecipesRefuseThePathOfAnother(t *testing.T) {
	unnoticed := map[[2]string]bool{ // see ErrPathInUse
		{"mutex", "kept mutex"}: true, {"kept mutex", "mutex"}: true, // the same recipe
		{"mutex", "rwlock"}: true, {"rwlock", "mutex"}: true, // noticed if places of both stand in the line
		{"kept mutex", "rwlock"}: true, {"rwlock", "kept mutex"}: true,
		{"queue", "double barrier"}: true,                                 // their znodes have other names
		{"semaphore", "barrier"}:    true, {"barrier", "semaphore"}: true, // they share the number
		{"counter", "barrier"}: true, {"barrier", "counter"}: true,
		{"counter", "semaphore"}: true, {"semaphore", "counter"}: true,
	}
	uses := maps.Clone(recipetest.Recipes)
	delete(uses, "gate")  // any znode is a shut gate
	delete(uses, "group") // and the members of a group may stand below any znode
	for first, one := range uses {
		for second, other := range uses {
			if first == second || unnoticed[[2]string{first, second}] {
				continue
			}
			t.Run(second+" after "+first, func(t *testing.T) {
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					a := w.Stranger(nil)
					use := func() { // it is not disturbed
						giveBack, err := one(t.Context(), a, "/one")
						require.NoError(t, err)
						require.NoError(t, giveBack())
						synctest.Wait()
					}
					for _, c := range []*zkrecipes.Client{a, w.Stranger(nil)} {
						use()
						_, err := other(t.Context(), c, "/one")
						require.ErrorIs(t, err, zkrecipes.ErrPathInUse)
						use()
					}
				})
			})
		}
	}
}

// A line without data may be Curator's. One with other data is somebody's own.
func TestLocksUseAPathWithoutDataAndRefuseOneWithOtherData(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		conn := w.Bare()
		for i, data := range []string{"", "mine", "-1", "02", "zkrecipes"} {
			for _, recipe := range []string{"mutex", "rwlock", "election"} {
				path := fmt.Sprint("/", recipe, i)
				_, err := conn.Create(path, []byte(data), 0, zk.WorldACL(zk.PermAll))
				require.NoError(t, err)
				_, err = conn.Create(path+"/s", []byte("mine"), 0, zk.WorldACL(zk.PermAll)) // no queue's
				require.NoError(t, err)
				c := w.Stranger(nil)
				err = recipetest.UseOnce(t.Context(), recipe, c, path)
				if data == "" {
					require.NoError(t, err, recipe)
					continue
				}
				require.ErrorIs(t, err, zkrecipes.ErrPathInUse, "%s at %q", recipe, data)
				require.ErrorContains(t, err, fmt.Sprintf("%s holds other data: %q", path, data))
				require.Equal(t, data, w.Text(path))
				require.Equal(t, []string{"s"}, w.Srv.Children(path))
				_, err = conn.Set(path, nil, -1)
				require.NoError(t, err)
				require.NoError(t, recipetest.UseOnce(t.Context(), recipe, c, path), "the data have gone")
			}
		}
	})
}

// counted returns how long a list is.
func counted[E any](list []E, err error) (int, error) { return len(list), err }

// lists are the calls that list what there is at a path, by the recipe.
var lists = map[string]func(context.Context, *zkrecipes.Client, string) (int, error){
	"mutex": func(ctx context.Context, c *zkrecipes.Client, path string) (int, error) {
		return counted(zkrecipes.NewMutex(c, path).Contenders(ctx))
	},
	"rwlock": func(ctx context.Context, c *zkrecipes.Client, path string) (int, error) {
		return counted(zkrecipes.NewRWLock(c, path).Contenders(ctx))
	},
	"semaphore": func(ctx context.Context, c *zkrecipes.Client, path string) (int, error) {
		return counted(zkrecipes.NewSemaphore(c, path, 2).Contenders(ctx))
	},
	"barrier": func(ctx context.Context, c *zkrecipes.Client, path string) (int, error) {
		return counted(zkrecipes.NewBarrier(c, path, 1).Contenders(ctx))
	},
	"double barrier": func(ctx context.Context, c *zkrecipes.Client, path string) (int, error) {
		return counted(zkrecipes.NewDoubleBarrier(c, path, 1).Contenders(ctx))
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
		_, err := w.Bare().Create("/plain", nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		used := []string{"mutex", "rwlock", "semaphore", "barrier", "double barrier", "queue", "election"}
		for _, recipe := range used {
			require.NoError(t, recipetest.UseOnce(t.Context(), recipe, c, "/plain/"+recipe))
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		alike := map[string]string{ // that cannot be told apart, or are allowed
			"mutex": "rwlock", "rwlock": "mutex", "barrier": "semaphore", "semaphore": "barrier", "queue's items": "queue",
		}
		for recipe, list := range lists {
			_, err := list(t.Context(), c, "/none/here")
			require.ErrorIs(t, err, zkrecipes.ErrUnused, recipe)
			require.ErrorIs(t, err, zk.ErrNoNode, recipe)
			_, err = list(t.Context(), c, "/plain")
			require.ErrorIs(t, err, zkrecipes.ErrUnused, recipe)
			for _, of := range used {
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
		q := zkrecipes.NewQueue(c, "/plain/queue", nil)
		_, err = q.Peek(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrEmpty)
		n, err := q.DeadLetters().Len(t.Context())
		require.NoError(t, err, "there was no dead letter")
		require.Zero(t, n)
	})
}

// Another library's lock is listed, and so is one on a znode with somebody's data.
func TestLocksWithoutAMarkerAreListed(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c, bare := w.Stranger(nil), w.Bare()
		for path, data := range map[string]string{"/curator": "", "/account": "balance"} {
			_, err := bare.Create(path, []byte(data), 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			_, err = bare.Create(path+"/_c_"+layout.NoUUID+"-lock-", []byte("theirs"), zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
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

// heldSince lists when contenders have got what they hold.
func heldSince(t *testing.T, contenders func(context.Context) ([]zkrecipes.Contender, error)) (all []time.Time) {
	t.Helper()
	cs, err := contenders(t.Context())
	require.NoError(t, err)
	for _, c := range cs {
		all = append(all, c.HeldSince)
	}
	return all
}

func TestContendersSaySinceWhenTheyHold(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		ours, theirs := zkrecipes.NewMutex(w.Stranger(nil), w.Path, zkrecipes.KeepFor(time.Hour)), zkrecipes.NewMutex(w.Stranger(nil), w.Path)
		first := recipetest.LockOn(t, theirs)
		began := time.Now()
		time.Sleep(time.Minute)
		next := w.Waits(ours)
		require.Equal(t, []time.Time{began, {}}, heldSince(t, theirs.Contenders))
		time.Sleep(time.Minute)
		require.NoError(t, first.Release())
		l := next.Get()
		since := time.Now()
		time.Sleep(time.Minute)
		require.Equal(t, []time.Time{since}, heldSince(t, ours.Contenders))
		require.NoError(t, l.Release())
		require.Equal(t, []time.Time{since}, heldSince(t, ours.Contenders), "the process keeps it")
		require.Equal(t, []time.Time{{}}, heldSince(t, theirs.Contenders), "the servers do not know")
	})
}

func TestMembersOfBarriersSaySinceWhenTheirRoundIsOpen(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		d := recipetest.Couple(w.Stranger(nil))
		first := recipetest.Enter(t, recipetest.Couple(w.Member(1)))
		synctest.Wait()
		require.Equal(t, []time.Time{{}}, heldSince(t, d.Contenders))
		time.Sleep(time.Minute)
		recipetest.Visits(t, first, recipetest.Enter(t, recipetest.Couple(w.Member(2))))
		opened := time.UnixMilli(time.Now().UnixMilli())
		require.Equal(t, []time.Time{opened, opened}, heldSince(t, d.Contenders))

		b := zkrecipes.NewBarrier(w.Stranger(nil), "/b", 2)
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpLeaveRound, For: time.Minute, Times: -1})
		a := recipetest.WaitLater(t, zkrecipes.NewBarrier(w.Member(1), "/b", 2))
		synctest.Wait()
		require.Equal(t, []time.Time{{}}, heldSince(t, b.Contenders))
		time.Sleep(time.Minute)
		recipetest.Indexes(t, a, recipetest.WaitLater(t, zkrecipes.NewBarrier(w.Member(2), "/b", 2)))
		opened = time.UnixMilli(time.Now().UnixMilli())
		require.Equal(t, []time.Time{opened, opened}, heldSince(t, b.Contenders))
		time.Sleep(2 * time.Minute)
	})
}
