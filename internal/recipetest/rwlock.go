package recipetest

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// RWWorld is a world with an RWLock in two sessions.
type RWWorld struct {
	*World
	C, D               *zkrecipes.Client
	OurLock, TheirLock *zkrecipes.RWLock
}

// InRWBubble runs f in a bubble with an RWLock that both sessions have used.
func InRWBubble(t *testing.T, f func(t *testing.T, w *RWWorld), opts ...zktest.Option) {
	InBubble(t, func(t *testing.T, w *World) {
		rw := &RWWorld{World: w, C: w.Stranger(nil), D: w.Stranger(nil)}
		rw.OurLock, rw.TheirLock = zkrecipes.NewRWLock(rw.C, w.Path), zkrecipes.NewRWLock(rw.D, w.Path)
		require.NoError(t, rw.OurLock.Do(t.Context(), Nothing))
		require.NoError(t, rw.TheirLock.Do(t.Context(), Nothing))
		f(t, rw)
	}, opts...)
}

// MustWait calls lock and requires that the call waits.
func (w *RWWorld) MustWait(lock func(context.Context) (*zkrecipes.Lease, error)) *harness.Call[*zkrecipes.Lease] {
	w.T.Helper()
	a := Later(w.T, lock)
	synctest.Wait()
	require.True(w.T, a.Waiting())
	return a
}

// LastReleased releases all leases, and requires that the call is granted only then.
func (w *RWWorld) LastReleased(a *harness.Call[*zkrecipes.Lease], ls ...*zkrecipes.Lease) {
	w.T.Helper()
	for _, l := range ls {
		synctest.Wait()
		require.True(w.T, a.Waiting())
		require.NoError(w.T, l.Release())
	}
	require.NoError(w.T, a.Get().Release())
}

// CuratorPlace creates a place as Curator would, and returns its path.
func (w *RWWorld) CuratorPlace(kind string) string {
	w.T.Helper()
	path, err := w.Bare().Create(w.Path+"/_c_"+CuratorUUID(1)+"-"+kind, nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	require.NoError(w.T, err)
	return path
}
