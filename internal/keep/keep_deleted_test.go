package keep_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/keep"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Places of kept locks that somebody deletes.

// The event of the line says that something has changed. It may be the deletion of the
// own place, which is not watched yet.
func TestCallersThatCameEarlyAreNotServedOnAPlaceThatWasDeleted(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		m, other := zkrecipes.NewMutex(w.Client(nil), w.Path, zkrecipes.KeepFor(time.Hour)), zkrecipes.NewMutex(w.Client(nil), w.Path)
		bare := w.Bare()
		w.Keep(m)
		l := recipetest.LockOn(t, m)
		early := []*harness.Call[*zkrecipes.Lease]{w.Waits(m), w.Waits(m)}
		theirs := w.Waits(other)
		require.NoError(t, bare.Delete(l.Check().Path, -1))
		synctest.Wait()
		require.False(t, theirs.Waiting(), "the other session holds")
		err := l.Release()
		synctest.Wait()
		require.True(t, early[0].Waiting(), "nobody holds beside it")
		require.ErrorIs(t, err, zkrecipes.ErrLost)
		require.NoError(t, theirs.Get().Release())
		for _, e := range early {
			next := e.Get()
			w.Stands(next)
			require.NoError(t, next.Release())
		}
	})
}

// The event is for the grant that is just being released. The next one must not miss it.
func TestDeletionHeardOfDuringAReleaseIsNotForgotten(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(w.LoseChildEvents())
		m := zkrecipes.NewMutex(c, w.Path, zkrecipes.KeepFor(time.Hour))
		bare := w.Bare()
		w.Keep(m)
		time.Sleep(3 * time.Second) // it is watched
		l := recipetest.LockOn(t, m)
		early := w.Waits(m)
		s, _ := recipetest.Core(c).Session()
		path := l.Check().Path
		told := func() bool { return recipetest.IsDeleted(s, path) }
		mu := keep.MutexOf(recipetest.KeepOf(m))
		mu.Lock() // the release stops before it makes the next grant
		released := make(chan error, 1)
		go func() { released <- l.Release() }()
		for l.Err() == nil {
			runtime.Gosched()
		}
		require.NoError(t, bare.Delete(path, -1))
		for !told() {
			runtime.Gosched()
		}
		mu.Unlock()
		err := <-released
		next := early.Get()
		w.Stands(next)
		require.ErrorIs(t, err, zkrecipes.ErrLost)
		require.NoError(t, next.Release())
	})
}

// The release that asks whether the place is alone still runs then.
func TestPlaceThatIsDeletedWhileItIsPassedOnIsReplacedOnce(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		m := w.Kept(nil)
		bare := w.Bare()
		l := recipetest.LockOn(t, m)
		time.Sleep(3 * time.Second) // it is watched
		calls := []*harness.Call[*zkrecipes.Lease]{w.Waits(m), w.Waits(m)}
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, For: time.Second, Op: opAlone})
		path := l.Check().Path
		released := harness.GoErr(t, func(context.Context) error { return l.Release() })
		synctest.Wait()
		require.True(t, released.Waiting())
		require.NoError(t, bare.Delete(path, -1))
		synctest.Wait()
		_, _ = released.Wait()
		first := calls[0].Get()
		synctest.Wait()
		w.Stands(first)
		require.Len(t, w.Line(), 1)
		require.True(t, calls[1].Waiting())
		require.NoError(t, first.Release())
		require.NoError(t, calls[1].Get().Release())
	})
}

// A signal gave the place its turn. That says nothing about what comes after the grant.
func TestLockThatASignalGaveIsKeptOverAReconnect(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		m := zkrecipes.NewMutex(c, w.Path, zkrecipes.KeepFor(time.Hour))
		theirs := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
		waiting := w.Waits(m)
		require.NoError(t, theirs.Release())
		require.NoError(t, waiting.Get().Release())
		place := w.Line()
		require.Len(t, place, 1, "kept")
		require.True(t, w.Srv.Disconnect(recipetest.SessionID(c)))
		time.Sleep(time.Second)
		w.Keep(m)
		require.Equal(t, place, w.Line())
	})
}
