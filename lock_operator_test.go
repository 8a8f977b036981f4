package zkrecipes

import (
	"crypto"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// What an operator with a super user's rights does to a holder's place.

// A documented limit: ACLs do not bind a super user, so the data that he writes to a
// place look like the holder's farewell. README says to delete a place instead.
func TestB67WhatASuperUserWritesToAPlaceLetsTheNextInBesideTheHolder(t *testing.T) {
	inSuperUsersBubble(t, func(t *testing.T, w *world, super *zk.Conn) {
		l := lockOn(t, NewMutex(w.client(nil), w.path))
		a := w.lockLater(w.stranger(nil))
		require.True(t, a.Waiting())
		_, err := super.Set(l.Check().Path, []byte("go away"), -1)
		require.NoError(t, err)
		next := a.Get()
		w.stands(l)
		w.stands(next)
		require.Greater(t, next.Token(), l.Token(), "a store that checks it refuses the first holder")
		require.NoError(t, next.Release())
		require.NoError(t, l.Release())
	})
}

func TestB67WhatAnybodyElseWritesToAPlaceIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := lockOn(t, NewMutex(w.client(nil), w.path))
		_, err := w.bare().Set(l.Check().Path, []byte("go away"), -1)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		require.NoError(t, l.Release())
	})
}

func TestB67ASuperUserEvictsAHolderByDeletingItsPlace(t *testing.T) {
	inSuperUsersBubble(t, func(t *testing.T, w *world, super *zk.Conn) {
		l := lockOn(t, NewMutex(w.client(nil), w.path))
		a := w.lockLater(w.stranger(nil))
		time.Sleep(2 * time.Second) // the holder's place is watched by now
		require.NoError(t, super.Delete(l.Check().Path, -1))
		next := a.Get()
		synctest.Wait()
		require.ErrorIs(t, l.Err(), ErrLost)
		w.stands(next)
		require.NoError(t, next.Release())
	})
}

// inSuperUsersBubble runs f in a bubble with a bare connection that has all rights.
func inSuperUsersBubble(t *testing.T, f func(t *testing.T, w *world, super *zk.Conn)) {
	credential := []byte("super:secret")
	inBubble(t, func(t *testing.T, w *world) {
		super := w.bare()
		require.NoError(t, super.AddAuth("digest", credential))
		f(t, w, super)
	}, zktest.SuperDigest(zkconn.DigestID(crypto.SHA1, credential)))
}
