package zkrecipes

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
)

// Joins whose reply is lost, or that never arrived.

func TestB01JoinThatNeverArrivedIsSentAgain(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		r.p.On(opJoin, 1, harness.DropBefore)
		l := held(t, r.m.Lock)
		require.Equal(t, 2, r.p.CountOf(opJoin))
		require.NoError(t, l.Release())
		r.queued(0)
	})
}

func TestB02SearchForAJoinIsRepeatedUntilItIsAnswered(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		r.p.On(opJoin, 1, harness.DropAfter)
		r.p.On("sync", 1, harness.DropBefore)
		r.p.On("getChildren2", 1, harness.DropAfter)
		r.p.On("getChildren2", 2, harness.DropBefore)
		r.p.On("getData", 1, harness.DropAfter)
		l := held(t, r.m.Lock)
		require.Equal(t, 1, r.p.CountOf(opJoin))
		require.Len(t, r.inLine(), 1)
		require.NoError(t, l.Release())
	})
}

func TestB02SearchEndsWithTheSession(t *testing.T) {
	t.Parallel()
	eachSide(t, func(t *testing.T, r *sideRig) {
		old := sessionID(r.c)
		r.p.On(opJoin, 1, harness.DropAfter)
		again := r.p.On("sync", 1, harness.Hold)
		a := later(t, r.m.Lock)
		r.p.Await(again)
		r.p.Expire()
		again.Release()
		l := a.Get() // in the next session
		require.NotEqual(t, old, sessionID(r.c))
		require.Len(t, r.inLine(), 1)
		require.NoError(t, l.Release())
	})
}

func TestB04APlaceOfAnotherSessionIsNotAdopted(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		uuid := line.NewUUID(true)
		r.byHand("_c_" + uuid + "-" + string(r.kind))
		s, _ := r.c.client.Session()
		p, err := lineOf(r.m).FindLostJoin(s, &line.Entry{UUID: uuid})
		require.NoError(t, err)
		require.Nil(t, p)
		require.Len(t, r.inLine(), 1, "the place is not deleted either")
	})
}

func TestB36LostJoinThatCannotBeSearchedForIsDeletedLater(t *testing.T) {
	r := newRig(t, nil)
	_, err := r.raw.SetACL(r.path, zk.WorldACL(zk.PermAll&^zk.PermRead), -1)
	require.NoError(t, err)
	rule := r.p.On(opJoin, 1, harness.DropAfter)
	_, err = r.m.Lock(r.ctx)
	require.ErrorIs(t, err, ErrUncertain)
	require.ErrorIs(t, err, zk.ErrNoAuth)
	r.p.Off(rule)
	_, err = r.raw.SetACL(r.path, zk.WorldACL(zk.PermAll), -1)
	require.NoError(t, err)
	r.queued(1)
	require.NoError(t, r.m.Do(r.ctx, nothing), "the lost place blocks nobody")
	r.queued(0)
}
