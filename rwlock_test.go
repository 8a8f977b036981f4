package zkrecipes_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

func TestReadersHoldAnRWLockTogether(t *testing.T) {
	recipetest.InRWBubble(t, func(t *testing.T, w *recipetest.RWWorld) {
		var leases []*zkrecipes.Lease
		for _, lock := range []func(context.Context) (*zkrecipes.Lease, error){w.OurLock.RLock, w.TheirLock.RLock, w.OurLock.RLock, w.OurLock.TryRLock} {
			leases = append(leases, recipetest.Held(t, lock))
		}
		for _, l := range leases {
			require.NoError(t, first(l.Commit(t.Context())), "all hold")
		}
		_, err := w.TheirLock.TryLock(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		require.NotErrorIs(t, err, zkrecipes.ErrUpgrade, "the caller holds nothing itself")
		writer := w.MustWait(w.TheirLock.Lock)
		require.ErrorIs(t, errOf(w.OurLock.TryRLock)(t.Context()), zkrecipes.ErrLocked, "a writer waits")
		w.LastReleased(writer, leases...)
	})
}

func TestAnUpgradeIsRefusedAtOnce(t *testing.T) {
	recipetest.InRWBubble(t, func(t *testing.T, w *recipetest.RWWorld) {
		l, other := recipetest.Held(t, w.OurLock.RLock), recipetest.Held(t, w.TheirLock.RLock)
		require.Empty(t, w.Requests(func() {
			for _, ctx := range []context.Context{
				context.WithValue(l.Context(t.Context()), t, "derived"), l.Reentrant(t.Context()), l.Context(l.Reentrant(t.Context())),
			} {
				_, err := w.OurLock.Lock(ctx)
				require.ErrorIs(t, err, zkrecipes.ErrUpgrade)
				require.EqualError(t, err, "zkrecipes: lock /line: the caller holds this lock as a reader, and readers cannot become writers")
				require.ErrorIs(t, w.OurLock.Do(ctx, recipetest.Nothing), zkrecipes.ErrUpgrade)
				_, err = w.OurLock.TryLock(ctx)
				require.ErrorIs(t, err, zkrecipes.ErrLocked)
				require.ErrorIs(t, err, zkrecipes.ErrUpgrade)
			}
		}), "at once")
		require.NoError(t, l.Release())
		require.ErrorIs(t, errOf(w.OurLock.Lock)(l.Reentrant(t.Context())), zkrecipes.ErrReleased)
		ctx := context.WithoutCancel(l.Context(t.Context())) // of a lease that has ended
		w.LastReleased(w.MustWait(func(context.Context) (*zkrecipes.Lease, error) { return w.OurLock.Lock(ctx) }), other)
	})
}

// A writer may have joined in between. The second reader would wait for it, and it for the
// first one.
func TestReadLockWithAReadersContextIsADeadlockError(t *testing.T) {
	recipetest.InRWBubble(t, func(t *testing.T, w *recipetest.RWWorld) {
		l := recipetest.Held(t, w.OurLock.RLock)
		require.ErrorIs(t, errOf(w.OurLock.RLock)(l.Context(t.Context())), zkrecipes.ErrDeadlock)
		again, err := w.OurLock.TryRLock(l.Context(t.Context()))
		require.NoError(t, err)
		require.NotEqual(t, l.Token(), again.Token(), "a second place, as TryRLock cannot deadlock")
		writer := w.MustWait(w.TheirLock.Lock)
		require.ErrorIs(t, errOf(w.OurLock.TryRLock)(l.Context(t.Context())), zkrecipes.ErrLocked)
		entered, err := w.OurLock.RLock(l.Reentrant(t.Context()))
		require.NoError(t, err, "the caller holds already")
		require.Equal(t, l.Token(), entered.Token())
		w.LastReleased(writer, l, again, entered)
	})
}

func TestAWriterMayTakeAReadLock(t *testing.T) {
	recipetest.InRWBubble(t, func(t *testing.T, w *recipetest.RWWorld) {
		l := recipetest.Held(t, w.OurLock.Lock)
		require.ErrorIs(t, errOf(w.OurLock.RLock)(l.Context(t.Context())), zkrecipes.ErrDeadlock)
		require.ErrorIs(t, errOf(w.OurLock.TryRLock)(l.Context(t.Context())), zkrecipes.ErrLocked)
		var read, tried *zkrecipes.Lease
		ctx := l.Reentrant(t.Context())
		require.Empty(t, w.Requests(func() {
			read = recipetest.Held(t, func(context.Context) (*zkrecipes.Lease, error) { return w.OurLock.RLock(ctx) })
			tried = recipetest.Held(t, func(context.Context) (*zkrecipes.Lease, error) { return w.OurLock.TryRLock(ctx) })
		}))
		require.Equal(t, l.Token(), read.Token())
		require.NoError(t, l.Release())
		reader := w.MustWait(w.TheirLock.RLock) // the place is a writer's as long as it exists
		again, err := w.OurLock.Lock(read.Reentrant(t.Context()))
		require.NoError(t, err, "so this is no upgrade")
		w.LastReleased(reader, again, tried, read)
	})
}

// A waiter between others leaves. Readers that a writer kept apart hold together then,
// and a writer behind a reader still waits.
func TestAWaiterBetweenOthersOfAnotherKindLeaves(t *testing.T) {
	recipetest.InRWBubble(t, func(t *testing.T, w *recipetest.RWWorld) {
		holder, middle := recipetest.Held(t, w.TheirLock.RLock), w.MustWait(w.TheirLock.Lock)
		last := w.MustWait(w.OurLock.RLock)
		middle.Cancel(nil)
		l := last.Get()
		w.Stands(holder)
		require.NoError(t, l.Release())
		require.NoError(t, holder.Release())

		holder, middle = recipetest.Held(t, w.TheirLock.Lock), w.MustWait(w.TheirLock.RLock)
		last = w.MustWait(w.OurLock.Lock)
		middle.Cancel(nil)
		w.LastReleased(last, holder)
	})
}

func TestReadersAndWritersAreListed(t *testing.T) {
	recipetest.InRWBubble(t, func(t *testing.T, w *recipetest.RWWorld) {
		var clients []*zkrecipes.Client
		for i := range 4 {
			clients = append(clients, w.Stranger(&zkrecipes.Options{Identity: fmt.Sprint("worker ", i)}))
		}
		// Three readers, and behind them 8 writers among 17 readers.
		var calls []*harness.Call[*zkrecipes.Lease]
		reader := func(i int) bool { return i < 3 || i%3 != 0 || i == 27 }
		for i := range 28 {
			lock := recipetest.Writer
			if reader(i) {
				lock = recipetest.Reader
			}
			calls = append(calls, recipetest.Later(t, lock(clients[i%4], w.Path).Lock))
			synctest.Wait()
		}
		check := func(first, holding int) {
			t.Helper()
			synctest.Wait()
			cs := listed(t, w.OurLock.Contenders)
			require.Len(t, cs, 28-first)
			var last zkrecipes.Token
			for i, c := range cs {
				i += first
				require.Equal(t, fmt.Sprint("worker ", i%4), c.Identity)
				require.Equal(t, reader(i), c.Reader, i)
				require.Equal(t, i < first+holding, c.Held, i)
				require.Equal(t, reader(i), strings.Contains(c.Place, "__READ__"))
				require.Equal(t, recipetest.SessionID(clients[i%4]), c.Session)
				require.Greater(t, c.Token, last)
				last = c.Token
				if c.Held {
					require.Equal(t, calls[i].Get().Token(), c.Token)
				}
			}
		}
		check(0, 3)
		for _, a := range calls[:3] {
			require.NoError(t, a.Get().Release())
		}
		check(3, 1) // a writer
		require.NoError(t, calls[3].Get().Release())
		check(4, 2) // two readers, between two writers
	})
}

// A caller that finds the other's place in the line leaves and returns an error.
func TestRWLockAndMutexRefuseEachOthersLine(t *testing.T) {
	const want = "another recipe uses this path"
	recipetest.InRWBubble(t, func(t *testing.T, w *recipetest.RWWorld) {
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.D, w.Path))
		for name, f := range map[string]func(context.Context) (*zkrecipes.Lease, error){
			"lock": w.OurLock.Lock, "read lock": w.OurLock.RLock, "try lock": w.OurLock.TryLock, "try read lock": w.OurLock.TryRLock,
		} {
			_, err := f(t.Context())
			require.ErrorContains(t, err, want)
			require.ErrorContains(t, err, "zkrecipes: "+name+" /line: ")
			require.NotErrorIs(t, err, zkrecipes.ErrLocked)
		}
		synctest.Wait()
		require.Len(t, w.Line(), 1)
		require.NoError(t, l.Release())

		refused := func(ctx context.Context) {
			t.Helper()
			for _, c := range []*zkrecipes.Client{w.C, w.D} {
				require.ErrorContains(t, errOf(zkrecipes.NewMutex(c, w.Path).Lock)(ctx), want)
				require.ErrorContains(t, errOf(zkrecipes.NewMutex(c, w.Path).TryLock)(ctx), want)
				synctest.Wait() // or the next client's try meets these places and looks no further
			}
		}
		for _, lock := range []func(context.Context) (*zkrecipes.Lease, error){w.OurLock.Lock, w.OurLock.RLock} {
			l := recipetest.Held(t, lock)
			refused(t.Context())
			refused(l.Context(t.Context())) // which is not a mutex's
			refused(l.Reentrant(t.Context()))
			synctest.Wait()
			require.Len(t, w.Line(), 1)
			require.NoError(t, l.Release())
		}
		w.CuratorPlace("__READ__")
		refused(t.Context())
	})
}

func TestSharedTellsAReadersLease(t *testing.T) {
	recipetest.InRWBubble(t, func(t *testing.T, w *recipetest.RWWorld) {
		require.False(t, new(zkrecipes.Lease).Shared())
		require.False(t, recipetest.LockOn(t, zkrecipes.NewMutex(w.C, "/m")).Shared())
		writer := recipetest.Held(t, w.OurLock.Lock)
		require.False(t, writer.Shared())
		require.NoError(t, writer.Downgrade(t.Context()))
		require.True(t, writer.Shared())
		reader := recipetest.Held(t, w.OurLock.RLock)
		require.True(t, reader.Shared())
		require.NoError(t, reader.Release())
		require.True(t, reader.Shared(), "it was a reader's")
	})
}
