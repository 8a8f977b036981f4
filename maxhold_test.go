package zkrecipes_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// What the documentation of MaxHold promises.

func TestMaxHoldEndsAHoldOfAHandlerThatHangs(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		const most = 30 * time.Second
		a := zkrecipes.NewMutex(w.Stranger(nil), w.Path, zkrecipes.MaxHold(most))
		hangs := make(chan struct{})
		var lease *zkrecipes.Lease
		var ended time.Duration
		began := time.Now()
		done := make(chan error, 1)
		go func() {
			done <- a.Do(t.Context(), func(ctx context.Context, l *zkrecipes.Lease) error {
				lease = l
				<-ctx.Done()
				ended = time.Since(began)
				<-hangs
				_, err := l.Commit(ctx, zkrecipes.OpCreate("/late", nil, 0, nil))
				return err
			})
		}()
		time.Sleep(time.Second)
		next := recipetest.LockOn(t, zkrecipes.NewMutex(w.Stranger(nil), w.Path)) // in the other's 30th second
		synctest.Wait()                                                           // the handler has seen it, too
		require.Equal(t, most, ended)
		require.Equal(t, most, time.Since(began))
		require.Greater(t, next.Token(), lease.Token())
		require.ErrorIs(t, lease.Err(), zkrecipes.ErrLost)
		require.ErrorIs(t, lease.Err(), zkrecipes.ErrMaxHold)
		require.EqualError(t, lease.Err(), "zkrecipes: hold /line: lease lost: held for as long as MaxHold lets it be")
		close(hangs)
		err := <-done
		require.ErrorIs(t, err, zkrecipes.ErrMaxHold)
		require.False(t, w.Has("/late"))
		require.NoError(t, next.Release())

		// One that is released in time has nothing of it.
		l := recipetest.LockOn(t, a)
		time.Sleep(most - time.Second)
		require.NoError(t, l.Release())
		l = recipetest.LockOn(t, a)
		time.Sleep(most - time.Second)
		require.NoError(t, l.Err())
		require.NoError(t, l.Release())
	})
}

func TestMaxHoldBoundsReentriesTogetherAndHoldsOfAKeptLockOneByOne(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		m := zkrecipes.NewMutex(c, w.Path, zkrecipes.MaxHold(10*time.Second))
		l := recipetest.LockOn(t, m)
		time.Sleep(6 * time.Second)
		again, err := m.Lock(l.Reentrant(t.Context()))
		require.NoError(t, err)
		time.Sleep(4*time.Second + time.Millisecond)
		require.ErrorIs(t, again.Err(), zkrecipes.ErrMaxHold)

		kept := zkrecipes.NewMutex(c, "/kept", zkrecipes.MaxHold(10*time.Second), zkrecipes.KeepFor(time.Hour))
		for range 5 {
			l := recipetest.LockOn(t, kept)
			time.Sleep(6 * time.Second)
			require.NoError(t, l.Release())
		}
		l = recipetest.LockOn(t, kept)
		time.Sleep(11 * time.Second)
		require.ErrorIs(t, l.Err(), zkrecipes.ErrMaxHold)
		require.NoError(t, recipetest.LockOn(t, zkrecipes.NewMutex(w.Stranger(nil), "/kept")).Release())
	})
}

func TestMaxHoldOfALeaderThatHangs(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		election := func() *zkrecipes.Election {
			return zkrecipes.NewElection(w.Stranger(nil), "/e", zkrecipes.MaxHold(20*time.Second), zkrecipes.LockDelay(5*time.Second))
		}
		term, err := election().Campaign(t.Context(), nil)
		require.NoError(t, err)
		began := time.Now()
		_, err = election().Campaign(t.Context(), nil)
		require.NoError(t, err)
		require.InDelta(t, 25, time.Since(began).Seconds(), 0.1, "the LockDelay is for the one that hangs, too")
		require.ErrorIs(t, term.Err(), zkrecipes.ErrMaxHold)
	})
}

func TestMaxHoldEndsALockAllThatWaitsForTooLong(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		holder := recipetest.LockOn(t, zkrecipes.NewMutex(w.Stranger(nil), "/b"))
		c := w.Stranger(nil)
		a, b := zkrecipes.NewMutex(c, "/a", zkrecipes.MaxHold(10*time.Second)), zkrecipes.NewMutex(c, "/b")
		began := time.Now()
		_, err := zkrecipes.LockAll(harness.Within(t, time.Hour), a, b)
		require.ErrorIs(t, err, zkrecipes.ErrMaxHold)
		require.EqualError(t, err, "zkrecipes: lock all /a: lease lost: held for as long as MaxHold lets it be")
		require.Equal(t, 10*time.Second, time.Since(began))
		require.NoError(t, holder.Release())
		ls, err := zkrecipes.LockAll(t.Context(), a, b)
		require.NoError(t, err)
		require.NoError(t, ls.Release())
	})
}

// The context of a Commit ends because the lease is lost, after the servers have applied it.
func TestAnUncertainCommitUnderTheLeasesOwnContextIsNotErrLost(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Stranger(nil), w.Path, zkrecipes.MaxHold(2*time.Second)))
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, After: true, Op: "multi", Path: "/data", For: 3 * time.Second})
		_, err := l.Commit(l.Context(t.Context()), zkrecipes.OpCreate("/data", nil, 0, nil))
		require.True(t, w.Has("/data"))
		require.ErrorIs(t, err, zkrecipes.ErrUncertain)
		require.NotErrorIs(t, err, zkrecipes.ErrLost, "nothing was done, that would say")
		require.ErrorContains(t, err, "MaxHold")
		require.ErrorIs(t, first(l.Commit(t.Context(), zkrecipes.OpCreate("/data2", nil, 0, nil))), zkrecipes.ErrLost)
	})
}
