package keep_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/keep"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// Locks that are kept (KeepFor).

// opAlone is the request that asks whether a place is alone in its line.
const opAlone = "getChildren2"

func TestKeptLockIsTakenAgainWithoutARequest(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		m := w.Kept(nil)
		w.Keep(m)
		place := w.Line()[0]
		var last zkrecipes.Token
		require.Empty(t, w.Requests(func() {
			for range 20 {
				l := recipetest.LockOn(t, m)
				require.Greater(t, l.Token(), last)
				last = l.Token()
				_, err := m.TryLock(t.Context())
				require.ErrorIs(t, err, zkrecipes.ErrLocked)
				require.NoError(t, l.Release())
				require.ErrorIs(t, l.Err(), zkrecipes.ErrReleased)
				l, err = m.TryLock(t.Context())
				require.NoError(t, err)
				require.Equal(t, last+1, l.Token())
				last = l.Token()
				require.NoError(t, l.Release())
			}
		}))
		require.Equal(t, []layout.PlaceName{place}, w.Line())
		time.Sleep(recipetest.KeepFor)
		synctest.Wait()
		require.Empty(t, w.Line())
		require.Empty(t, w.SessionOf(w.ClientOf(m)).Watches)
	})
}

func TestALockThatIsNotKeptAnyMoreIsForgotten(t *testing.T) {
	recipetest.EachInBubble(t, map[string]func(w *recipetest.World, core recipetest.Core){
		"d has passed":     func(*recipetest.World, recipetest.Core) { time.Sleep(recipetest.KeepFor) },
		"client is closed": func(w *recipetest.World, core recipetest.Core) { require.NoError(w.T, core.Close()) },
	}, func(t *testing.T, w *recipetest.World, end func(w *recipetest.World, core recipetest.Core)) {
		core := w.NewCore()
		m := keep.New(core.MutexLine(w.Path), recipetest.KeepFor)
		require.NoError(t, recipetest.Grab(t, m.Acquire, layout.KindLock).Release())
		require.Equal(t, 1, keep.InUse(core.Client))
		end(w, core)
		synctest.Wait()
		require.Zero(t, keep.InUse(core.Client))
	})
}

func TestKeptLockIsLeftOnceItWasNotUsedForD(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		m := w.Kept(nil)
		for range 3 {
			w.Keep(m)
			time.Sleep(recipetest.KeepFor - time.Nanosecond)
			synctest.Wait()
			require.Len(t, w.Line(), 1)
		}
		w.Keep(m)
		counts := w.Requests(func() { time.Sleep(recipetest.KeepFor) })
		require.Equal(t, 1, recipetest.Writes(counts), "the release")
		require.Empty(t, w.Line())
	})
}

func TestKeptLockIsLeftWhenAnotherSessionJoins(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		m := w.Kept(nil)
		token := w.Keep(m)
		other := w.Client(&zkrecipes.Options{Identity: "other"})
		require.Empty(t, w.Line(), "its first use made the process leave")
		token = max(token, w.Keep(m))
		began := time.Now()
		var l *zkrecipes.Lease
		counts := w.Requests(func() { l = recipetest.LockOn(t, zkrecipes.NewMutex(other, w.Path)) })
		require.Zero(t, time.Since(began), "it did not wait for d")
		require.Equal(t, 1, counts[recipetest.OpRelease])
		require.Greater(t, l.Token(), token)
		require.NoError(t, l.Release())
		require.Greater(t, w.Keep(m), l.Token())
	})
}

// The callers that came before another session go first, in order; those that came
// later go behind it.
func TestCallersGoBeforeOrAfterAnotherSessionAsTheyCame(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		m, other := w.Kept(nil), zkrecipes.NewMutex(w.Client(nil), w.Path)
		w.Keep(m)
		holder := recipetest.LockOn(t, m)
		early := []*harness.Call[*zkrecipes.Lease]{w.Waits(m), w.Waits(m)}
		joiner := w.Waits(other)
		late := []*harness.Call[*zkrecipes.Lease]{w.Waits(m), w.Waits(m)}
		last := holder
		for i, next := range []*harness.Call[*zkrecipes.Lease]{early[0], early[1], joiner, late[0]} {
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
		require.Len(t, w.Line(), 1, "kept again")
	})
}

// Beside others, a process takes a place anew after each hold. So turns go round among
// the processes.
func TestTurnsGoRoundAmongProcesses(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		a, b := w.Kept(nil), w.Kept(nil)
		holder := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
		var order []string
		var calls []*harness.Call[struct{}]
		for range 3 {
			for name, m := range map[string]*zkrecipes.Mutex{"a": a, "b": b} {
				calls = append(calls, harness.GoErr(t, func(ctx context.Context) error {
					return m.Do(ctx, func(context.Context, *zkrecipes.Lease) error {
						order = append(order, name)
						time.Sleep(time.Millisecond)
						return nil
					})
				}))
			}
			synctest.Wait()
		}
		require.Len(t, w.Line(), 3, "one place for each process")
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
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		m, other := w.Kept(nil), zkrecipes.NewMutex(w.Client(nil), w.Path)
		l := recipetest.LockOn(t, m)
		a := w.Waits(other)
		require.NoError(t, l.Release())
		synctest.Wait()
		require.False(t, a.Waiting(), "it holds at once")
		require.NoError(t, a.Get().Release())
	})
}

func TestGoZookeepersLockIsServedAtOnce(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		m := w.Kept(nil)
		w.Keep(m)
		conn := w.Bare()
		began := time.Now()
		theirs := zk.NewLock(conn, w.Path, zk.WorldACL(zk.PermAll))
		require.NoError(t, theirs.Lock())
		require.Zero(t, time.Since(began))
		waiting := w.Waits(m)
		require.True(t, waiting.Waiting())
		require.NoError(t, theirs.Unlock())
		require.NoError(t, waiting.Get().Release())
		require.Len(t, w.Line(), 1)
	})
}

// The place that the process waits for does not end with any one caller.
func TestCallersThatGiveUpAreRemoved(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		m := w.Kept(nil)
		holder := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
		first, second, third := w.Waits(m), w.Waits(m), w.Waits(m)
		place := w.Line()[1]
		cause := fmt.Errorf("given up")
		for _, c := range []*harness.Call[*zkrecipes.Lease]{first, second} {
			c.Cancel(cause)
			_, err := c.Wait()
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, cause)
		}
		require.Equal(t, place, w.Line()[1], "the third has it")
		require.NoError(t, holder.Release())
		l := third.Get()
		require.Contains(t, l.Check().Path, place.Name)

		fourth, fifth := w.Waits(m), w.Waits(m)
		fourth.Cancel(cause)
		recipetest.Fails(t, fourth, cause)
		require.NoError(t, l.Release())
		require.NoError(t, fifth.Get().Release())

		other := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
		last := w.Waits(m)
		require.Len(t, w.Line(), 2)
		last.Cancel(cause)
		recipetest.Fails(t, last, cause)
		synctest.Wait()
		require.Len(t, w.Line(), 1, "nobody waits any more")
		require.NoError(t, other.Release())
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		_, err := m.Lock(ctx)
		require.ErrorIs(t, err, cause)
	})
}

func TestPlaceIsTakenAnewAfter256Holds(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		m := w.Kept(nil)
		first := w.Keep(m)
		require.Zero(t, first&0xff)
		last := first
		counts := w.Requests(func() {
			for range 600 {
				l := recipetest.LockOn(t, m)
				require.Greater(t, l.Token(), last)
				_, stat, err := l.Get(t.Context(), l.Check().Path)
				require.NoError(t, err)
				require.EqualValues(t, stat.Czxid, l.Token()>>8)
				last = l.Token()
				require.NoError(t, l.Release())
			}
		})
		require.Equal(t, 2, counts[recipetest.OpJoin])
		require.Equal(t, 2, counts[recipetest.OpRelease])
		require.EqualValues(t, 600-255-256-1, last&0xff)
		cs, err := m.Contenders(t.Context())
		require.NoError(t, err)
		require.Len(t, cs, 1)
		require.True(t, cs[0].Held, "it is kept")
		require.Equal(t, last&^0xff, cs[0].Token, "that of the first hold")
	})
}

func TestMutexesOfAClientShareAPlace(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		short, long := zkrecipes.NewMutex(c, w.Path, zkrecipes.KeepFor(time.Second)), zkrecipes.NewMutex(c, w.Path, zkrecipes.MutexOption{}, zkrecipes.KeepFor(time.Hour))
		w.Keep(short)
		require.Empty(t, w.Requests(func() { w.Keep(long) }))
		time.Sleep(time.Minute)
		require.Len(t, w.Line(), 1, "the last holder's d counts")
		l := recipetest.LockOn(t, long)
		waiting := w.Waits(short)
		require.True(t, waiting.Waiting())
		require.NoError(t, l.Release())
		require.NoError(t, waiting.Get().Release())
		time.Sleep(time.Second)
		synctest.Wait()
		require.Empty(t, w.Line())
	})
}

// A Mutex without KeepFor is like another session's, even in the same Client.
func TestUnkeptMutexOfTheSameClientTakesAPlaceOfItsOwn(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		kept, unkept := zkrecipes.NewMutex(c, w.Path, zkrecipes.KeepFor(time.Hour)), zkrecipes.NewMutex(c, w.Path)
		w.Keep(kept)
		_, err := unkept.TryLock(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		l := recipetest.LockOn(t, unkept)
		_, err = kept.TryLock(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		_, err = kept.Lock(l.Context(t.Context()))
		require.ErrorIs(t, err, zkrecipes.ErrDeadlock)
		again, err := kept.Lock(l.Reentrant(t.Context()))
		require.NoError(t, err)
		require.NoError(t, again.Release())
		waiting := w.Waits(kept)
		require.True(t, waiting.Waiting())
		require.NoError(t, l.Release())
		require.Empty(t, w.Line()[1:])
		require.NoError(t, waiting.Get().Release())
		require.Len(t, w.Line(), 1)
	})
}

func TestKeptLockReentersAsOthersDo(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		m := w.Kept(nil)
		w.Keep(m)
		require.Empty(t, w.Requests(func() {
			l := recipetest.LockOn(t, m)
			_, err := m.Lock(l.Context(t.Context()))
			require.ErrorIs(t, err, zkrecipes.ErrDeadlock)
			again, err := m.Lock(l.Reentrant(t.Context()))
			require.NoError(t, err)
			require.Equal(t, l.Token(), again.Token())
			require.NoError(t, l.Release())
			_, err = m.TryLock(t.Context())
			require.ErrorIs(t, err, zkrecipes.ErrLocked, "a re-entry holds")
			require.NoError(t, again.Release())
			next := recipetest.LockOn(t, m)
			_, err = m.Lock(l.Reentrant(t.Context()))
			require.ErrorIs(t, err, zkrecipes.ErrReleased, "never into the next holder's grant")
			require.ErrorIs(t, l.Release(), nil)
			require.NoError(t, next.Err())
			_, err = l.Commit(t.Context())
			require.ErrorIs(t, err, zkrecipes.ErrReleased)
			require.NoError(t, next.Release())
		}))
	})
}

// No order of options decides which of them counts.
func TestInvalidOptionsOfAMutexAreReportedOnFirstUse(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		for want, opts := range map[string][]zkrecipes.MutexOption{
			"KeepFor is given more than once":   {zkrecipes.KeepFor(time.Second), {}, zkrecipes.KeepFor(time.Second)},
			"KeepFor must be positive: -1s":     {zkrecipes.KeepFor(-time.Second)},
			"KeepFor must be positive: 0s":      {zkrecipes.KeepFor(0)},
			"LockDelay is given more than once": {zkrecipes.LockDelay(1), zkrecipes.LockDelay(1)},
			"LockDelay must be positive: -1s":   {zkrecipes.LockDelay(-time.Second)},
			"LockDelay must be positive: 0s":    {zkrecipes.LockDelay(0)},
			"MaxHold is given more than once":   {zkrecipes.MaxHold(1), zkrecipes.MaxHold(1)},
			"MaxHold must be positive: 0s":      {zkrecipes.MaxHold(0)},
		} {
			m := zkrecipes.NewMutex(c, "/m", opts...)
			requests := w.Requests(func() {
				_, err := m.Lock(t.Context())
				require.EqualError(t, err, "zkrecipes: lock /m: "+want)
				_, err = m.TryLock(t.Context())
				require.ErrorContains(t, err, want)
				_, err = m.Contenders(t.Context())
				require.ErrorContains(t, err, want)
			})
			require.Empty(t, requests)
		}
		require.NoError(t, zkrecipes.NewMutex(c, "/m", zkrecipes.MutexOption{}, zkrecipes.KeepFor(time.Second)).Do(t.Context(), recipetest.Nothing))
		_, err := zkrecipes.NewElection(c, "/m", zkrecipes.KeepFor(1)).Campaign(t.Context(), nil)
		require.EqualError(t, err, "zkrecipes: campaign /m: KeepFor is no option of an Election")
	})
}
