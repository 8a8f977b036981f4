package zkrecipes

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// Joins whose reply is lost, or that were never sent.

func TestB01JoinThatNeverArrivedIsSentAgain(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		r.p.on(opJoin, 1, dropBefore)
		l := held(t, r.m.Lock)
		require.Equal(t, 2, r.p.countOf(opJoin))
		require.NoError(t, l.Release())
		r.queued(0)
	})
}

func TestB02SearchForAJoinIsRepeatedUntilItIsAnswered(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		r.p.on(opJoin, 1, dropAfter)
		r.p.on("sync", 1, dropBefore)
		r.p.on("getChildren2", 1, dropAfter)
		r.p.on("getChildren2", 2, dropBefore)
		r.p.on("getData", 1, dropAfter)
		l := held(t, r.m.Lock)
		require.Equal(t, 1, r.p.countOf(opJoin))
		require.Len(t, r.inLine(), 1)
		require.NoError(t, l.Release())
	})
}

func TestB02SearchEndsWithTheSession(t *testing.T) {
	t.Parallel()
	eachSide(t, func(t *testing.T, r *sideRig) {
		old := sessionID(r.c)
		r.p.on(opJoin, 1, dropAfter)
		again := r.p.on("sync", 1, hold)
		a := later(t, r.m.Lock)
		r.p.await(again)
		expire(r.p)
		again.release()
		l := a.granted() // in the next session
		require.NotEqual(t, old, sessionID(r.c))
		require.Len(t, r.inLine(), 1)
		require.NoError(t, l.Release())
	})
}

func TestB04APlaceOfAnotherSessionIsNotAdopted(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		uuid := newUUID()
		r.byHand("_c_" + uuid + "-" + string(r.kind))
		s, _ := r.c.session()
		p, err := lineOf(r.m).recover(s, uuid)
		require.NoError(t, err)
		require.Nil(t, p)
		require.Len(t, r.inLine(), 1, "nor touched")
	})
}

func TestB36AJoinThatMayNotBeSearchedForIsDeletedWhenItIsSeen(t *testing.T) {
	r := newRig(t, nil)
	_, err := r.raw.SetACL(r.path, zk.WorldACL(zk.PermAll&^zk.PermRead), -1)
	require.NoError(t, err)
	rule := r.p.on(opJoin, 1, dropAfter)
	_, err = r.m.Lock(r.ctx)
	require.ErrorIs(t, err, ErrUncertain)
	require.ErrorIs(t, err, zk.ErrNoAuth)
	r.p.off(rule)
	_, err = r.raw.SetACL(r.path, zk.WorldACL(zk.PermAll), -1)
	require.NoError(t, err)
	r.queued(1)
	require.NoError(t, r.m.Do(r.ctx, nothing), "it is in nobody's way")
	r.queued(0)
}
