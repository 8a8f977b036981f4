package line_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// What an RWLock does and a Mutex does not. What both do is in lock_test.go.

// rwWorld is a world with an RWLock in two sessions.
type rwWorld struct {
	*recipetest.World
	c, d         *zkrecipes.Client
	ours, theirs *zkrecipes.RWLock
}

func inRWBubble(t *testing.T, f func(t *testing.T, w *rwWorld), opts ...zktest.Option) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		rw := &rwWorld{World: w, c: w.Stranger(nil), d: w.Stranger(nil)}
		rw.ours, rw.theirs = zkrecipes.NewRWLock(rw.c, w.Path), zkrecipes.NewRWLock(rw.d, w.Path)
		require.NoError(t, rw.ours.Do(t.Context(), recipetest.Nothing))
		require.NoError(t, rw.theirs.Do(t.Context(), recipetest.Nothing))
		f(t, rw)
	}, opts...)
}

// waits calls lock and requires that the call waits.
func (w *rwWorld) waits(lock func(context.Context) (*zkrecipes.Lease, error)) *harness.Call[*zkrecipes.Lease] {
	w.T.Helper()
	a := recipetest.Later(w.T, lock)
	synctest.Wait()
	require.True(w.T, a.Waiting())
	return a
}

// lastReleased releases all leases, and requires that the call is granted only then.
func (w *rwWorld) lastReleased(a *harness.Call[*zkrecipes.Lease], ls ...*zkrecipes.Lease) {
	w.T.Helper()
	for _, l := range ls {
		synctest.Wait()
		require.True(w.T, a.Waiting())
		require.NoError(w.T, l.Release())
	}
	require.NoError(w.T, a.Get().Release())
}

// A20
func TestReadersHoldAnRWLockTogether(t *testing.T) {
	inRWBubble(t, func(t *testing.T, w *rwWorld) {
		var leases []*zkrecipes.Lease
		for _, lock := range []func(context.Context) (*zkrecipes.Lease, error){w.ours.RLock, w.theirs.RLock, w.ours.RLock, w.ours.TryRLock} {
			leases = append(leases, recipetest.Held(t, lock))
		}
		for _, l := range leases {
			_, err := l.Commit(t.Context())
			require.NoError(t, err, "all hold")
		}
		_, err := w.theirs.TryLock(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		require.NotErrorIs(t, err, zkrecipes.ErrUpgrade, "the caller holds nothing itself")
		writer := w.waits(w.theirs.Lock)
		_, err = w.ours.TryRLock(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrLocked, "a writer waits")
		w.lastReleased(writer, leases...)
	})
}

// A23
func TestAnUpgradeIsRefusedAtOnce(t *testing.T) {
	inRWBubble(t, func(t *testing.T, w *rwWorld) {
		l, other := recipetest.Held(t, w.ours.RLock), recipetest.Held(t, w.theirs.RLock)
		require.Empty(t, w.Requests(func() {
			for _, ctx := range []context.Context{
				context.WithValue(l.Context(t.Context()), t, "derived"), l.Reentrant(t.Context()), l.Context(l.Reentrant(t.Context())),
			} {
				_, err := w.ours.Lock(ctx)
				require.ErrorIs(t, err, zkrecipes.ErrUpgrade)
				require.EqualError(t, err, "zkrecipes: lock /line: the caller holds this lock as a reader, and readers cannot become writers")
				require.ErrorIs(t, w.ours.Do(ctx, recipetest.Nothing), zkrecipes.ErrUpgrade)
				_, err = w.ours.TryLock(ctx)
				require.ErrorIs(t, err, zkrecipes.ErrLocked)
				require.ErrorIs(t, err, zkrecipes.ErrUpgrade)
			}
		}), "at once")
		require.NoError(t, l.Release())
		_, err := w.ours.Lock(l.Reentrant(t.Context()))
		require.ErrorIs(t, err, zkrecipes.ErrReleased)
		ctx := context.WithoutCancel(l.Context(t.Context())) // of a lease that has ended
		w.lastReleased(w.waits(func(context.Context) (*zkrecipes.Lease, error) { return w.ours.Lock(ctx) }), other)
	})
}

// A23: A writer may have joined in between. The second reader would wait for it, and it for the
// first one.
func TestReadLockWithAReadersContextIsADeadlockError(t *testing.T) {
	inRWBubble(t, func(t *testing.T, w *rwWorld) {
		l := recipetest.Held(t, w.ours.RLock)
		_, err := w.ours.RLock(l.Context(t.Context()))
		require.ErrorIs(t, err, zkrecipes.ErrDeadlock)
		again, err := w.ours.TryRLock(l.Context(t.Context()))
		require.NoError(t, err)
		require.NotEqual(t, l.Token(), again.Token(), "a second place, as TryRLock cannot deadlock")
		writer := w.waits(w.theirs.Lock)
		_, err = w.ours.TryRLock(l.Context(t.Context()))
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		entered, err := w.ours.RLock(l.Reentrant(t.Context()))
		require.NoError(t, err, "the caller holds already")
		require.Equal(t, l.Token(), entered.Token())
		w.lastReleased(writer, l, again, entered)
	})
}

// A23
func TestAWriterMayTakeAReadLock(t *testing.T) {
	inRWBubble(t, func(t *testing.T, w *rwWorld) {
		l := recipetest.Held(t, w.ours.Lock)
		_, err := w.ours.RLock(l.Context(t.Context()))
		require.ErrorIs(t, err, zkrecipes.ErrDeadlock)
		_, err = w.ours.TryRLock(l.Context(t.Context()))
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		var read, tried *zkrecipes.Lease
		ctx := l.Reentrant(t.Context())
		require.Empty(t, w.Requests(func() {
			read, err = w.ours.RLock(ctx)
			require.NoError(t, err)
			tried, err = w.ours.TryRLock(ctx)
			require.NoError(t, err)
		}))
		require.Equal(t, l.Token(), read.Token())
		require.NoError(t, l.Release())
		reader := w.waits(w.theirs.RLock) // the place is a writer's as long as it exists
		again, err := w.ours.Lock(read.Reentrant(t.Context()))
		require.NoError(t, err, "so this is no upgrade")
		w.lastReleased(reader, again, tried, read)
	})
}

// place creates a place as Curator would.
func (w *rwWorld) place(kind string) string {
	path, err := w.Bare().Create(w.Path+"/_c_"+recipetest.CuratorUUID(1)+"-"+kind, nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	require.NoError(w.T, err)
	return path
}

// A26
func TestAReaderWaitsForTheNearestWriterAhead(t *testing.T) {
	for name, nearestGoesFirst := range map[string]bool{"the first goes first": false, "the nearest gives up first": true} {
		t.Run(name, func(t *testing.T) {
			inRWBubble(t, func(t *testing.T, w *rwWorld) {
				first, between, nearest, last := w.place("__WRIT__"), w.place("__READ__"), w.place("__WRIT__"), w.place("__READ__")
				reader := w.waits(w.ours.RLock)
				own := w.Path + "/" + w.Line()[4].Name
				require.ElementsMatch(t, []string{own, nearest}, recipetest.Watched(w.c))
				raw := w.Bare()
				goes := func(places ...string) map[string]int {
					return w.Requests(func() {
						for _, place := range places {
							require.NoError(t, raw.Delete(place, -1))
						}
					})
				}
				if nearestGoesFirst {
					require.Equal(t, 1, goes(nearest)["getChildren2"], "it looks again")
					require.Contains(t, recipetest.Watched(w.c), first)
					require.True(t, reader.Waiting())
					goes(first)
				} else {
					require.Zero(t, goes(first, between, last)["getChildren2"])
					require.Equal(t, 1, goes(nearest)["getChildren2"], "the reader wakes once")
				}
				require.NoError(t, reader.Get().Release())
			})
		})
	}
}

// A16: a waiter between others leaves. Readers that a writer kept apart hold together then,
// and a writer behind a reader still waits.
func TestAWaiterBetweenOthersOfAnotherKindLeaves(t *testing.T) {
	inRWBubble(t, func(t *testing.T, w *rwWorld) {
		holder, middle := recipetest.Held(t, w.theirs.RLock), w.waits(w.theirs.Lock)
		last := w.waits(w.ours.RLock)
		middle.Cancel(nil)
		l := last.Get()
		w.Stands(holder)
		require.NoError(t, l.Release())
		require.NoError(t, holder.Release())

		holder, middle = recipetest.Held(t, w.theirs.Lock), w.waits(w.theirs.RLock)
		last = w.waits(w.ours.Lock)
		middle.Cancel(nil)
		w.lastReleased(last, holder)
	})
}

// A28
func TestReadersAndWritersAreListed(t *testing.T) {
	inRWBubble(t, func(t *testing.T, w *rwWorld) {
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
			cs, err := w.ours.Contenders(t.Context())
			require.NoError(t, err)
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

// A29
func TestAnRWLocksPathIsGoneAfterTheSessionIsKilled(t *testing.T) {
	inRWBubble(t, func(t *testing.T, w *rwWorld) {
		recipetest.Held(t, w.ours.RLock)
		recipetest.Held(t, w.ours.RLock)
		l := recipetest.Held(t, zkrecipes.NewRWLock(w.c, w.Path+"/below").Lock)
		work := l.Context(t.Context())
		require.NoError(t, w.d.Close())
		w.Srv.Expire(recipetest.SessionID(w.c))
		require.ErrorIs(t, harness.Cause(t, work), zkrecipes.ErrLost)
		require.NoError(t, w.c.Close())
		time.Sleep(10 * time.Minute)
		require.False(t, w.Has(w.Path))
	}, zktest.ContainerCheckInterval(time.Minute))
}

// B40: A caller that finds the other's place in the line leaves and returns an error.
func TestRWLockAndMutexRefuseEachOthersLine(t *testing.T) {
	const want = "another recipe uses this path"
	inRWBubble(t, func(t *testing.T, w *rwWorld) {
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.d, w.Path))
		for name, f := range map[string]func(context.Context) (*zkrecipes.Lease, error){
			"lock": w.ours.Lock, "read lock": w.ours.RLock, "try lock": w.ours.TryLock, "try read lock": w.ours.TryRLock,
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
			for _, c := range []*zkrecipes.Client{w.c, w.d} {
				_, err := zkrecipes.NewMutex(c, w.Path).Lock(ctx)
				require.ErrorContains(t, err, want)
				_, err = zkrecipes.NewMutex(c, w.Path).TryLock(ctx)
				require.ErrorContains(t, err, want)
				synctest.Wait() // or the next client's try meets these places and looks no further
			}
		}
		for _, lock := range []func(context.Context) (*zkrecipes.Lease, error){w.ours.Lock, w.ours.RLock} {
			l := recipetest.Held(t, lock)
			refused(t.Context())
			refused(l.Context(t.Context())) // which is not a mutex's
			refused(l.Reentrant(t.Context()))
			synctest.Wait()
			require.Len(t, w.Line(), 1)
			require.NoError(t, l.Release())
		}
		w.place("__READ__")
		refused(t.Context())
	})
}

// B40
func TestAZeroRWLockIsAnError(t *testing.T) {
	inRWBubble(t, func(t *testing.T, w *rwWorld) {
		l := recipetest.Held(t, w.ours.Lock)
		calls := func(w *zkrecipes.RWLock) map[string]func(context.Context) error {
			return map[string]func(context.Context) error{
				"lock": only(w.Lock), "read lock": only(w.RLock), "try lock": only(w.TryLock), "try read lock": only(w.TryRLock),
				"list": only(w.Contenders), "downgrade": func(ctx context.Context) error { return w.Downgrade(ctx, l) },
			}
		}
		for lock, want := range map[*zkrecipes.RWLock]string{
			{}:                              `"": not made by its constructor (NewMutex, NewRWLock, NewGate, ...)`,
			nil:                             `"": not made by its constructor (NewMutex, NewRWLock, NewGate, ...)`,
			zkrecipes.NewRWLock(nil, "/x"):  `/x: nil client`,
			zkrecipes.NewRWLock(w.c, "bad"): `bad: path does not begin with "/"`,
		} {
			for op, f := range calls(lock) {
				require.EqualError(t, f(t.Context()), "zkrecipes: "+op+" "+want)
			}
		}
		var none context.Context
		for _, f := range calls(w.ours) {
			require.ErrorIs(t, f(none), errs.ErrNilContext)
		}
		require.ErrorContains(t, w.ours.Do(t.Context(), nil), "nil function")
		require.ErrorContains(t, w.ours.RDo(t.Context(), nil), "nil function")
		require.NoError(t, w.c.Close())
		for _, f := range calls(w.ours) {
			require.ErrorIs(t, f(t.Context()), zkrecipes.ErrClosed)
		}
	})
}

// B47
func TestAReaderNeverSignalsAndItsDataIsIgnored(t *testing.T) {
	inRWBubble(t, func(t *testing.T, w *rwWorld) {
		reader := recipetest.Held(t, w.theirs.RLock)
		writer := w.waits(w.ours.Lock)
		conn := w.Bare()
		for range 3 {
			requests := w.Requests(func() {
				_, err := conn.Set(reader.Check().Path, []byte("released"), -1)
				require.NoError(t, err)
			})
			require.Equal(t, 1, recipetest.Sum(requests), "nobody wakes")
			require.True(t, writer.Waiting())
		}
		var l *zkrecipes.Lease
		requests := w.Requests(func() {
			require.NoError(t, reader.Release())
			l = writer.Get()
		})
		require.Equal(t, 1, requests[recipetest.OpReadRelease])
		require.Equal(t, 1, requests["getChildren2"], "the waiter lists")
		require.Equal(t, 1, w.Requests(func() { require.NoError(t, l.Release()) })[recipetest.OpRelease])
	})
}

func TestSharedTellsAReadersLease(t *testing.T) {
	inRWBubble(t, func(t *testing.T, w *rwWorld) {
		require.False(t, new(zkrecipes.Lease).Shared())
		require.False(t, recipetest.LockOn(t, zkrecipes.NewMutex(w.c, "/m")).Shared())
		writer := recipetest.Held(t, w.ours.Lock)
		require.False(t, writer.Shared())
		require.NoError(t, writer.Downgrade(t.Context()))
		require.True(t, writer.Shared())
		reader := recipetest.Held(t, w.ours.RLock)
		require.True(t, reader.Shared())
		require.NoError(t, reader.Release())
		require.True(t, reader.Shared(), "it was a reader's")
	})
}
