package zkrecipes

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

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// What an RWLock does and a Mutex does not. What both do is in lock_sides_test.go.

func TestRealA20WritersAreAloneAndReadersOverlap(t *testing.T) {
	r := newRWRig(t, nil)
	var locks []*RWLock
	for range 4 { // two goroutines share a session and an RWLock
		locks = append(locks, r.another())
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
					err = w.Do(r.ctx, func(context.Context, *Lease) error {
						if writers.Add(1) != 1 || readers.Load() != 0 {
							t.Error("a writer is not alone")
						}
						n++
						writes.Add(1)
						writers.Add(-1)
						return nil
					})
				} else {
					err = w.RDo(r.ctx, func(ctx context.Context, l *Lease) error {
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
	r.queued(0)
}

func TestA20ReadersHoldTogether(t *testing.T) {
	r := newRWRig(t, nil)
	var leases []*Lease
	for i := range 5 {
		w := r.w
		if i%2 == 1 {
			w = r.another()
		}
		leases = append(leases, held(t, w.RLock))
	}
	for _, l := range leases {
		_, err := l.Commit(r.ctx)
		require.NoError(t, err, "all hold")
	}
	leases = append(leases, held(t, r.w.TryRLock))
	_, err := r.another().TryLock(r.ctx)
	require.ErrorIs(t, err, ErrLocked)
	require.NotErrorIs(t, err, ErrUpgrade, "the caller holds nothing itself")
	writer := r.joins(len(leases)+1, r.another().Lock)
	_, err = r.w.TryRLock(r.ctx)
	require.ErrorIs(t, err, ErrLocked, "a writer waits")
	for _, l := range leases {
		require.True(t, writer.Waiting())
		require.NoError(t, l.Release())
	}
	require.NoError(t, writer.Get().Release())
}

func TestA23AnUpgradeIsRefusedAtOnce(t *testing.T) {
	r := newRWRig(t, nil)
	l, other := held(t, r.w.RLock), held(t, r.another().RLock)
	r.p.Reset()
	for name, ctx := range map[string]context.Context{
		"the reader's context": context.WithValue(l.Context(r.ctx), t, "derived"),
		"re-entering":          l.Reentrant(r.ctx),
		"both":                 l.Context(l.Reentrant(r.ctx)),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := r.w.Lock(ctx)
			require.ErrorIs(t, err, ErrUpgrade)
			require.EqualError(t, err, "zkrecipes: lock "+r.path+
				": the caller holds this lock as a reader, and readers cannot become writers")
			require.ErrorIs(t, r.w.Do(ctx, nothing), ErrUpgrade)
			_, err = r.w.TryLock(ctx)
			require.ErrorIs(t, err, ErrLocked)
			require.ErrorIs(t, err, ErrUpgrade)
		})
	}
	require.Empty(t, r.p.Count(), "at once")
	require.NoError(t, l.Err())
	require.NoError(t, l.Release())
	_, err := r.w.Lock(l.Reentrant(r.ctx))
	require.ErrorIs(t, err, ErrReleased)
	ctx := context.WithoutCancel(l.Context(r.ctx)) // of a lease that has ended
	a := r.joins(2, func(context.Context) (*Lease, error) { return r.w.Lock(ctx) })
	require.True(t, a.Waiting())
	require.NoError(t, other.Release())
	require.NoError(t, a.Get().Release())
}

func TestA23ReadLockWithAReadersContextIsADeadlockError(t *testing.T) {
	// A writer may have joined in between. The second reader would wait for it, and
	// it for the first one.
	r := newRWRig(t, nil)
	l := held(t, r.w.RLock)
	_, err := r.w.RLock(l.Context(r.ctx))
	require.ErrorIs(t, err, ErrDeadlock)
	again := held(t, func(context.Context) (*Lease, error) { return r.w.TryRLock(l.Context(r.ctx)) })
	require.NotEqual(t, l.Token(), again.Token(), "a second place, as TryRLock cannot deadlock")
	writer := r.joins(3, r.another().Lock)
	_, err = r.w.TryRLock(l.Context(r.ctx))
	require.ErrorIs(t, err, ErrLocked)
	entered, err := r.w.RLock(l.Reentrant(r.ctx))
	require.NoError(t, err, "the caller holds already")
	require.Equal(t, l.Token(), entered.Token())
	for _, l := range []*Lease{l, again, entered} {
		require.True(t, writer.Waiting())
		require.NoError(t, l.Release())
	}
	require.NoError(t, writer.Get().Release())
}

func TestA23AWriterMayTakeAReadLock(t *testing.T) {
	r := newRWRig(t, nil)
	l := held(t, r.w.Lock)
	_, err := r.w.RLock(l.Context(r.ctx))
	require.ErrorIs(t, err, ErrDeadlock)
	_, err = r.w.TryRLock(l.Context(r.ctx))
	require.ErrorIs(t, err, ErrLocked)
	r.p.Reset()
	ctx := l.Reentrant(r.ctx)
	read, err := r.w.RLock(ctx)
	require.NoError(t, err)
	tried, err := r.w.TryRLock(ctx)
	require.NoError(t, err)
	require.Empty(t, r.p.Count())
	require.Equal(t, l.Token(), read.Token())
	require.NoError(t, l.Release())
	reader := r.joins(2, r.another().RLock)
	require.True(t, reader.Waiting(), "the place is a writer's as long as it exists")
	again, err := r.w.Lock(read.Reentrant(r.ctx))
	require.NoError(t, err, "so this is no upgrade")
	for _, l := range []*Lease{again, tried, read} {
		require.True(t, reader.Waiting())
		require.NoError(t, l.Release())
	}
	require.NoError(t, reader.Get().Release())
}

func TestA25AReaderIgnoresWritersBehindIt(t *testing.T) {
	r := newRWRig(t, nil)
	holder := held(t, r.another().Lock)
	r.p.Reset()
	reader := r.joins(2, r.w.RLock)
	r.asleep(1)
	behind := r.joins(3, r.another().Lock)
	gone := r.joins(4, r.another().Lock)
	r.p.Reset()
	gone.Cancel(nil)
	r.queued(3)
	require.NoError(t, holder.Release())
	l := reader.Get()
	require.Empty(t, r.p.Count(), "the reader has sent nothing")
	require.True(t, behind.Waiting())
	require.NoError(t, l.Release())
	require.NoError(t, behind.Get().Release())
}

func TestA26AReaderWaitsForTheNearestWriterAhead(t *testing.T) {
	r := newRWRig(t, nil)
	first := r.byHand("_c_" + curatorUUID(1) + "-__WRIT__")
	between := r.byHand("_c_" + curatorUUID(2) + "-__READ__")
	nearest := r.byHand("_c_" + curatorUUID(3) + "-__WRIT__")
	last := r.byHand("_c_" + curatorUUID(4) + "-__READ__")
	r.p.Reset()
	reader := r.joins(5, r.w.RLock)
	r.asleep(1)
	own := r.path + "/" + r.inLine()[4].Name
	require.ElementsMatch(t, []string{own, nearest}, watched(r.c))
	r.p.Reset()
	for _, place := range []string{first, between, last} {
		require.NoError(t, r.raw.Delete(place, -1))
	}
	require.NoError(t, r.raw.Delete(nearest, -1))
	l := reader.Get()
	require.Equal(t, map[string]int{"getChildren2": 1}, r.p.Count(), "the reader wakes once")
	require.NoError(t, l.Release())
}

func TestA26AReaderLooksForTheNextNearestWriter(t *testing.T) {
	r := newRWRig(t, nil)
	first := r.byHand("_c_" + curatorUUID(1) + "-__WRIT__")
	nearest := r.byHand("_c_" + curatorUUID(2) + "-__WRIT__")
	r.p.Reset()
	reader := r.joins(3, r.w.RLock)
	r.asleep(1)
	r.p.Reset()
	require.NoError(t, r.raw.Delete(nearest, -1)) // its waiter gives up
	harness.Eventually(t, "a watch on the other writer", func() bool { return r.p.CountOf("getData") == 1 && idle(r.c) })
	require.True(t, reader.Waiting())
	require.Contains(t, watched(r.c), first)
	require.NoError(t, r.raw.Delete(first, -1))
	require.NoError(t, reader.Get().Release())
}

// watched returns the paths that the client has watches on.
func watched(c *Client) []string {
	s, _ := c.client.Session()
	var paths []string
	for _, w := range s.Inspect().Watches {
		paths = append(paths, w.Path)
	}
	return paths
}

func TestA27WritersAreNotStarvedByAStreamOfReaders(t *testing.T) {
	r := newRWRig(t, nil)
	streaming, stop := context.WithCancel(r.ctx)
	var now atomic.Int64 // counts grants: each holder takes a number
	var mu sync.Mutex
	numbers := map[Token]int64{} // of readers
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	for range 6 {
		w := r.another()
		wg.Go(func() {
			for streaming.Err() == nil {
				err := w.RDo(r.ctx, func(ctx context.Context, l *Lease) error {
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
			cs, err := r.w.Contenders(r.ctx)
			require.NoError(t, err)
			for _, c := range cs {
				if c.Held {
					held++
				}
			}
			return held > 1
		})
		l := held(t, r.w.Lock)
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
	r := newRWRig(t, nil)
	reader := held(t, r.w.RLock)
	other := r.another()
	writer := r.joins(2, other.Lock)
	var behind []*harness.Call[*Lease]
	for i := range 10 {
		behind = append(behind, r.joins(3+i, other.RLock))
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
	r := newRWRig(t, nil)
	var clients []*Client
	for i := range 4 {
		clients = append(clients, dial(t, &Options{Identity: fmt.Sprint("worker ", i)}))
	}
	// Three readers, and behind them 8 writers among 17 readers.
	var attempts []*harness.Call[*Lease]
	reader := func(i int) bool { return i < 3 || i%3 != 0 || i == 27 }
	for i := range 28 {
		w := NewRWLock(clients[i%4], r.path)
		lock := w.Lock
		if reader(i) {
			lock = w.RLock
		}
		attempts = append(attempts, r.joins(i+1, lock))
	}
	list := func() (cs []Contender) {
		cs, err := r.w.Contenders(r.ctx)
		require.NoError(t, err)
		return cs
	}
	check := func(first, holding int) {
		cs := list()
		require.Len(t, cs, 28-first)
		var last Token
		for i, c := range cs {
			i += first
			require.Equal(t, fmt.Sprint("worker ", i%4), c.Identity)
			require.Equal(t, reader(i), c.Reader, i)
			require.Equal(t, i < first+holding, c.Held, i)
			require.Equal(t, reader(i), strings.Contains(c.Place, "__READ__"))
			s, _ := clients[i%4].client.Session()
			require.Equal(t, s.ID(), c.Session)
			require.Greater(t, c.Token, last)
			last = c.Token
			if c.Held {
				require.Equal(t, attempts[i].Get().Token(), c.Token)
			}
		}
	}
	cs := list()
	readers := slices.DeleteFunc(slices.Clone(cs), func(c Contender) bool { return !c.Reader })
	require.Len(t, readers, 20)
	check(0, 3)
	for i, a := range attempts[:3] {
		require.NoError(t, a.Get().Release())
		r.queued(27 - i)
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
	c := dialTo(t, []string{p.Addr()}, nil)
	w := NewRWLock(c, path)
	readers := []*Lease{held(t, w.RLock), held(t, w.RLock)}
	writer := held(t, NewRWLock(c, path+"/below").Lock)
	works := []context.Context{readers[0].Context(ctx), readers[1].Context(ctx), writer.Context(ctx)}
	// Cancel the waiter, as it would join again in the next session.
	waiter := later(t, w.Lock)
	harness.Eventually(t, "in line", func() bool { return len(line.PlaceNames(harness.Children(t, conn, path), line.LockKinds)) == 3 })
	waiter.Cancel(nil)
	_, err := waiter.Wait()
	require.ErrorIs(t, err, context.Canceled)

	p.Expire()
	for _, work := range works {
		require.ErrorIs(t, harness.Cause(t, work), ErrLost)
	}
	for _, path := range []string{path + "/below", path} {
		harness.Eventually(t, path+" gone", func() bool { ok, _, err := conn.Exists(path); return err == nil && !ok })
	}
}

// An RWLock and a Mutex on one path: a caller that finds the other's place in the
// line leaves and returns an error.
func TestB40RWLockAndMutexRefuseEachOthersLine(t *testing.T) {
	r := newRWRig(t, nil)
	m := NewMutex(dial(t, nil), r.path)
	const want = "another recipe uses this path"
	t.Run("a mutex holds", func(t *testing.T) {
		l := lockOn(t, m)
		for name, f := range map[string]func(context.Context) (*Lease, error){
			"lock": r.w.Lock, "read lock": r.w.RLock, "try lock": r.w.TryLock, "try read lock": r.w.TryRLock,
		} {
			_, err := f(r.ctx)
			require.ErrorContains(t, err, want, name)
			require.ErrorContains(t, err, "zkrecipes: "+name+" "+r.path+": ")
			require.NotErrorIs(t, err, ErrLocked)
		}
		r.queued(1)
		_, err := l.Commit(r.ctx)
		require.NoError(t, err)
		require.NoError(t, l.Release())
	})
	for name, lock := range map[string]func(context.Context) (*Lease, error){"a writer holds": r.w.Lock, "a reader holds": r.w.RLock} {
		t.Run(name, func(t *testing.T) {
			l := held(t, lock)
			for _, m := range []*Mutex{m, NewMutex(r.c, r.path)} {
				_, err := m.Lock(r.ctx)
				require.ErrorContains(t, err, want)
				_, err = m.TryLock(r.ctx)
				require.ErrorContains(t, err, want)
			}
			r.queued(1)
			require.NoError(t, l.Err())
			require.NoError(t, l.Release())
		})
	}
	t.Run("by a holder's context", func(t *testing.T) {
		l := held(t, r.w.Lock)
		ours := NewMutex(r.c, r.path)
		for _, ctx := range []context.Context{l.Context(r.ctx), l.Reentrant(r.ctx)} {
			_, err := ours.Lock(ctx)
			require.ErrorContains(t, err, want, "the lease is not a mutex's")
		}
		require.NoError(t, l.Release())
	})
}

func TestB40AZeroRWLockIsAnError(t *testing.T) {
	r := newRWRig(t, nil)
	l := held(t, r.w.Lock)
	var none context.Context
	var zero RWLock
	var nilLock *RWLock
	for w, want := range map[*RWLock]string{
		&zero:                 `"": not made by its constructor (NewMutex, NewRWLock, NewGate, ...)`,
		nilLock:               `"": not made by its constructor (NewMutex, NewRWLock, NewGate, ...)`,
		NewRWLock(nil, "/x"):  `/x: nil client`,
		NewRWLock(r.c, "bad"): `bad: path does not begin with "/"`,
	} {
		for op, f := range everyCall(w, l) {
			require.EqualError(t, f(r.ctx), "zkrecipes: "+op+" "+want)
		}
	}
	for _, f := range everyCall(r.w, l) {
		require.ErrorIs(t, f(none), line.ErrNilContext)
	}
	require.ErrorContains(t, r.w.Do(r.ctx, nil), "nil function")
	require.ErrorContains(t, r.w.RDo(r.ctx, nil), "nil function")
	require.NoError(t, r.c.Close())
	for _, f := range everyCall(r.w, l) {
		require.ErrorIs(t, f(r.ctx), ErrClosed)
	}
}

// everyCall returns the methods of w by the names of their operations.
func everyCall(w *RWLock, l *Lease) map[string]func(context.Context) error {
	lease := func(f func(context.Context) (*Lease, error)) func(context.Context) error {
		return func(ctx context.Context) error { _, err := f(ctx); return err }
	}
	return map[string]func(context.Context) error{
		"lock": lease(w.Lock), "read lock": lease(w.RLock), "try lock": lease(w.TryLock), "try read lock": lease(w.TryRLock),
		"list":      func(ctx context.Context) error { _, err := w.Contenders(ctx); return err },
		"downgrade": func(ctx context.Context) error { return w.Downgrade(ctx, l) },
	}
}

func TestB47AReaderNeverSignalsAndItsDataIsIgnored(t *testing.T) {
	r := newRWRig(t, nil)
	other := dial(t, nil)
	reader := held(t, NewRWLock(other, r.path).RLock)
	place := reader.Check().Path
	_, err := r.raw.Set(place, []byte("released"), -1)
	require.ErrorIs(t, err, zk.ErrNoAuth)
	r.p.Reset()
	writer := r.joins(2, r.w.Lock)
	r.asleep(1)
	for range 3 { // by the session that may write to it
		r.p.Reset()
		_, err = rawConn(other).Set(place, []byte("released"), -1)
		require.NoError(t, err)
		harness.Eventually(t, "the waiter watches again", func() bool { return r.p.CountOf("getData") == 1 && idle(r.c) })
		require.Equal(t, 1, r.p.CountOf("getChildren2"))
		require.True(t, writer.Waiting())
	}
	r.p.Reset()
	require.NoError(t, reader.Release())
	l := writer.Get()
	require.Equal(t, map[string]int{"getChildren2": 1}, r.p.Count(), "the waiter lists")
	require.NoError(t, l.Release())
	require.Equal(t, 1, r.p.CountOf(opRelease))
	require.NoError(t, r.w.RDo(r.ctx, nothing))
	require.Equal(t, 1, r.p.CountOf(opReadRelease))
}

// opReadRelease is the request with which a reader leaves.
const opReadRelease = "multi(delete)"

func TestSharedTellsAReadersLease(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		require.False(t, new(Lease).Shared())
		l := lockOn(t, NewMutex(c, "/m"))
		require.False(t, l.Shared())
		lock := NewRWLock(c, "/rw")
		writer := held(t, lock.Lock)
		require.False(t, writer.Shared())
		require.NoError(t, writer.Downgrade(t.Context()))
		require.True(t, writer.Shared())
		reader := held(t, lock.RLock)
		require.True(t, reader.Shared())
		require.NoError(t, reader.Release())
		require.True(t, reader.Shared(), "it was a reader's")
	})
}
