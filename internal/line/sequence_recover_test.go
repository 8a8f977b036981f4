package line_test

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/placename"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// Joins whose reply is lost, or that never arrived.

func TestB02SearchForAJoinIsRepeatedUntilItIsAnswered(t *testing.T) {
	recipetest.EachSide(t, func(t *testing.T, r *recipetest.SideRig) {
		r.P.On(recipetest.OpJoin, 1, harness.DropAfter)
		r.P.On("sync", 1, harness.DropBefore)
		r.P.On("getChildren2", 1, harness.DropAfter)
		r.P.On("getChildren2", 2, harness.DropBefore)
		r.P.On("getData", 1, harness.DropAfter)
		l := recipetest.Held(t, r.M.Lock)
		require.Equal(t, 1, r.P.CountOf(recipetest.OpJoin))
		require.Len(t, r.InLine(), 1)
		require.NoError(t, l.Release())
	})
}

func TestB02SearchEndsWithTheSession(t *testing.T) {
	t.Parallel()
	recipetest.EachSide(t, func(t *testing.T, r *recipetest.SideRig) {
		old := recipetest.SessionID(r.C)
		r.P.On(recipetest.OpJoin, 1, harness.DropAfter)
		again := r.P.On("sync", 1, harness.Hold)
		a := recipetest.Later(t, r.M.Lock)
		r.P.Await(again)
		r.P.Expire()
		again.Release()
		l := a.Get() // in the next session
		require.NotEqual(t, old, recipetest.SessionID(r.C))
		require.Len(t, r.InLine(), 1)
		require.NoError(t, l.Release())
	})
}

func TestB04APlaceOfAnotherSessionIsNotAdopted(t *testing.T) {
	recipetest.EachSide(t, func(t *testing.T, r *recipetest.SideRig) {
		uuid := placename.NewUUID(true)
		r.ByHand("_c_" + uuid + "-" + string(r.Kind))
		s, _ := recipetest.Core(r.C).Session()
		p, err := recipetest.LineOf(r.M).FindLostJoin(s, line.EntryOf(uuid))
		require.NoError(t, err)
		require.Nil(t, p)
		require.Len(t, r.InLine(), 1, "the place is not deleted either")
	})
}

func TestB36LostJoinThatCannotBeSearchedForIsDeletedLater(t *testing.T) {
	r := recipetest.NewRig(t, nil)
	_, err := r.Raw.SetACL(r.Path, zk.WorldACL(zk.PermAll&^zk.PermRead), -1)
	require.NoError(t, err)
	rule := r.P.On(recipetest.OpJoin, 1, harness.DropAfter)
	_, err = r.M.Lock(r.Ctx)
	require.ErrorIs(t, err, zkrecipes.ErrUncertain)
	require.ErrorIs(t, err, zk.ErrNoAuth)
	r.P.Off(rule)
	_, err = r.Raw.SetACL(r.Path, zk.WorldACL(zk.PermAll), -1)
	require.NoError(t, err)
	r.Queued(1)
	require.NoError(t, r.M.Do(r.Ctx, recipetest.Nothing), "the lost place blocks nobody")
	r.Queued(0)
}
