package zkrecipes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// inLockAllBubble runs f in a bubble. on returns the locks on paths, in one client.
func inLockAllBubble(t *testing.T, f func(t *testing.T, w *electionWorld, c *Client), opts ...zktest.Option) {
	inElectionBubble(t, func(t *testing.T, w *electionWorld, _, _ *Election) { f(t, w, w.stranger(nil)) }, opts...)
}

func mutexes(c *Client, paths ...string) (ms []*Mutex) {
	for _, path := range paths {
		ms = append(ms, NewMutex(c, path))
	}
	return ms
}

// lockAll locks all and fails the test if it cannot.
func lockAll(t testing.TB, ms ...*Mutex) *Leases {
	t.Helper()
	ls, err := LockAll(harness.Within(t, time.Minute), ms...)
	require.NoError(t, err)
	return ls
}

// lockAllLater locks all in the background, and returns once the call sleeps.
func lockAllLater(t testing.TB, ms ...*Mutex) *harness.Call[*Leases] {
	a := harness.Go(t, func(ctx context.Context) (*Leases, error) { return LockAll(ctx, ms...) })
	synctest.Wait()
	return a
}

// isFree requires that nobody is in these lines.
func (w *electionWorld) isFree(paths ...string) {
	w.t.Helper()
	synctest.Wait()
	for _, path := range paths {
		require.Empty(w.t, w.srv.Children(path), path)
	}
}

func TestA01LockAllHoldsAllLocksUntilItsRelease(t *testing.T) {
	inLockAllBubble(t, func(t *testing.T, w *electionWorld, c *Client) {
		ms := mutexes(c, "/b", "/a", "/c")
		ls := lockAll(t, ms...)
		ctx := ls.Context(t.Context())
		for i, l := range ls.All() {
			require.Equal(t, ms[i].line.Path, l.handle.Grant.Line.Path, "in the order given")
			require.NoError(t, l.Err())
			_, err := NewMutex(c, ms[i].line.Path).TryLock(t.Context())
			require.ErrorIs(t, err, ErrLocked)
		}
		require.NoError(t, ls.Err())
		require.NoError(t, ctx.Err())
		require.NoError(t, ls.Release())
		require.ErrorIs(t, ls.Err(), ErrReleased)
		require.ErrorIs(t, context.Cause(ctx), ErrReleased)
		require.NoError(t, ls.Release(), "again")
		w.isFree("/a", "/b", "/c")
	})
}

func TestA36DoAllReleasesWhateverItsFunctionDoes(t *testing.T) {
	inLockAllBubble(t, func(t *testing.T, w *electionWorld, c *Client) {
		ms := mutexes(c, "/a", "/b")
		broken := errors.New("broken")
		require.Equal(t, broken, DoAll(t.Context(), ms, func(ctx context.Context, ls *Leases) error {
			require.NoError(t, ls.Err())
			require.NoError(t, ctx.Err())
			return broken
		}))
		require.PanicsWithValue(t, "oh", func() {
			_ = DoAll(t.Context(), ms, func(context.Context, *Leases) error { panic("oh") })
		})
		w.isFree("/a", "/b")
		err := DoAll(t.Context(), ms, func(ctx context.Context, _ *Leases) error {
			w.srv.Expire(sessionID(c))
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), ErrLost)
			return nil
		})
		require.ErrorIs(t, err, ErrLost)
	})
}

// Each call names the locks in another order.
func TestA36LockAllLocksInTheOrderOfPathsAndReleasesInReverse(t *testing.T) {
	inLockAllBubble(t, func(t *testing.T, w *electionWorld, c *Client) {
		var mu sync.Mutex
		var order []string
		traced := w.stranger(&Options{Trace: traceOf(func(what string, e tracedEvent) {
			mu.Lock()
			defer mu.Unlock()
			if sign := map[string]string{"granted": "+", "released": "-"}[what]; sign != "" {
				order = append(order, sign+e.Path)
			}
		})})
		require.NoError(t, lockAll(t, mutexes(traced, "/b", "/a/x", "/a", "/c")...).Release())
		synctest.Wait()
		require.Equal(t, []string{"+/a", "+/a/x", "+/b", "+/c", "-/c", "-/b", "-/a/x", "-/a"}, order)
	})
}

// Calls in all orders, also under a prefix, would wait for each other in a circle.
func TestA36CallsOfLockAllNeverWaitForEachOtherInACircle(t *testing.T) {
	inLockAllBubble(t, func(t *testing.T, w *electionWorld, c *Client) {
		prefixed := w.stranger(&Options{Prefix: "/app"})
		held := 0
		var calls []*harness.Call[struct{}]
		for i := range 12 {
			ms := mutexes(c, "/app/a", "/app/b", "/app/c")
			if i%2 == 0 {
				ms = mutexes(prefixed, "/a", "/b", "/c")
			}
			for range i % 3 {
				ms = append(ms[1:], ms[0])
			}
			if i%4 == 0 {
				slices.Reverse(ms)
			}
			calls = append(calls, harness.GoErr(t, func(ctx context.Context) error {
				return DoAll(ctx, ms, func(context.Context, *Leases) error {
					if held++; held != 1 { // the race detector looks, too
						return errors.New("two hold")
					}
					time.Sleep(time.Millisecond)
					held--
					return nil
				})
			}))
		}
		for _, call := range calls {
			_, err := call.Wait()
			require.NoError(t, err)
		}
		w.isFree("/app/a", "/app/b", "/app/c")
	})
}

func TestA36LockAllGivesBackWhatItHasIfItFails(t *testing.T) {
	inLockAllBubble(t, func(t *testing.T, w *electionWorld, c *Client) {
		l := lockOn(t, NewMutex(w.stranger(nil), "/b"))
		call := lockAllLater(t, mutexes(c, "/c", "/b", "/a")...)
		require.Len(t, w.srv.Children("/a"), 1)
		require.Len(t, w.srv.Children("/b"), 2)
		why := errors.New("why")
		call.Cancel(why)
		_, err := call.Wait()
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, why)
		require.ErrorContains(t, err, "zkrecipes: lock all /b")
		w.isFree("/a", "/c")
		require.NoError(t, l.Release())
		w.isFree("/b")

		_, err = w.operator.Create("/eph", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		_, err = LockAll(t.Context(), mutexes(c, "/a", "/eph/b")...)
		require.ErrorIs(t, err, zk.ErrNoChildrenForEphemerals)
		w.isFree("/a")
	})
}

func TestB40LockAllRefusesBadInputBeforeItLocksAny(t *testing.T) {
	inLockAllBubble(t, func(t *testing.T, w *electionWorld, c *Client) {
		a, b := NewMutex(c, "/a"), NewMutex(c, "/b")
		f := func(context.Context, *Leases) error { return errors.New("called") }
		for name, test := range map[string]struct {
			ctx  context.Context
			ms   []*Mutex
			text string
		}{
			"none":              {t.Context(), nil, `lock all "": no mutexes`},
			"nil mutex":         {t.Context(), []*Mutex{a, nil}, "not made by its constructor"},
			"first nil":         {t.Context(), []*Mutex{nil, a}, "not made by its constructor"},
			"zero mutex":        {t.Context(), []*Mutex{a, {}}, "not made by its constructor"},
			"nil context":       {nil, []*Mutex{a, b}, "nil context"},
			"path twice":        {t.Context(), []*Mutex{b, a, NewMutex(c, "/b")}, "lock all /b: the path is given twice"},
			"mutex twice":       {t.Context(), []*Mutex{a, a}, "lock all /a: the path is given twice"},
			"different clients": {t.Context(), []*Mutex{a, NewMutex(w.stranger(nil), "/b")}, "lock all /b: mutexes of different Clients"},
			"invalid path":      {t.Context(), []*Mutex{a, NewMutex(c, "b")}, `lock all b: path does not begin with "/"`},
			"bad option":        {t.Context(), []*Mutex{a, NewMutex(c, "/b", KeepFor(-1))}, "not positive"},
		} {
			require.Zero(t, w.requests(func() {
				_, err := LockAll(test.ctx, test.ms...)
				require.ErrorContains(t, err, test.text, name)
				require.ErrorContains(t, DoAll(test.ctx, test.ms, f), test.text, name)
			})[opJoin], name)
		}
		require.ErrorContains(t, DoAll(t.Context(), []*Mutex{a}, nil), "nil function")
		w.isFree("/a", "/b")
	})
}

func TestA07LockAllWithAHoldersContextReturnsErrDeadlockAtOnce(t *testing.T) {
	inLockAllBubble(t, func(t *testing.T, w *electionWorld, c *Client) {
		ms := mutexes(c, "/a", "/b", "/c")
		l := lockOn(t, ms[1])
		ctx := l.Context(t.Context())
		require.Empty(t, w.requests(func() {
			_, err := LockAll(ctx, ms...)
			require.ErrorIs(t, err, ErrDeadlock)
			require.ErrorContains(t, err, "lock all /b")
		}))
		again, err := LockAll(l.Reentrant(ctx), ms...)
		require.NoError(t, err, "it re-enters")
		require.Equal(t, l.Token(), again.All()[1].Token())
		require.NoError(t, again.Release())
		require.NoError(t, l.Err())
		require.NoError(t, l.Release())

		ls := lockAll(t, ms...)
		ctx = ls.Context(t.Context())
		for _, m := range ms {
			_, err := m.Lock(ctx)
			require.ErrorIs(t, err, ErrDeadlock)
		}
		_, err = LockAll(ctx, NewMutex(c, "/0"), ms[2])
		require.ErrorIs(t, err, ErrDeadlock)
		more, err := LockAll(ctx, NewMutex(c, "/d"))
		require.NoError(t, err)
		require.NoError(t, more.Release())
		require.NoError(t, ls.Release())
		w.isFree("/a", "/b", "/c")
	})
}

func TestB09TheContextEndsWithTheFirstLockThatIsLost(t *testing.T) {
	inLockAllBubble(t, func(t *testing.T, w *electionWorld, c *Client) {
		for i := range 3 {
			ls := lockAll(t, mutexes(c, "/a", "/b", "/c")...)
			ctx := ls.Context(t.Context())
			time.Sleep(5 * time.Second)
			w.evict(ls.All()[i])
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), ErrLost)
			require.ErrorIs(t, ls.Err(), ErrLost)
			require.ErrorIs(t, ls.Release(), ErrLost)
			w.isFree("/a", "/b", "/c")
		}
	})
}

// The session expires while the call holds the first lock and waits for the second one.
func TestB10LockAllBeginsAnewInTheNextSession(t *testing.T) {
	inLockAllBubble(t, func(t *testing.T, w *electionWorld, c *Client) {
		l := lockOn(t, NewMutex(w.stranger(nil), "/b"))
		call := lockAllLater(t, mutexes(c, "/b", "/a")...)
		first := w.srv.Children("/a")
		require.Len(t, first, 1)
		w.srv.Expire(sessionID(c))
		time.Sleep(5 * time.Second)
		require.True(t, call.Waiting())
		require.Len(t, w.srv.Children("/a"), 1)
		require.NotEqual(t, first, w.srv.Children("/a"))
		require.NoError(t, l.Release())
		ls := call.Get()
		require.NoError(t, ls.Err())
		require.NoError(t, ls.Release())
		w.isFree("/a", "/b")
	})
}

// Nobody answers for as long as the session is known to live.
func TestB56LockAllBeginsAnewAfterSilence(t *testing.T) {
	inLockAllBubble(t, func(t *testing.T, w *electionWorld, c *Client) {
		l := lockOn(t, NewMutex(w.stranger(nil), "/b"))
		call := lockAllLater(t, mutexes(c, "/a", "/b")...)
		w.away(c)
		time.Sleep(11 * time.Second)
		w.back()
		time.Sleep(20 * time.Second)
		require.True(t, call.Waiting())
		require.NoError(t, l.Release())
		ls := call.Get()
		require.NoError(t, ls.Err())
		require.NoError(t, ls.Release())
		w.isFree("/a", "/b")
	})
}

func TestB22LockAllReturnsErrEvictedIfAPlaceIsDeleted(t *testing.T) {
	for path, other := range map[string]string{"/a": "held", "/b": "waiting"} {
		t.Run(other, func(t *testing.T) {
			inLockAllBubble(t, func(t *testing.T, w *electionWorld, c *Client) {
				l := lockOn(t, NewMutex(w.stranger(nil), "/b"))
				call := lockAllLater(t, mutexes(c, "/a", "/b")...)
				time.Sleep(5 * time.Second)
				places := w.srv.Children(path)
				slices.SortFunc(places, func(a, b string) int {
					x, _ := line.ParsePlaceName(a, line.LockKinds)
					y, _ := line.ParsePlaceName(b, line.LockKinds)
					return x.Compare(y)
				})
				require.NoError(t, w.operator.Delete(path+"/"+places[len(places)-1], -1))
				_, err := call.Wait()
				require.ErrorIs(t, err, ErrEvicted)
				require.ErrorContains(t, err, "lock all "+path)
				w.isFree("/a")
				require.NoError(t, l.Release())
				w.isFree("/b")
			})
		})
	}
}

func TestB35CloseEndsLockAllAndItsLeases(t *testing.T) {
	inLockAllBubble(t, func(t *testing.T, w *electionWorld, c *Client) {
		ls := lockAll(t, mutexes(c, "/b", "/c")...)
		call := lockAllLater(t, mutexes(c, "/a", "/b")...)
		require.NoError(t, c.Close())
		_, err := call.Wait()
		require.ErrorIs(t, err, ErrClosed)
		require.ErrorIs(t, ls.Err(), ErrClosed)
		require.ErrorIs(t, ls.Release(), ErrClosed)
		w.isFree("/a", "/b", "/c")
	})
}

// Replies are lost at each step.
func TestB01LockAllSurvivesLostReplies(t *testing.T) {
	for name, after := range map[string]bool{"applied": true, "not applied": false} {
		t.Run(name, func(t *testing.T) {
			inLockAllBubble(t, func(t *testing.T, w *electionWorld, c *Client) {
				for skip := range 3 {
					w.plan.Add(zktest.Fault{Do: zktest.Drop, After: after, Op: opJoin, Skip: skip}, zktest.Fault{Do: zktest.Drop, After: after, Op: opRelease, Skip: skip})
				}
				ls := lockAll(t, mutexes(c, "/a", "/b", "/c")...)
				time.Sleep(time.Minute)
				require.NoError(t, ls.Err())
				for _, path := range []string{"/a", "/b", "/c"} {
					require.Len(t, w.srv.Children(path), 1)
				}
				require.NoError(t, ls.Release())
				time.Sleep(time.Minute)
				w.isFree("/a", "/b", "/c")
			})
		})
	}
}

func TestA36LockAllOfFreeLocksTakesTwoRequestsEach(t *testing.T) {
	inLockAllBubble(t, func(t *testing.T, w *electionWorld, c *Client) {
		ms := mutexes(c, "/a", "/b", "/c")
		require.NoError(t, lockAll(t, ms...).Release())
		require.Equal(t, map[string]int{opJoin: 3, opRelease: 3}, w.requests(func() {
			require.NoError(t, lockAll(t, ms...).Release())
		}))
	})
}

func TestA36LockAllWithKeptLocks(t *testing.T) {
	inLockAllBubble(t, func(t *testing.T, w *electionWorld, c *Client) {
		ms := []*Mutex{NewMutex(c, "/b", KeepFor(time.Minute)), NewMutex(c, "/a", KeepFor(time.Minute))}
		require.NoError(t, lockAll(t, ms...).Release())
		require.Empty(t, w.requests(func() { require.NoError(t, lockAll(t, ms...).Release()) }))
	})
}

func TestB28LockAllThatWaitsReturnsErrClosed(t *testing.T) {
	inLockAllBubble(t, func(t *testing.T, w *electionWorld, c *Client) {
		lockOn(t, NewMutex(w.stranger(nil), "/b"))
		var calls []*harness.Call[*Leases]
		for i := range 200 {
			calls = append(calls, lockAllLater(t, mutexes(c, fmt.Sprintf("/a%d", i), "/b")...))
		}
		require.NoError(t, c.Close())
		for _, call := range calls {
			_, err := call.Wait()
			require.ErrorIs(t, err, ErrClosed)
			require.ErrorContains(t, err, "zkrecipes: lock all /")
		}
	})
}

// hookedContext calls hook at the beginning of Done.
type hookedContext struct {
	context.Context
	hook func()
}

func (c *hookedContext) Done() <-chan struct{} { c.hook(); return c.Context.Done() }

// The context of the last lease is made of the caller's when all locks are held.
func TestB28LockAllWhoseClientIsClosedAtItsEndReturnsErrClosed(t *testing.T) {
	inLockAllBubble(t, func(t *testing.T, w *electionWorld, c *Client) {
		s, _ := c.client.Session()
		var once sync.Once
		_, err := LockAll(&hookedContext{t.Context(), func() {
			if s.HasGrants() {
				once.Do(func() { require.NoError(t, c.Close()) })
			}
		}}, NewMutex(c, "/a"))
		require.ErrorIs(t, err, ErrClosed)
		require.ErrorContains(t, err, "zkrecipes: lock all /a")
	})
}
