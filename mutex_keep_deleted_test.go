package zkrecipes

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/keep"
)

// Places of kept locks that somebody deletes.

// The event of the line says that something has changed. It may be the deletion of the
// own place, which is not watched yet.
func TestCallersThatCameEarlyAreNotServedOnAPlaceThatWasDeleted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		m, other := NewMutex(w.client(nil), w.path, KeepFor(time.Hour)), NewMutex(w.client(nil), w.path)
		bare := w.bare()
		w.keep(m)
		l := lockOn(t, m)
		early := []*harness.Call[*Lease]{w.waits(m), w.waits(m)}
		theirs := w.waits(other)
		require.NoError(t, bare.Delete(l.Check().Path, -1))
		synctest.Wait()
		require.False(t, theirs.Waiting(), "the other session holds")
		err := l.Release()
		synctest.Wait()
		require.True(t, early[0].Waiting(), "nobody holds beside it")
		require.ErrorIs(t, err, ErrLost)
		require.NoError(t, theirs.Get().Release())
		for _, e := range early {
			next := e.Get()
			w.stands(next)
			require.NoError(t, next.Release())
		}
	})
}

// The event is for the grant that is just being released. The next one must not miss it.
func TestDeletionHeardOfDuringAReleaseIsNotForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(w.loseChildEvents())
		m := NewMutex(c, w.path, KeepFor(time.Hour))
		bare := w.bare()
		w.keep(m)
		time.Sleep(3 * time.Second) // it is watched
		l := lockOn(t, m)
		early := w.waits(m)
		s, _ := c.client.Session()
		path := l.Check().Path
		told := func() bool {
			s.Mu.Lock()
			defer s.Mu.Unlock()
			return s.Grants[path].Deleted
		}
		k := keep.KeptBy(c.client).Locks[m.line.Key()]
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
		w.stands(next)
		require.ErrorIs(t, err, ErrLost)
		require.NoError(t, next.Release())
	})
}

// A signal gave the place its turn. That says nothing about what comes after the grant.
func TestLockThatASignalGaveIsKeptOverAReconnect(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		m := NewMutex(c, w.path, KeepFor(time.Hour))
		theirs := lockOn(t, NewMutex(w.client(nil), w.path))
		waiting := w.waits(m)
		require.NoError(t, theirs.Release())
		require.NoError(t, waiting.Get().Release())
		place := w.line()
		require.Len(t, place, 1, "kept")
		require.True(t, w.srv.Disconnect(sessionID(c)))
		time.Sleep(time.Second)
		w.keep(m)
		require.Equal(t, place, w.line())
	})
}
