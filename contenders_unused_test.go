package zkrecipes

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// lists are the calls that list what there is at a path, by the recipe.
var lists = map[string]func(context.Context, *Client, string) (int, error){
	"mutex": func(ctx context.Context, c *Client, path string) (int, error) {
		cs, err := NewMutex(c, path).Contenders(ctx)
		return len(cs), err
	},
	"rwlock": func(ctx context.Context, c *Client, path string) (int, error) {
		cs, err := NewRWLock(c, path).Contenders(ctx)
		return len(cs), err
	},
	"semaphore": func(ctx context.Context, c *Client, path string) (int, error) {
		hs, err := NewSemaphore(c, path, 2).Holders(ctx)
		return len(hs), err
	},
	"barrier": func(ctx context.Context, c *Client, path string) (int, error) {
		cs, err := NewBarrier(c, path, 2).Contenders(ctx)
		return len(cs), err
	},
	"doublebarrier": func(ctx context.Context, c *Client, path string) (int, error) {
		cs, err := NewDoubleBarrier(c, path, 1).Contenders(ctx)
		return len(cs), err
	},
	"queue": func(ctx context.Context, c *Client, path string) (int, error) {
		return NewQueue(c, path, nil).Len(ctx)
	},
	"queue's items": func(ctx context.Context, c *Client, path string) (n int, err error) {
		for _, err = range NewQueue(c, path, nil).Items(ctx) {
			if err != nil {
				return n, err
			}
			n++
		}
		return n, nil
	},
}

func TestUnusedPathsAndThoseOfOtherRecipesAreToldFromEmptyOnes(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		bare := w.bare()
		_, err := bare.Create("/plain", nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		require.NoError(t, NewMutex(c, "/plain/mutex").Do(t.Context(), nothing))
		require.NoError(t, NewRWLock(c, "/plain/rwlock").Do(t.Context(), nothing))
		releaseSlots(t, acquire(t, NewSemaphore(c, "/plain/semaphore", 2), 1))
		waits := waitLater(t, NewBarrier(c, "/plain/barrier", 2))
		waitLater(t, NewBarrier(w.stranger(nil), "/plain/barrier", 2)).Get()
		waits.Get()
		visit := visits(t, enter(t, NewDoubleBarrier(c, "/plain/doublebarrier", 1)))[0]
		require.NoError(t, visit.Leave(t.Context()))
		q := NewQueue(c, "/plain/queue", nil)
		putOn(t, q, "a")
		ackOn(t, takeOn(t, q))
		require.NoError(t, campaigns(t, NewElection(c, "/plain/election"), "v").Resign())
		time.Sleep(2 * time.Second)
		synctest.Wait()

		alike := map[string]string{ // that cannot be told apart, or are allowed
			"mutex": "rwlock", "rwlock": "mutex", "barrier": "semaphore", "semaphore": "barrier",
			"queue's items": "queue", "queue": "queue",
		}
		for recipe, list := range lists {
			_, err := list(t.Context(), c, "/none/here")
			require.ErrorIs(t, err, ErrUnused, recipe)
			require.ErrorIs(t, err, zk.ErrNoNode, recipe)
			_, err = list(t.Context(), c, "/plain")
			require.ErrorIs(t, err, ErrUnused, recipe)
			for _, of := range []string{"mutex", "rwlock", "semaphore", "barrier", "doublebarrier", "queue", "election"} {
				n, err := list(t.Context(), c, "/plain/"+of)
				if of == recipe || of == alike[recipe] {
					require.NoError(t, err, "%s at the path of a %s", recipe, of)
				} else {
					require.ErrorIs(t, err, ErrPathInUse, "%s at the path of a %s", recipe, of)
				}
				require.Zero(t, n)
			}
		}
		_, err = NewQueue(c, "/none", nil).Peek(t.Context())
		require.ErrorIs(t, err, ErrUnused)
		require.ErrorIs(t, err, ErrEmpty)
		_, err = q.Peek(t.Context())
		require.ErrorIs(t, err, ErrEmpty)
		n, err := q.DeadLetters().Len(t.Context())
		require.NoError(t, err, "there was no dead letter")
		require.Zero(t, n)
	})
}

// While somebody holds, too.
func TestTheLineOfAnotherRecipeIsNotListedAsALocks(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		campaigns(t, NewElection(c, "/election"), "v")
		held(t, NewRWLock(c, "/rwlock").RLock)
		waitLater(t, NewBarrier(c, "/barrier", 2))
		enter(t, NewDoubleBarrier(c, "/doublebarrier", 2))
		acquire(t, NewSemaphore(c, "/semaphore", 2), 1)
		synctest.Wait()
		for _, path := range []string{"/election", "/rwlock", "/barrier", "/doublebarrier", "/semaphore"} {
			_, err := NewMutex(c, path).Contenders(t.Context())
			require.ErrorIs(t, err, ErrPathInUse, path)
		}
		require.NoError(t, c.Close())
	})
}

// Another library's lock is listed, and so is one on a znode with somebody's data.
func TestLocksWithoutAMarkerAreListed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c, bare := w.stranger(nil), w.bare()
		for path, data := range map[string]string{"/curator": "", "/account": "balance"} {
			_, err := bare.Create(path, []byte(data), 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			_, err = bare.Create(path+"/_c_"+line.NoUUID+"-lock-", []byte("theirs"), zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			cs, err := NewMutex(c, path).Contenders(t.Context())
			require.NoError(t, err)
			require.Len(t, cs, 1)
			require.Equal(t, "theirs", cs[0].Identity)
			require.True(t, cs[0].Held)
		}
		bare.Close()
		synctest.Wait()
		cs, err := NewMutex(c, "/account").Contenders(t.Context())
		require.NoError(t, err, "whose data do not tell")
		require.Empty(t, cs)
	})
}

func TestContendersSaySinceWhenTheyHold(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c, other := w.stranger(nil), w.stranger(nil)
		list := func(c *Client) []Contender {
			t.Helper()
			cs, err := NewMutex(c, w.path).Contenders(t.Context())
			require.NoError(t, err)
			return cs
		}
		first := lockOn(t, NewMutex(other, w.path))
		began := time.Now()
		time.Sleep(time.Minute)
		next := lockLater(t, NewMutex(c, w.path, KeepFor(time.Hour)))
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
	inBubble(t, func(t *testing.T, w *world) {
		since := func(contenders func(context.Context) ([]Contender, error)) (all []time.Time) {
			t.Helper()
			cs, err := contenders(t.Context())
			require.NoError(t, err)
			for _, c := range cs {
				all = append(all, c.HeldSince)
			}
			return all
		}
		d := couple(w.stranger(nil))
		first := enter(t, couple(w.member(1)))
		synctest.Wait()
		require.Equal(t, []time.Time{{}}, since(d.Contenders))
		time.Sleep(time.Minute)
		visits(t, first, enter(t, couple(w.member(2))))
		opened := time.UnixMilli(time.Now().UnixMilli())
		require.Equal(t, []time.Time{opened, opened}, since(d.Contenders))

		b := NewBarrier(w.stranger(nil), "/b", 2)
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opLeaveRound, For: time.Minute, Times: -1})
		a := waitLater(t, NewBarrier(w.member(1), "/b", 2))
		synctest.Wait()
		require.Equal(t, []time.Time{{}}, since(b.Contenders))
		time.Sleep(time.Minute)
		indexes(t, a, waitLater(t, NewBarrier(w.member(2), "/b", 2)))
		opened = time.UnixMilli(time.Now().UnixMilli())
		require.Equal(t, []time.Time{opened, opened}, since(b.Contenders))
		time.Sleep(2 * time.Minute)
	})
}
