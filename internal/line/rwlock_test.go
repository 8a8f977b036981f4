package line_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/placename"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// What an RWLock does and a Mutex does not. What both do is in lock_sides_test.go.

func TestRealA20WritersAreAloneAndReadersOverlap(t *testing.T) {
	r := recipetest.NewRWRig(t, nil)
	var locks []*zkrecipes.RWLock
	for range 4 { // two goroutines share a session and an RWLock
		locks = append(locks, r.Another())
	}
	n := 0 // guarded by the lock; the race detector watches it
	var readers, most, writers, writes atomic.Int32
	var wg sync.WaitGroup
	for i := range 8 {
		w := locks[i%4]
		wg.Go(func() {
			for j := range 100 {
				var err error
				if (i+j)%5 == 0 {
					err = w.Do(r.Ctx, func(context.Context, *zkrecipes.Lease) error {
						if writers.Add(1) != 1 || readers.Load() != 0 {
							t.Error("a writer is not alone")
						}
						n++
						writes.Add(1)
						writers.Add(-1)
						return nil
					})
				} else {
					err = w.RDo(r.Ctx, func(ctx context.Context, l *zkrecipes.Lease) error {
						now := readers.Add(1)
						for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
						}
						if writers.Load() != 0 {
							t.Error("a reader beside a writer")
						}
						before := n
						_, err := l.Commit(ctx) // takes a while
						if n != before {
							t.Error("written under a reader")
						}
						readers.Add(-1)
						return err
					})
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, writes.Load(), n)
	require.Greater(t, most.Load(), int32(1), "readers overlap")
	t.Logf("%d writes, up to %d readers at once", n, most.Load())
	r.Queued(0)
}

func TestA20ReadersHoldTogether(t *testing.T) {
	r := recipetest.NewRWRig(t, nil)
	var leases []*zkrecipes.Lease
	for i := range 5 {
		w := r.W
		if i%2 == 1 {
			w = r.Another()
		}
		leases = append(leases, recipetest.Held(t, w.RLock))
	}
	for _, l := range leases {
		_, err := l.Commit(r.Ctx)
		require.NoError(t, err, "all hold")
	}
	leases = append(leases, recipetest.Held(t, r.W.TryRLock))
	_, err := r.Another().TryLock(r.Ctx)
	require.ErrorIs(t, err, zkrecipes.ErrLocked)
	require.NotErrorIs(t, err, zkrecipes.ErrUpgrade, "the caller holds nothing itself")
	writer := r.Joins(len(leases)+1, r.Another().Lock)
	_, err = r.W.TryRLock(r.Ctx)
	require.ErrorIs(t, err, zkrecipes.ErrLocked, "a writer waits")
	for _, l := range leases {
		require.True(t, writer.Waiting())
		require.NoError(t, l.Release())
	}
	require.NoError(t, writer.Get().Release())
}

func TestA23AnUpgradeIsRefusedAtOnce(t *testing.T) {
	r := recipetest.NewRWRig(t, nil)
	l, other := recipetest.Held(t, r.W.RLock), recipetest.Held(t, r.Another().RLock)
	r.P.Reset()
	for name, ctx := range map[string]context.Context{
		"the reader's context": context.WithValue(l.Context(r.Ctx), t, "derived"),
		"re-entering":          l.Reentrant(r.Ctx),
		"both":                 l.Context(l.Reentrant(r.Ctx)),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := r.W.Lock(ctx)
			require.ErrorIs(t, err, zkrecipes.ErrUpgrade)
			require.EqualError(t, err, "zkrecipes: lock "+r.Path+
				": the caller holds this lock as a reader, and readers cannot become writers")
			require.ErrorIs(t, r.W.Do(ctx, recipetest.Nothing), zkrecipes.ErrUpgrade)
			_, err = r.W.TryLock(ctx)
			require.ErrorIs(t, err, zkrecipes.ErrLocked)
			require.ErrorIs(t, err, zkrecipes.ErrUpgrade)
		})
	}
	require.Empty(t, r.P.Count(), "at once")
	require.NoError(t, l.Err())
	require.NoError(t, l.Release())
	_, err := r.W.Lock(l.Reentrant(r.Ctx))
	require.ErrorIs(t, err, zkrecipes.ErrReleased)
	ctx := context.WithoutCancel(l.Context(r.Ctx)) // of a lease that has ended
	a := r.Joins(2, func(context.Context) (*zkrecipes.Lease, error) { return r.W.Lock(ctx) })
	require.True(t, a.Waiting())
	require.NoError(t, other.Release())
	require.NoError(t, a.Get().Release())
}

func TestA23ReadLockWithAReadersContextIsADeadlockError(t *testing.T) {
	// A writer may have joined in between. The second reader would wait for it, and
	// it for the first one.
	r := recipetest.NewRWRig(t, nil)
	l := recipetest.Held(t, r.W.RLock)
	_, err := r.W.RLock(l.Context(r.Ctx))
	require.ErrorIs(t, err, zkrecipes.ErrDeadlock)
	again := recipetest.Held(t, func(context.Context) (*zkrecipes.Lease, error) { return r.W.TryRLock(l.Context(r.Ctx)) })
	require.NotEqual(t, l.Token(), again.Token(), "a second place, as TryRLock cannot deadlock")
	writer := r.Joins(3, r.Another().Lock)
	_, err = r.W.TryRLock(l.Context(r.Ctx))
	require.ErrorIs(t, err, zkrecipes.ErrLocked)
	entered, err := r.W.RLock(l.Reentrant(r.Ctx))
	require.NoError(t, err, "the caller holds already")
	require.Equal(t, l.Token(), entered.Token())
	for _, l := range []*zkrecipes.Lease{l, again, entered} {
		require.True(t, writer.Waiting())
		require.NoError(t, l.Release())
	}
	require.NoError(t, writer.Get().Release())
}

func TestA23AWriterMayTakeAReadLock(t *testing.T) {
	r := recipetest.NewRWRig(t, nil)
	l := recipetest.Held(t, r.W.Lock)
	_, err := r.W.RLock(l.Context(r.Ctx))
	require.ErrorIs(t, err, zkrecipes.ErrDeadlock)
	_, err = r.W.TryRLock(l.Context(r.Ctx))
	require.ErrorIs(t, err, zkrecipes.ErrLocked)
	r.P.Reset()
	ctx := l.Reentrant(r.Ctx)
	read, err := r.W.RLock(ctx)
	require.NoError(t, err)
	tried, err := r.W.TryRLock(ctx)
	require.NoError(t, err)
	require.Empty(t, r.P.Count())
	require.Equal(t, l.Token(), read.Token())
	require.NoError(t, l.Release())
	reader := r.Joins(2, r.Another().RLock)
	require.True(t, reader.Waiting(), "the place is a writer's as long as it exists")
	again, err := r.W.Lock(read.Reentrant(r.Ctx))
	require.NoError(t, err, "so this is no upgrade")
	for _, l := range []*zkrecipes.Lease{again, tried, read} {
		require.True(t, reader.Waiting())
		require.NoError(t, l.Release())
	}
	require.NoError(t, reader.Get().Release())
}

func TestA25AReaderIgnoresWritersBehindIt(t *testing.T) {
	r := recipetest.NewRWRig(t, nil)
	holder := recipetest.Held(t, r.Another().Lock)
	r.P.Reset()
	reader := r.Joins(2, r.W.RLock)
	r.Asleep(1)
	behind := r.Joins(3, r.Another().Lock)
	gone := r.Joins(4, r.Another().Lock)
	r.P.Reset()
	gone.Cancel(nil)
	r.Queued(3)
	require.NoError(t, holder.Release())
	l := reader.Get()
	require.Empty(t, r.P.Count(), "the reader has sent nothing")
	require.True(t, behind.Waiting())
	require.NoError(t, l.Release())
	require.NoError(t, behind.Get().Release())
}

func TestA26AReaderWaitsForTheNearestWriterAhead(t *testing.T) {
	r := recipetest.NewRWRig(t, nil)
	first := r.ByHand("_c_" + recipetest.CuratorUUID(1) + "-__WRIT__")
	between := r.ByHand("_c_" + recipetest.CuratorUUID(2) + "-__READ__")
	nearest := r.ByHand("_c_" + recipetest.CuratorUUID(3) + "-__WRIT__")
	last := r.ByHand("_c_" + recipetest.CuratorUUID(4) + "-__READ__")
	r.P.Reset()
	reader := r.Joins(5, r.W.RLock)
	r.Asleep(1)
	own := r.Path + "/" + r.InLine()[4].Name
	require.ElementsMatch(t, []string{own, nearest}, recipetest.Watched(r.C))
	r.P.Reset()
	for _, place := range []string{first, between, last} {
		require.NoError(t, r.Raw.Delete(place, -1))
	}
	require.NoError(t, r.Raw.Delete(nearest, -1))
	l := reader.Get()
	require.Equal(t, 1, recipetest.Sum(r.P.Count()), "the reader wakes once")
	require.NoError(t, l.Release())
}

func TestA26AReaderLooksForTheNextNearestWriter(t *testing.T) {
	r := recipetest.NewRWRig(t, nil)
	first := r.ByHand("_c_" + recipetest.CuratorUUID(1) + "-__WRIT__")
	nearest := r.ByHand("_c_" + recipetest.CuratorUUID(2) + "-__WRIT__")
	r.P.Reset()
	reader := r.Joins(3, r.W.RLock)
	r.Asleep(1)
	r.P.Reset()
	require.NoError(t, r.Raw.Delete(nearest, -1)) // its waiter gives up
	harness.Eventually(t, "a watch on the other writer", func() bool { return r.P.CountOf("getData") == 1 && recipetest.Idle(r.C) })
	require.True(t, reader.Waiting())
	require.Contains(t, recipetest.Watched(r.C), first)
	require.NoError(t, r.Raw.Delete(first, -1))
	require.NoError(t, reader.Get().Release())
}

func TestA27WritersAreNotStarvedByAStreamOfReaders(t *testing.T) {
	r := recipetest.NewRWRig(t, nil)
	streaming, stop := context.WithCancel(r.Ctx)
	var now atomic.Int64 // counts grants: each holder takes a number
	var mu sync.Mutex
	numbers := map[zkrecipes.Token]int64{} // of readers
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	for range 6 {
		w := r.Another()
		wg.Go(func() {
			for streaming.Err() == nil {
				err := w.RDo(r.Ctx, func(ctx context.Context, l *zkrecipes.Lease) error {
					at := now.Add(1)
					mu.Lock()
					numbers[l.Token()] = at
					mu.Unlock()
					_, err := l.Commit(ctx) // so that other readers join while it holds
					return err
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 20 {
		harness.Eventually(t, "a stream of readers", func() bool {
			held := 0
			cs, err := r.W.Contenders(r.Ctx)
			require.NoError(t, err)
			for _, c := range cs {
				if c.Held {
					held++
				}
			}
			return held > 1
		})
		l := recipetest.Held(t, r.W.Lock)
		at := now.Add(1)
		mu.Lock()
		for token, reader := range numbers {
			require.Equal(t, token > l.Token(), reader > at, "a reader that joined later held earlier")
		}
		mu.Unlock()
		require.NoError(t, l.Release())
	}
}

func TestA27ReadersQueueBehindAWaitingWriter(t *testing.T) {
	r := recipetest.NewRWRig(t, nil)
	reader := recipetest.Held(t, r.W.RLock)
	other := r.Another()
	writer := r.Joins(2, other.Lock)
	var behind []*harness.Call[*zkrecipes.Lease]
	for i := range 10 {
		behind = append(behind, r.Joins(3+i, other.RLock))
	}
	require.NoError(t, reader.Release())
	l := writer.Get()
	for _, a := range behind {
		require.True(t, a.Waiting())
	}
	require.NoError(t, l.Release())
	for _, a := range behind { // together
		a.Get()
	}
	for _, a := range behind {
		require.NoError(t, a.Get().Release())
	}
}

func TestA28ReadersAndWritersAreListed(t *testing.T) {
	r := recipetest.NewRWRig(t, nil)
	var clients []*zkrecipes.Client
	for i := range 4 {
		clients = append(clients, recipetest.Dial(t, &zkrecipes.Options{Identity: fmt.Sprint("worker ", i)}))
	}
	// Three readers, and behind them 8 writers among 17 readers.
	var attempts []*harness.Call[*zkrecipes.Lease]
	reader := func(i int) bool { return i < 3 || i%3 != 0 || i == 27 }
	for i := range 28 {
		w := zkrecipes.NewRWLock(clients[i%4], r.Path)
		lock := w.Lock
		if reader(i) {
			lock = w.RLock
		}
		attempts = append(attempts, r.Joins(i+1, lock))
	}
	list := func() (cs []zkrecipes.Contender) {
		cs, err := r.W.Contenders(r.Ctx)
		require.NoError(t, err)
		return cs
	}
	check := func(first, holding int) {
		cs := list()
		require.Len(t, cs, 28-first)
		var last zkrecipes.Token
		for i, c := range cs {
			i += first
			require.Equal(t, fmt.Sprint("worker ", i%4), c.Identity)
			require.Equal(t, reader(i), c.Reader, i)
			require.Equal(t, i < first+holding, c.Held, i)
			require.Equal(t, reader(i), strings.Contains(c.Place, "__READ__"))
			s, _ := recipetest.Core(clients[i%4]).Session()
			require.Equal(t, s.ID(), c.Session)
			require.Greater(t, c.Token, last)
			last = c.Token
			if c.Held {
				require.Equal(t, attempts[i].Get().Token(), c.Token)
			}
		}
	}
	cs := list()
	readers := slices.DeleteFunc(slices.Clone(cs), func(c zkrecipes.Contender) bool { return !c.Reader })
	require.Len(t, readers, 20)
	check(0, 3)
	for i, a := range attempts[:3] {
		require.NoError(t, a.Get().Release())
		r.Queued(27 - i)
	}
	check(3, 1) // a writer
	require.NoError(t, attempts[3].Get().Release())
	check(4, 2) // two readers, between two writers
	for _, a := range attempts[4:] {
		require.NoError(t, a.Get().Release())
	}
	require.Empty(t, list())
}

func TestA29ThePathIsGoneAfterTheSessionIsKilled(t *testing.T) {
	t.Parallel()
	const often = 500 * time.Millisecond
	servers := []string{harness.OwnServer(t, zkserver.Config{ReapEvery: often}, zktest.ContainerCheckInterval(often))}
	ctx, path, conn := harness.Within(t, 30*time.Second), harness.NewPath(t), harness.RawTo(t, servers)
	p := harness.NewProxy(t, servers[0])
	c := recipetest.DialTo(t, []string{p.Addr()}, nil)
	w := zkrecipes.NewRWLock(c, path)
	readers := []*zkrecipes.Lease{recipetest.Held(t, w.RLock), recipetest.Held(t, w.RLock)}
	writer := recipetest.Held(t, zkrecipes.NewRWLock(c, path+"/below").Lock)
	works := []context.Context{readers[0].Context(ctx), readers[1].Context(ctx), writer.Context(ctx)}
	// Cancel the waiter, as it would join again in the next session.
	waiter := recipetest.Later(t, w.Lock)
	harness.Eventually(t, "in line", func() bool { return len(placename.ParseAll(harness.Children(t, conn, path), placename.LockKinds)) == 3 })
	waiter.Cancel(nil)
	_, err := waiter.Wait()
	require.ErrorIs(t, err, context.Canceled)

	p.Expire()
	for _, work := range works {
		require.ErrorIs(t, harness.Cause(t, work), zkrecipes.ErrLost)
	}
	for _, path := range []string{path + "/below", path} {
		harness.Eventually(t, path+" gone", func() bool { ok, _, err := conn.Exists(path); return err == nil && !ok })
	}
}

// An RWLock and a Mutex on one path: a caller that finds the other's place in the
// line leaves and returns an error.
func TestB40RWLockAndMutexRefuseEachOthersLine(t *testing.T) {
	r := recipetest.NewRWRig(t, nil)
	m := zkrecipes.NewMutex(recipetest.Dial(t, nil), r.Path)
	const want = "another recipe uses this path"
	t.Run("a mutex holds", func(t *testing.T) {
		l := recipetest.LockOn(t, m)
		for name, f := range map[string]func(context.Context) (*zkrecipes.Lease, error){
			"lock": r.W.Lock, "read lock": r.W.RLock, "try lock": r.W.TryLock, "try read lock": r.W.TryRLock,
		} {
			_, err := f(r.Ctx)
			require.ErrorContains(t, err, want, name)
			require.ErrorContains(t, err, "zkrecipes: "+name+" "+r.Path+": ")
			require.NotErrorIs(t, err, zkrecipes.ErrLocked)
		}
		r.Queued(1)
		_, err := l.Commit(r.Ctx)
		require.NoError(t, err)
		require.NoError(t, l.Release())
	})
	for name, lock := range map[string]func(context.Context) (*zkrecipes.Lease, error){"a writer holds": r.W.Lock, "a reader holds": r.W.RLock} {
		t.Run(name, func(t *testing.T) {
			l := recipetest.Held(t, lock)
			for _, m := range []*zkrecipes.Mutex{m, zkrecipes.NewMutex(r.C, r.Path)} {
				_, err := m.Lock(r.Ctx)
				require.ErrorContains(t, err, want)
				_, err = m.TryLock(r.Ctx)
				require.ErrorContains(t, err, want)
			}
			r.Queued(1)
			require.NoError(t, l.Err())
			require.NoError(t, l.Release())
		})
	}
	t.Run("by a holder's context", func(t *testing.T) {
		l := recipetest.Held(t, r.W.Lock)
		ours := zkrecipes.NewMutex(r.C, r.Path)
		for _, ctx := range []context.Context{l.Context(r.Ctx), l.Reentrant(r.Ctx)} {
			_, err := ours.Lock(ctx)
			require.ErrorContains(t, err, want, "the lease is not a mutex's")
		}
		require.NoError(t, l.Release())
	})
}

func TestB40AZeroRWLockIsAnError(t *testing.T) {
	r := recipetest.NewRWRig(t, nil)
	l := recipetest.Held(t, r.W.Lock)
	var none context.Context
	var zero zkrecipes.RWLock
	var nilLock *zkrecipes.RWLock
	for w, want := range map[*zkrecipes.RWLock]string{
		&zero:                           `"": not made by its constructor (NewMutex, NewRWLock, NewGate, ...)`,
		nilLock:                         `"": not made by its constructor (NewMutex, NewRWLock, NewGate, ...)`,
		zkrecipes.NewRWLock(nil, "/x"):  `/x: nil client`,
		zkrecipes.NewRWLock(r.C, "bad"): `bad: path does not begin with "/"`,
	} {
		for op, f := range everyCall(w, l) {
			require.EqualError(t, f(r.Ctx), "zkrecipes: "+op+" "+want)
		}
	}
	for _, f := range everyCall(r.W, l) {
		require.ErrorIs(t, f(none), errs.ErrNilContext)
	}
	require.ErrorContains(t, r.W.Do(r.Ctx, nil), "nil function")
	require.ErrorContains(t, r.W.RDo(r.Ctx, nil), "nil function")
	require.NoError(t, r.C.Close())
	for _, f := range everyCall(r.W, l) {
		require.ErrorIs(t, f(r.Ctx), zkrecipes.ErrClosed)
	}
}

// everyCall returns the methods of w by the names of their operations.
func everyCall(w *zkrecipes.RWLock, l *zkrecipes.Lease) map[string]func(context.Context) error {
	lease := func(f func(context.Context) (*zkrecipes.Lease, error)) func(context.Context) error {
		return func(ctx context.Context) error { _, err := f(ctx); return err }
	}
	return map[string]func(context.Context) error{
		"lock": lease(w.Lock), "read lock": lease(w.RLock), "try lock": lease(w.TryLock), "try read lock": lease(w.TryRLock),
		"list":      func(ctx context.Context) error { _, err := w.Contenders(ctx); return err },
		"downgrade": func(ctx context.Context) error { return w.Downgrade(ctx, l) },
	}
}

func TestB47AReaderNeverSignalsAndItsDataIsIgnored(t *testing.T) {
	r := recipetest.NewRWRig(t, nil)
	other := recipetest.Dial(t, nil)
	reader := recipetest.Held(t, zkrecipes.NewRWLock(other, r.Path).RLock)
	place := reader.Check().Path
	_, err := r.Raw.Set(place, []byte("released"), -1)
	require.ErrorIs(t, err, zk.ErrNoAuth)
	r.P.Reset()
	writer := r.Joins(2, r.W.Lock)
	r.Asleep(1)
	for range 3 { // by the session that may write to it
		r.P.Reset()
		_, err = rawConn(other).Set(place, []byte("released"), -1)
		require.NoError(t, err)
		harness.Eventually(t, "the waiter watches again", func() bool { return r.P.CountOf("getData") == 1 && recipetest.Idle(r.C) })
		require.Equal(t, 1, r.P.CountOf("getChildren2"))
		require.True(t, writer.Waiting())
	}
	r.P.Reset()
	require.NoError(t, reader.Release())
	l := writer.Get()
	require.Equal(t, 1, r.P.CountOf("getChildren2"), "the waiter lists")
	require.NoError(t, l.Release())
	require.Equal(t, 1, r.P.CountOf(recipetest.OpRelease))
	require.NoError(t, r.W.RDo(r.Ctx, recipetest.Nothing))
	require.Equal(t, 1, r.P.CountOf(recipetest.OpReadRelease))
}

func TestSharedTellsAReadersLease(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		require.False(t, new(zkrecipes.Lease).Shared())
		l := recipetest.LockOn(t, zkrecipes.NewMutex(c, "/m"))
		require.False(t, l.Shared())
		lock := zkrecipes.NewRWLock(c, "/rw")
		writer := recipetest.Held(t, lock.Lock)
		require.False(t, writer.Shared())
		require.NoError(t, writer.Downgrade(t.Context()))
		require.True(t, writer.Shared())
		reader := recipetest.Held(t, lock.RLock)
		require.True(t, reader.Shared())
		require.NoError(t, reader.Release())
		require.True(t, reader.Shared(), "it was a reader's")
	})
}
