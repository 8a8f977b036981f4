package zkrecipes

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/keep"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Locks that are kept (KeepFor). Faults are in mutex_keep_faults_test.go.

const keepFor = 2 * time.Second

// opAlone is the request that asks whether a place is alone in its line.
const opAlone = "getChildren2"

// kept returns a Mutex of a new Client that keeps its lock for keepFor.
func (w *world) kept(opts *Options) *Mutex {
	w.t.Helper()
	return NewMutex(w.client(opts), w.path, KeepFor(keepFor))
}

// keep takes and releases a Mutex that keeps its lock, and returns the token.
func (w *world) keep(m *Mutex) Token {
	w.t.Helper()
	l := lockOn(w.t, m)
	require.NoError(w.t, l.Release())
	require.Len(w.t, w.line(), 1, "kept")
	return l.Token()
}

// waits calls m.Lock and returns once the call sleeps, or holds the lock.
func (w *world) waits(m *Mutex) *harness.Call[*Lease] {
	a := lockLater(w.t, m)
	synctest.Wait()
	return a
}

func TestKeptLockIsTakenAgainWithoutARequest(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		m := w.kept(nil)
		require.Equal(t, map[string]int{opJoin: 1, "exists": 1, opAlone: 1}, w.requests(func() { w.keep(m) }))
		place := w.line()[0]
		var last Token
		require.Empty(t, w.requests(func() {
			for range 20 {
				l := lockOn(t, m)
				require.Greater(t, l.Token(), last)
				last = l.Token()
				_, err := m.TryLock(t.Context())
				require.ErrorIs(t, err, ErrLocked)
				require.NoError(t, l.Release())
				require.ErrorIs(t, l.Err(), ErrReleased)
				l, err = m.TryLock(t.Context())
				require.NoError(t, err)
				require.Equal(t, last+1, l.Token())
				last = l.Token()
				require.NoError(t, l.Release())
			}
		}))
		require.Equal(t, []line.PlaceName{place}, w.line())
		time.Sleep(keepFor)
		synctest.Wait()
		require.Empty(t, w.line())
		require.Zero(t, watchesOf(clientOf(m.line.Client)))
		require.Empty(t, keep.KeptBy(m.line.Client).Locks)
	})
}

func TestKeptLockIsLeftOnceItWasNotUsedForD(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		m := w.kept(nil)
		for range 3 {
			w.keep(m)
			time.Sleep(keepFor - time.Nanosecond)
			synctest.Wait()
			require.Len(t, w.line(), 1)
		}
		w.keep(m)
		counts := w.requests(func() { time.Sleep(keepFor) })
		delete(counts, "ping")
		require.Equal(t, map[string]int{opRelease: 1}, counts)
		require.Empty(t, w.line())
	})
}

// A lock that is in use is confirmed with one read each d, so that even a busy process
// finds out that an event was lost.
func TestBusyKeptLockAsksOnceEachD(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		m := w.kept(nil)
		w.keep(m)
		counts := w.requests(func() {
			for range 100 {
				time.Sleep(keepFor / 10)
				w.keep(m)
			}
		})
		require.Equal(t, 10, counts[opAlone])
		delete(counts, opAlone)
		delete(counts, "ping")
		delete(counts, "getData") // the watch on the place
		require.Empty(t, counts)
	})
}

func TestKeptLockIsLeftWhenAnotherSessionJoins(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		m := w.kept(nil)
		token := w.keep(m)
		other := w.client(&Options{Identity: "other"})
		require.Empty(t, w.line(), "its first use made the process leave")
		token = max(token, w.keep(m))
		began := time.Now()
		var l *Lease
		counts := w.requests(func() { l = lockOn(t, NewMutex(other, w.path)) })
		require.Zero(t, time.Since(began), "it did not wait for d")
		require.Equal(t, 1, counts[opRelease])
		require.Greater(t, l.Token(), token)
		require.NoError(t, l.Release())
		require.Greater(t, w.keep(m), l.Token())
	})
}

// The callers that came before another session go first, in order; those that came
// later go behind it.
func TestCallersGoBeforeOrAfterAnotherSessionAsTheyCame(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		m, other := w.kept(nil), NewMutex(w.client(nil), w.path)
		w.keep(m)
		holder := lockOn(t, m)
		early := []*harness.Call[*Lease]{w.waits(m), w.waits(m)}
		joiner := w.waits(other)
		late := []*harness.Call[*Lease]{w.waits(m), w.waits(m)}
		last := holder
		for i, next := range []*harness.Call[*Lease]{early[0], early[1], joiner, late[0]} {
			require.True(t, next.Waiting())
			require.NoError(t, last.Release())
			synctest.Wait()
			require.False(t, next.Waiting(), i)
			require.Greater(t, next.Get().Token(), last.Token())
			last = next.Get()
		}
		require.True(t, late[1].Waiting())
		require.NoError(t, last.Release())
		require.NoError(t, late[1].Get().Release())
		require.Len(t, w.line(), 1, "kept again")
	})
}

// Beside others, a process takes a place anew after each hold. So turns go round among
// the processes.
func TestTurnsGoRoundAmongProcesses(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a, b := w.kept(nil), w.kept(nil)
		holder := lockOn(t, NewMutex(w.client(nil), w.path))
		var order []string
		var calls []*harness.Call[struct{}]
		for range 3 {
			for name, m := range map[string]*Mutex{"a": a, "b": b} {
				calls = append(calls, harness.GoErr(t, func(ctx context.Context) error {
					return m.Do(ctx, func(context.Context, *Lease) error {
						order = append(order, name)
						time.Sleep(time.Millisecond)
						return nil
					})
				}))
			}
			synctest.Wait()
		}
		require.Len(t, w.line(), 3, "one place for each process")
		require.NoError(t, holder.Release())
		for _, c := range calls {
			c.Get()
		}
		require.Len(t, order, 6)
		for i := range 4 { // the last ones are alone
			require.NotEqual(t, order[i], order[i+1], "%v", order)
		}
	})
}

// The watch on the line does not fire for a join before it was set.
func TestLockIsNotKeptIfAnotherSessionJoinedBeforeItsFirstRelease(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		m, other := w.kept(nil), NewMutex(w.client(nil), w.path)
		l := lockOn(t, m)
		a := w.waits(other)
		require.NoError(t, l.Release())
		synctest.Wait()
		require.False(t, a.Waiting(), "it holds at once")
		require.NoError(t, a.Get().Release())
	})
}

// The first release asks for the number of others, not for their names, also if the place was
// alone when it joined.
func TestKeptLockBesideOthersCostsOneSmallReadMore(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		m, other := w.kept(nil), NewMutex(w.client(nil), w.path)
		l := lockOn(t, m)
		behind := w.waits(other)
		require.Equal(t, map[string]int{"exists": 1, opRelease: 1}, w.requests(func() { require.NoError(t, l.Release()) }))
		require.NoError(t, behind.Get().Release())
		l = lockOn(t, other)
		a := w.waits(m)
		behind = w.waits(other)
		require.NoError(t, l.Release())
		l = a.Get()
		require.Equal(t, map[string]int{"exists": 1, opRelease: 1}, w.requests(func() { require.NoError(t, l.Release()) }))
		a = w.waits(m)
		require.NoError(t, behind.Get().Release())
		l = a.Get()
		require.Equal(t, map[string]int{"exists": 1, opAlone: 1}, w.requests(func() { require.NoError(t, l.Release()) }), "nobody is left")
		require.Len(t, w.line(), 1, "kept")
	})
}

func TestGoZookeepersLockIsServedAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		m := w.kept(nil)
		w.keep(m)
		conn := w.bare()
		began := time.Now()
		theirs := zk.NewLock(conn, w.path, zk.WorldACL(zk.PermAll))
		require.NoError(t, theirs.Lock())
		require.Zero(t, time.Since(began))
		waiting := w.waits(m)
		require.True(t, waiting.Waiting())
		require.NoError(t, theirs.Unlock())
		require.NoError(t, waiting.Get().Release())
		require.Len(t, w.line(), 1)
	})
}

// The place that the process waits for does not end with any one caller.
func TestCallersThatGiveUpAreRemoved(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		m := w.kept(nil)
		holder := lockOn(t, NewMutex(w.client(nil), w.path))
		first, second, third := w.waits(m), w.waits(m), w.waits(m)
		place := w.line()[1]
		cause := fmt.Errorf("given up")
		for _, c := range []*harness.Call[*Lease]{first, second} {
			c.Cancel(cause)
			_, err := c.Wait()
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, cause)
		}
		require.Equal(t, place, w.line()[1], "the third has it")
		require.NoError(t, holder.Release())
		l := third.Get()
		require.Contains(t, l.Check().Path, place.Name)

		fourth, fifth := w.waits(m), w.waits(m)
		fourth.Cancel(cause)
		_, err := fourth.Wait()
		require.ErrorIs(t, err, cause)
		require.NoError(t, l.Release())
		require.NoError(t, fifth.Get().Release())

		other := lockOn(t, NewMutex(w.client(nil), w.path))
		last := w.waits(m)
		require.Len(t, w.line(), 2)
		last.Cancel(cause)
		_, err = last.Wait()
		require.ErrorIs(t, err, cause)
		synctest.Wait()
		require.Len(t, w.line(), 1, "nobody waits any more")
		require.NoError(t, other.Release())
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		_, err = m.Lock(ctx)
		require.ErrorIs(t, err, cause)
	})
}

func TestPlaceIsTakenAnewAfter256Holds(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		m := w.kept(nil)
		first := w.keep(m)
		require.Zero(t, first&0xff)
		last := first
		counts := w.requests(func() {
			for range 600 {
				l := lockOn(t, m)
				require.Greater(t, l.Token(), last)
				_, stat, err := l.Get(t.Context(), l.Check().Path)
				require.NoError(t, err)
				require.EqualValues(t, stat.Czxid, l.Token()>>8)
				last = l.Token()
				require.NoError(t, l.Release())
			}
		})
		require.Equal(t, 2, counts[opJoin])
		require.Equal(t, 2, counts[opRelease])
		require.EqualValues(t, 600-255-256-1, last&0xff)
		cs, err := m.Contenders(t.Context())
		require.NoError(t, err)
		require.Len(t, cs, 1)
		require.True(t, cs[0].Held, "it is kept")
		require.Equal(t, last&^0xff, cs[0].Token, "that of the first hold")
	})
}

func TestTokensOfUnkeptLocksAreCzxids(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for range 3 {
			l := lockOn(t, NewMutex(w.client(nil), w.path))
			_, stat, err := l.Get(t.Context(), l.Check().Path)
			require.NoError(t, err)
			require.Equal(t, Token(stat.Czxid<<8), l.Token())
			require.NoError(t, l.Release())
			require.Empty(t, w.line())
		}
	})
}

func TestMutexesOfAClientShareAPlace(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		short, long := NewMutex(c, w.path, KeepFor(time.Second)), NewMutex(c, w.path, MutexOption{}, KeepFor(time.Hour))
		w.keep(short)
		require.Empty(t, w.requests(func() { w.keep(long) }))
		time.Sleep(time.Minute)
		require.Len(t, w.line(), 1, "the last holder's d counts")
		l := lockOn(t, long)
		waiting := w.waits(short)
		require.True(t, waiting.Waiting())
		require.NoError(t, l.Release())
		require.NoError(t, waiting.Get().Release())
		time.Sleep(time.Second)
		synctest.Wait()
		require.Empty(t, w.line())
	})
}

// A Mutex without KeepFor is like another session's, even in the same Client.
func TestUnkeptMutexOfTheSameClientTakesAPlaceOfItsOwn(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		kept, unkept := NewMutex(c, w.path, KeepFor(time.Hour)), NewMutex(c, w.path)
		w.keep(kept)
		_, err := unkept.TryLock(t.Context())
		require.ErrorIs(t, err, ErrLocked)
		l := lockOn(t, unkept)
		_, err = kept.TryLock(t.Context())
		require.ErrorIs(t, err, ErrLocked)
		_, err = kept.Lock(l.Context(t.Context()))
		require.ErrorIs(t, err, ErrDeadlock)
		again, err := kept.Lock(l.Reentrant(t.Context()))
		require.NoError(t, err)
		require.NoError(t, again.Release())
		waiting := w.waits(kept)
		require.True(t, waiting.Waiting())
		require.NoError(t, l.Release())
		require.Empty(t, w.line()[1:])
		require.NoError(t, waiting.Get().Release())
		require.Len(t, w.line(), 1)
	})
}

func TestKeptLockReentersAsOthersDo(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		m := w.kept(nil)
		w.keep(m)
		require.Empty(t, w.requests(func() {
			l := lockOn(t, m)
			_, err := m.Lock(l.Context(t.Context()))
			require.ErrorIs(t, err, ErrDeadlock)
			again, err := m.Lock(l.Reentrant(t.Context()))
			require.NoError(t, err)
			require.Equal(t, l.Token(), again.Token())
			require.NoError(t, l.Release())
			_, err = m.TryLock(t.Context())
			require.ErrorIs(t, err, ErrLocked, "a re-entry holds")
			require.NoError(t, again.Release())
			next := lockOn(t, m)
			_, err = m.Lock(l.Reentrant(t.Context()))
			require.ErrorIs(t, err, ErrReleased, "never into the next holder's grant")
			require.ErrorIs(t, l.Release(), nil)
			require.NoError(t, next.Err())
			_, err = l.Commit(t.Context())
			require.ErrorIs(t, err, ErrReleased)
			require.NoError(t, next.Release())
		}))
	})
}

func TestHooksAreToldOfEachHold(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := newRecorder()
		m := w.kept(&Options{Trace: r.trace()})
		for range 3 {
			w.keep(m)
		}
		synctest.Wait()
		granted, released := r.of("granted")[1:], r.of("released")[1:] // without w.client's
		require.Len(t, granted, 3)
		require.Len(t, released, 3)
		for i := range granted {
			require.Equal(t, granted[0].Token+Token(i), granted[i].Token)
			require.Equal(t, granted[i].Token, released[i].Token)
			require.Equal(t, w.line()[0].Name, granted[i].Place)
		}
		time.Sleep(keepFor)
		synctest.Wait()
		require.Len(t, r.of("released"), 4, "nobody held")
		require.Empty(t, r.of("lost"))
	})
}

func TestKeepForMustBePositive(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		for _, d := range []time.Duration{0, -time.Second} {
			m := NewMutex(c, w.path, KeepFor(d))
			for _, f := range []func(context.Context) (*Lease, error){m.Lock, m.TryLock} {
				_, err := f(t.Context())
				require.ErrorContains(t, err, fmt.Sprintf("KeepFor(%v): not positive", d))
			}
		}
	})
}

// Many callers of several processes, some of which give up.
func TestKeptLocksExclude(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var inside, last atomic.Int64
		var calls []*harness.Call[struct{}]
		for i := range 4 {
			m := NewMutex(w.client(nil), w.path, KeepFor(100*time.Millisecond))
			if i == 3 {
				m = NewMutex(clientOf(m.line.Client), w.path)
			}
			for j := range 4 {
				calls = append(calls, harness.GoErr(t, func(ctx context.Context) error {
					for n := range 200 {
						time.Sleep(time.Duration((7*n+3*j+i)%11) * time.Millisecond)
						ctx, cancel := context.WithTimeout(ctx, time.Duration(1+(n+j)%5)*50*time.Millisecond)
						err := m.Do(ctx, func(_ context.Context, l *Lease) error {
							require.EqualValues(t, 1, inside.Add(1))
							require.Less(t, last.Swap(int64(l.Token())), int64(l.Token()))
							time.Sleep(time.Duration(n%3) * time.Millisecond)
							inside.Add(-1)
							return nil
						})
						cancel()
						if err != nil && ctx.Err() == nil {
							return err
						}
					}
					return nil
				}))
			}
		}
		for _, c := range calls {
			c.Get()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		require.Empty(t, w.line())
	}, zktest.TickTime(time.Second))
}

// No order of options decides which of them counts.
func TestMutexWithTwoKeepForsOrANegativeOneIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		for want, opts := range map[string][]MutexOption{
			"KeepFor is given more than once": {KeepFor(time.Second), {}, KeepFor(time.Second)},
			"KeepFor(-1s): not positive":      {KeepFor(-time.Second)},
			"KeepFor(0s): not positive":       {KeepFor(0)},
		} {
			m := NewMutex(c, "/m", opts...)
			requests := w.requests(func() {
				_, err := m.Lock(t.Context())
				require.EqualError(t, err, "zkrecipes: lock /m: "+want)
				_, err = m.TryLock(t.Context())
				require.ErrorContains(t, err, want)
				_, err = m.Contenders(t.Context())
				require.ErrorContains(t, err, want)
			})
			require.Empty(t, requests)
		}
		require.NoError(t, NewMutex(c, "/m", MutexOption{}, KeepFor(time.Second)).Do(t.Context(), nothing))
	})
}
