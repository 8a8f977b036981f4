package line_test

import (
	"crypto"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// What an operator with a super user's rights does to a holder's place.

// A documented limit: ACLs do not bind a super user, so the data that he writes to a
// place look like the holder's farewell. README says to delete a place instead.
func TestB67WhatASuperUserWritesToAPlaceLetsTheNextInBesideTheHolder(t *testing.T) {
	inSuperUsersBubble(t, func(t *testing.T, w *recipetest.World, super *zk.Conn) {
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
		a := w.LockLater(w.Stranger(nil))
		require.True(t, a.Waiting())
		_, err := super.Set(l.Check().Path, []byte("go away"), -1)
		require.NoError(t, err)
		next := a.Get()
		w.Stands(l)
		w.Stands(next)
		require.Greater(t, next.Token(), l.Token(), "a store that checks it refuses the first holder")
		require.NoError(t, next.Release())
		require.NoError(t, l.Release())
	})
}

func TestB67WhatAnybodyElseWritesToAPlaceIsRefused(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
		_, err := w.Bare().Set(l.Check().Path, []byte("go away"), -1)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		require.NoError(t, l.Release())
	})
}

func TestB67ASuperUserEvictsAHolderByDeletingItsPlace(t *testing.T) {
	inSuperUsersBubble(t, func(t *testing.T, w *recipetest.World, super *zk.Conn) {
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
		a := w.LockLater(w.Stranger(nil))
		time.Sleep(2 * time.Second) // the holder's place is watched by now
		require.NoError(t, super.Delete(l.Check().Path, -1))
		next := a.Get()
		synctest.Wait()
		require.ErrorIs(t, l.Err(), zkrecipes.ErrLost)
		w.Stands(next)
		require.NoError(t, next.Release())
	})
}

// inSuperUsersBubble runs f in a bubble with a bare connection that has all rights.
func inSuperUsersBubble(t *testing.T, f func(t *testing.T, w *recipetest.World, super *zk.Conn)) {
	credential := []byte("super:secret")
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		super := w.Bare()
		require.NoError(t, super.AddAuth("digest", credential))
		f(t, w, super)
	}, zktest.SuperDigest(zkconn.DigestID(crypto.SHA1, credential)))
}
