package zkrecipes_test

import (
	"context"
	"errors"
	"fmt"
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

func TestDoHoldsWhileItsFunctionRuns(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		m, rival := w.Ours(w.Stranger(nil), w.Path), w.Theirs(w.Stranger(nil), w.Path)
		broken := errors.New("broken")
		require.Equal(t, broken, m.Do(t.Context(), func(ctx context.Context, l *zkrecipes.Lease) error {
			w.Stands(l)
			require.ErrorIs(t, errOf(rival.TryLock)(t.Context()), zkrecipes.ErrLocked)
			return broken
		}))
		require.PanicsWithValue(t, "oh", func() {
			_ = m.Do(t.Context(), func(context.Context, *zkrecipes.Lease) error { panic("oh") })
		})
		require.NoError(t, rival.Do(t.Context(), recipetest.Nothing))
		require.Empty(t, w.Line())
	})
}

func TestALockWorksUnderAPrefix(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(&zkrecipes.Options{Prefix: "/root/app"})
		m := zkrecipes.NewMutex(c, "/locks/orders") // its parents do not exist yet
		l := recipetest.LockOn(t, m)
		w.Path = "/root/app/locks/orders"
		require.Equal(t, w.Path+"/"+w.Line()[0].Name, l.Check().Path)

		rs, err := l.Commit(t.Context(), zkrecipes.OpCreate("/locks/data", []byte("1"), 0, nil), zkrecipes.OpCreate("/locks/seq-", nil, zk.FlagSequence, nil))
		require.NoError(t, err)
		require.Equal(t, "/locks/data", rs[0].Path)
		require.Equal(t, "/locks/seq-0000000003", rs[1].Path, "the parent's children were the first of a new container, the line and its sibling")
		data, _, err := l.Get(t.Context(), "/locks/data")
		require.NoError(t, err)
		require.Equal(t, "1", string(data))
		names, _, err := l.Children(t.Context(), "/")
		require.NoError(t, err)
		require.Equal(t, []string{"locks"}, names)

		require.ErrorIs(t, errOf(zkrecipes.NewMutex(w.Stranger(nil), w.Path).TryLock)(t.Context()), zkrecipes.ErrLocked)
		require.Len(t, listed(t, m.Contenders), 1)
		require.ErrorContains(t, errOf(zkrecipes.NewMutex(c, "bad").Lock)(t.Context()), `lock bad: path does not begin with "/"`)
	})
}

func TestTheLastReleaseFreesTheLock(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		c := w.Client(nil)
		m, rival := w.Ours(c, w.Path), w.Theirs(w.Client(nil), w.Path)
		l := w.Holds(c)
		ctx := l.Reentrant(t.Context())
		var second, third *zkrecipes.Lease
		require.Empty(t, w.Requests(func() {
			second = recipetest.Held(t, func(context.Context) (*zkrecipes.Lease, error) { return m.Lock(ctx) })
			third = recipetest.Held(t, func(context.Context) (*zkrecipes.Lease, error) { return m.TryLock(second.Reentrant(ctx)) })
		}))
		require.Equal(t, l.Token(), third.Token())
		work := second.Context(t.Context())
		require.NoError(t, l.Release())
		require.ErrorIs(t, l.Err(), zkrecipes.ErrReleased)
		require.NoError(t, second.Err())
		require.NoError(t, work.Err())
		require.ErrorIs(t, errOf(m.Lock)(ctx), zkrecipes.ErrReleased, "it is the context of the released lease")
		require.NoError(t, second.Release())
		require.ErrorIs(t, context.Cause(work), zkrecipes.ErrReleased)
		require.ErrorIs(t, errOf(rival.TryLock)(t.Context()), zkrecipes.ErrLocked)
		require.Equal(t, 1, recipetest.Sum(w.Requests(func() { require.NoError(t, third.Release()) })), "the last release")
		require.ErrorIs(t, errOf(m.Lock)(third.Reentrant(t.Context())), zkrecipes.ErrReleased)
		require.NoError(t, rival.Do(t.Context(), recipetest.Nothing))
	})
}

func TestAReadUnderALeaseNamesWhatItReadsAndTheLock(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Stranger(nil), "/line"))
		w.Write("/data", "")
		for _, name := range []string{"b", "a", "c"} {
			w.Write("/data/"+name, "")
		}
		names, _, err := l.Children(t.Context(), "/data")
		require.NoError(t, err)
		require.Equal(t, []string{"a", "b", "c"}, names)
		require.NoError(t, l.Release())
		require.EqualError(t, second(l.Get(t.Context(), "/data")), "zkrecipes: get /data: under /line: lease released")
		require.EqualError(t, second(l.Children(t.Context(), "/data")), "zkrecipes: list /data: under /line: lease released")
	})
}

func TestAHoldersContextReturnsErrDeadlockAtOnce(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		c := w.Client(nil)
		m, l := w.Ours(c, w.Path), w.Holds(c)
		ctx := l.Context(t.Context())
		require.Empty(t, w.Requests(func() {
			for range 20 {
				harness.GoErr(t, func(context.Context) error {
					if _, err := m.Lock(context.WithValue(ctx, t, "derived")); !errors.Is(err, zkrecipes.ErrDeadlock) {
						t.Error(err)
					}
					return nil
				})
			}
			require.ErrorContains(t, m.Do(ctx, recipetest.Nothing),
				"lock /line: the caller holds this lock already (Lease.Reentrant lets it re-enter)")
			if w.Kind.Exclusive() { // else see TestReadLockWithAReadersContextIsADeadlockError
				require.ErrorIs(t, errOf(m.TryLock)(ctx), zkrecipes.ErrLocked)
			}
		}))
		require.NoError(t, w.Ours(c, "/elsewhere").Do(ctx, recipetest.Nothing), "another lock is no deadlock")
		require.NoError(t, l.Release())
		require.NoError(t, m.Do(context.WithoutCancel(ctx), recipetest.Nothing), "the lock is not held any more")
	})
}

func TestOthersOfTheSameSessionDoNotEnterWithoutTheHoldersContext(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		c := w.Client(nil)
		l := w.Holds(c)
		a := w.RivalWaits(c)
		require.True(t, a.Waiting())
		require.ErrorIs(t, errOf(w.Theirs(c, w.Path).TryLock)(t.Context()), zkrecipes.ErrLocked)
		require.NoError(t, l.Release())
		require.NoError(t, a.Get().Release())
	})
}

func TestContendersAreListedInOrder(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		w.Client(nil)
		began := time.Now()
		var calls []*harness.Call[*zkrecipes.Lease]
		for i := range 3 {
			calls = append(calls, w.LockLater(w.Stranger(&zkrecipes.Options{Identity: fmt.Sprint("worker ", i)})))
			time.Sleep(time.Minute)
		}
		raw := w.Bare()
		foreign, err := raw.Create(w.Path+"/_c_0f0e0d0c0b0a09080706050403020100-lock-", []byte("by hand"), zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		w.Write(w.Path+"/stranger", "")
		cs := listed(t, zkrecipes.NewMutex(w.Stranger(nil), w.Path).Contenders)
		require.Len(t, cs, 4)
		for i, c := range cs[:3] {
			require.Equal(t, fmt.Sprint("worker ", i), c.Identity)
			require.Equal(t, i == 0, c.Held)
			require.NotZero(t, c.Session)
			require.True(t, began.Add(time.Duration(i)*time.Minute).Equal(c.Since))
		}
		require.Equal(t, "by hand", cs[3].Identity)
		require.Equal(t, foreign, w.Path+"/"+cs[3].Place)
		require.Equal(t, calls[0].Get().Token(), cs[0].Token)

		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "getData", Path: foreign, For: time.Second})
		listed := harness.Go(t, zkrecipes.NewMutex(w.Stranger(nil), w.Path).Contenders)
		synctest.Wait()
		require.NoError(t, raw.Delete(foreign, -1))
		require.Len(t, listed.Get(), 3, "it has left in the meantime")
	})
}

func TestTheFirstErrorIsKeptWhenCleaningUpFailsToo(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		_, err := w.Bare().Create(w.Path, nil, 0, zk.WorldACL(zk.PermAll&^zk.PermDelete)) // no place can be deleted
		require.NoError(t, err)
		c := w.Stranger(nil)
		l := w.Holds(c)
		for _, rival := range []*zkrecipes.Client{c, w.Stranger(nil)} {
			_, err = w.Theirs(rival, w.Path).Lock(harness.Within(t, time.Second))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NotErrorIs(t, err, zk.ErrNoAuth)
		}
		broken := errors.New("broken")
		err = w.Ours(c, w.Path).Do(l.Reentrant(t.Context()), func(context.Context, *zkrecipes.Lease) error {
			require.NoError(t, l.Release())
			return broken
		})
		require.ErrorIs(t, err, broken)
		require.ErrorIs(t, err, zk.ErrNoAuth, "the release's own error is joined")
	})
}

func TestConcurrentReleasesAreOne(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		l := w.Holds(w.Client(nil))
		require.Equal(t, 1, recipetest.Sum(w.Requests(func() {
			var calls []*harness.Call[struct{}]
			for range 20 {
				calls = append(calls, harness.GoErr(t, func(context.Context) error { return l.Release() }))
			}
			for _, call := range calls {
				call.Get()
			}
		})))
		require.NoError(t, l.Release())
	})
}
