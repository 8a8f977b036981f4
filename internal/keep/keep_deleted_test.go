package keep_test

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/keep"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
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
		told := func() bool { return recipetest.IsDeleted(recipetest.Grants(s)[path]) }
		k := keep.KeptBy(recipetest.Core(c)).Locks[recipetest.LineOf(m).Key()]
		k.Mu.Lock() // the release stops before it makes the next grant
		released := make(chan error, 1)
		go func() { released <- l.Release() }()
		for l.Err() == nil {
			runtime.Gosched()
		}
		require.NoError(t, bare.Delete(path, -1))
		for !told() {
			runtime.Gosched()
		}
		k.Mu.Unlock()
		err := <-released
		next := early.Get()
		w.Stands(next)
		require.ErrorIs(t, err, zkrecipes.ErrLost)
		require.NoError(t, next.Release())
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
