package line_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
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

// What users of lock libraries rely on, for each side of the locks.

// A01
func TestDoHoldsWhileItsFunctionRuns(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		m, rival := w.Ours(w.Stranger(nil), w.Path), w.Theirs(w.Stranger(nil), w.Path)
		broken := errors.New("broken")
		require.Equal(t, broken, m.Do(t.Context(), func(ctx context.Context, l *zkrecipes.Lease) error {
			w.Stands(l)
			_, err := rival.TryLock(t.Context())
			require.ErrorIs(t, err, zkrecipes.ErrLocked)
			return broken
		}))
		require.PanicsWithValue(t, "oh", func() {
			_ = m.Do(t.Context(), func(context.Context, *zkrecipes.Lease) error { panic("oh") })
		})
		require.NoError(t, rival.Do(t.Context(), recipetest.Nothing))
		require.Empty(t, w.Line())
	})
}

// A05
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

		_, err = zkrecipes.NewMutex(w.Stranger(nil), w.Path).TryLock(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		cs, err := m.Contenders(t.Context())
		require.NoError(t, err)
		require.Len(t, cs, 1)
		_, err = zkrecipes.NewMutex(c, "bad").Lock(t.Context())
		require.ErrorContains(t, err, `lock bad: path does not begin with "/"`)
	})
}

// A06
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
		_, err := m.Lock(ctx)
		require.ErrorIs(t, err, zkrecipes.ErrReleased, "it is the context of the released lease")
		require.NoError(t, second.Release())
		require.ErrorIs(t, context.Cause(work), zkrecipes.ErrReleased)
		_, err = rival.TryLock(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		require.Equal(t, 1, recipetest.Sum(w.Requests(func() { require.NoError(t, third.Release()) })), "the last release")
		_, err = m.Lock(third.Reentrant(t.Context()))
		require.ErrorIs(t, err, zkrecipes.ErrReleased)
		require.NoError(t, rival.Do(t.Context(), recipetest.Nothing))
	})
}

// A06
func TestReentryRacingTheLastReleaseHoldsOrFails(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		c := w.Client(nil)
		for range 100 {
			l := w.Holds(c)
			ctx := l.Reentrant(t.Context())
			released := harness.GoErr(t, func(context.Context) error { return l.Release() })
			if again, err := w.Ours(c, w.Path).Lock(ctx); err == nil {
				_, err := again.Commit(t.Context()) // the place must still exist
				require.NoError(t, err)
				require.NoError(t, again.Release())
			} else {
				require.ErrorIs(t, err, zkrecipes.ErrReleased)
			}
			released.Get()
		}
		require.Empty(t, w.Line())
	})
}

// A07
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
				_, err := m.TryLock(ctx)
				require.ErrorIs(t, err, zkrecipes.ErrLocked)
			}
		}))
		require.NoError(t, w.Ours(c, "/elsewhere").Do(ctx, recipetest.Nothing), "another lock is no deadlock")
		require.NoError(t, l.Release())
		require.NoError(t, m.Do(context.WithoutCancel(ctx), recipetest.Nothing), "the lock is not held any more")
	})
}

// A08
func TestOthersOfTheSameSessionDoNotEnterWithoutTheHoldersContext(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		c := w.Client(nil)
		l := w.Holds(c)
		a := w.RivalWaits(c)
		require.True(t, a.Waiting())
		_, err := w.Theirs(c, w.Path).TryLock(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		require.NoError(t, l.Release())
		require.NoError(t, a.Get().Release())
	})
}

// kindsOfLock are the kinds of lock, each with a letter that stands for it.
var kindsOfLock = map[rune]func(*zkrecipes.Client, string) recipetest.Locker{'m': recipetest.Mutex, 'w': recipetest.Writer, 'r': recipetest.Reader}

// A10: A line is served in order, adjacent readers together. Every second waiter has a
// session of its own.
//
// A27: readers queue behind a writer that waits
func TestRealLinesAreServedInOrder(t *testing.T) {
	for name, line := range map[string]string{"mutexes": "mmmmmm", "writers and readers": "wwrrwwrwrrr"} {
		t.Run(name, func(t *testing.T) {
			r := &recipetest.Rig{T: t, Path: harness.NewPath(t), Raw: harness.Raw(t)}
			kinds, shared := []rune(line), recipetest.Dial(t, nil)
			waiters := make([]*harness.Call[*zkrecipes.Lease], len(kinds))
			for i, kind := range kinds {
				c := shared
				if i%2 == 1 {
					c = recipetest.Dial(t, nil)
				}
				waiters[i] = recipetest.Later(t, kindsOfLock[kind](c, r.Path).Lock)
				r.Queued(i + 1)
			}
			for len(waiters) > 0 {
				together := 1
				for kinds[0] == 'r' && together < len(kinds) && kinds[together] == 'r' {
					together++
				}
				var held []*zkrecipes.Lease
				for _, a := range waiters[:together] {
					held = append(held, a.Get())
				}
				kinds, waiters = kinds[together:], waiters[together:]
				for _, l := range held {
					for _, a := range waiters {
						require.True(t, a.Waiting())
					}
					require.NoError(t, l.Release())
				}
			}
			r.Queued(0)
		})
	}
}

// A11: TryLock has seen a free lock and joins, but another client's place is ahead. It
// leaves again.
func TestLosersOfTryLockThatHaveJoinedLeaveNothing(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		c, other := w.Client(nil), w.Client(nil)
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpJoin, For: time.Second})
		tried := recipetest.Later(t, w.Ours(c, w.Path).TryLock)
		synctest.Wait()
		w.Excludes(other)
		_, err := tried.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		synctest.Wait()
		require.Len(t, w.Line(), 1)
	})
}

// A12
func TestTimedOutLocksLeaveNothing(t *testing.T) {
	const tries, workers = 2_500, 16 // on each of four sides
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		c, other := w.Client(&zkrecipes.Options{MaxBuffer: 16 << 20}), w.Client(nil)
		l := w.Excludes(other)
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, For: time.Millisecond, Times: -1})
		before := w.Srv.Counts()
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for range tries / workers {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.N(8000))*time.Microsecond)
					if _, err := w.Ours(c, w.Path).Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
					cancel()
				}
			})
		}
		wg.Wait()
		require.Greater(t, w.Srv.Counts().Sub(before).Requests[recipetest.OpJoin], tries/10, "many have joined")
		w.Plan.Stop()
		time.Sleep(time.Second)
		require.Len(t, w.Line(), 1)
		require.LessOrEqual(t, recipetest.WatchesOf(c), 1, "on the holder's place")
		require.NoError(t, l.Release())
		synctest.Wait()
		require.Zero(t, recipetest.WatchesOf(c))
		require.NoError(t, w.Ours(c, w.Path).Do(t.Context(), recipetest.Nothing))
		require.Zero(t, c.Status().ZnodeBytes)
	})
}

// A13: twenty goroutines on one Mutex.
// A20: eight goroutines on an RWLock, in four sessions, a hundred times each. Writers are
// alone, and readers overlap.
func TestRealGoroutinesExcludeEachOther(t *testing.T) {
	for name, tt := range map[string]struct {
		sessions, goroutines, times int
		write, read                 func(*zkrecipes.Client, string) recipetest.Locker
		reads                       func(i int) bool
	}{
		"mutex":               {1, 20, 10, recipetest.Mutex, nil, func(int) bool { return false }},
		"writers and readers": {4, 8, 100, recipetest.Writer, recipetest.Reader, func(i int) bool { return i%5 != 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, path := harness.Within(t, time.Minute), harness.NewPath(t)
			var clients []*zkrecipes.Client
			for range tt.sessions {
				clients = append(clients, recipetest.Dial(t, nil))
			}
			n, last := 0, zkrecipes.Token(0) // which the lock guards, and the race detector checks it
			var readers, most, writers, writes atomic.Int32
			write := func(_ context.Context, l *zkrecipes.Lease) error {
				if writers.Add(1) != 1 || readers.Load() != 0 || l.Token() <= last {
					t.Error("a writer is not alone, or its token went down")
				}
				n, last = n+1, l.Token()
				writes.Add(1)
				writers.Add(-1)
				return nil
			}
			read := func(ctx context.Context, l *zkrecipes.Lease) error {
				now, before := readers.Add(1), n
				for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
				}
				_, err := l.Commit(ctx) // takes a while
				if writers.Load() != 0 || n != before {
					t.Error("a reader beside a writer")
				}
				readers.Add(-1)
				return err
			}
			var wg sync.WaitGroup
			for i := range tt.goroutines {
				c := clients[i%tt.sessions]
				wg.Go(func() {
					for j := range tt.times {
						lock, use := tt.write, write
						if tt.reads(i + j) {
							lock, use = tt.read, read
						}
						if err := lock(c, path).Do(ctx, use); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			require.EqualValues(t, writes.Load(), n)
			require.True(t, tt.read == nil || most.Load() > 1, "readers overlap")
			require.Empty(t, harness.Children(t, harness.Raw(t), path))
		})
	}
}

// A15
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
		_, err = raw.Create(w.Path+"/stranger", nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		cs, err := zkrecipes.NewMutex(w.Stranger(nil), w.Path).Contenders(t.Context())
		require.NoError(t, err)
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

// A17
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

// A19: At once, on paths that share missing parents.
func TestMissingParentsAreCreated(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, For: time.Millisecond, Times: -1})
		var calls []*harness.Call[struct{}]
		for i := range 20 {
			c := w.Stranger(&zkrecipes.Options{Prefix: "/x/y"})
			calls = append(calls, harness.GoErr(t, func(ctx context.Context) error {
				return zkrecipes.NewMutex(c, fmt.Sprint("/a/b/c/", i%3)).Do(ctx, recipetest.Nothing)
			}))
		}
		for _, call := range calls {
			call.Get()
		}
	})
}

// B13
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

// B32
func TestACallWhoseContextEndsBesideTheGrantHoldsOrLeaves(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		c, other := w.Client(nil), w.Client(nil)
		for range 40 {
			l := w.Excludes(other)
			a := w.Waits(c)
			go a.Cancel(nil)
			require.NoError(t, l.Release())
			if l, err := a.Wait(); err == nil {
				_, err := l.Commit(t.Context())
				require.NoError(t, err)
				require.NoError(t, l.Release())
			} else {
				require.ErrorIs(t, err, context.Canceled)
			}
			synctest.Wait()
			require.Empty(t, w.Line())
		}
	})
}

// B32
func TestCallsWhoseContextsEndWhileDisconnectedAreNeverSent(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		m := zkrecipes.NewMutex(c, w.Path)
		w.Away(c)
		before := runtime.NumGoroutine()
		for range 500 {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Microsecond)
			for _, call := range []func(context.Context) error{only(m.Lock), only(m.TryLock), only(m.Contenders)} {
				require.ErrorIs(t, call(ctx), context.DeadlineExceeded)
			}
			cancel()
		}
		synctest.Wait()
		require.Less(t, runtime.NumGoroutine(), before+20)
		w.Back()
		requests := w.Requests(func() { require.NoError(t, m.Do(t.Context(), recipetest.Nothing)) })
		require.Equal(t, 2, recipetest.Writes(requests), "a join, and a release: %v", requests)
		require.Zero(t, requests["getChildren2"])
	})
}

func TestAContextsEndIsReportedWhateverHappensToTheConnection(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		m := zkrecipes.NewMutex(c, w.Path)
		recipetest.LockOn(t, m)
		for i := range 50 {
			w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: "getChildren2", For: time.Minute})
			tried := recipetest.Later(t, m.TryLock)
			synctest.Wait()
			go func() {
				for range i * 60 {
					runtime.Gosched()
				}
				tried.Cancel(nil)
			}()
			w.Srv.Disconnect(recipetest.SessionID(c))
			if _, err := tried.Wait(); !errors.Is(err, zkrecipes.ErrLocked) {
				require.ErrorIs(t, err, context.Canceled)
			}
			w.Plan.Stop()
			time.Sleep(time.Second)
		}
	})
}

func TestAWaitingLockHasFewGoroutinesAndSendsNothing(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		const n = 50
		c := w.Client(longSessions)
		l := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
		waiters := []*harness.Call[*zkrecipes.Lease]{w.LockLater(c)}
		before := runtime.NumGoroutine()
		for range n {
			waiters = append(waiters, w.LockLater(c))
		}
		perWaiter := float64(runtime.NumGoroutine()-before) / n
		require.LessOrEqual(t, perWaiter, 3.0, "goroutines")
		require.Zero(t, recipetest.Sum(w.Requests(func() { time.Sleep(time.Minute) })))
		require.NoError(t, l.Release())
		for _, a := range waiters {
			require.NoError(t, a.Get().Release())
		}
	}, zktest.SessionTimeouts(0, recipetest.LongSession))
}
