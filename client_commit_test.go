package zkrecipes_test

import (
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// What the documentation of Client.Commit and Op.WithParents promises.

func TestACommitWithoutALockIsOneTransaction(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(&zkrecipes.Options{Prefix: "/app"})
		rs, err := c.Commit(t.Context(),
			zkrecipes.OpCreate("/config/db/host", []byte("a"), 0, nil).WithParents(),
			zkrecipes.OpCreate("/config/db/n-", nil, zk.FlagSequence, nil),
			zkrecipes.OpSet("/config/db/host", []byte("b"), 0))
		require.NoError(t, err)
		require.Equal(t, "/config/db/host", rs[0].Path)
		require.Equal(t, "/config/db/n-0000000001", rs[1].Path)
		require.EqualValues(t, 1, rs[2].Stat.Version)
		rs, err = w.Stranger(&zkrecipes.Options{Prefix: "/alone"}).Commit(t.Context(), zkrecipes.OpCreate("/", nil, 0, nil))
		require.NoError(t, err)
		require.Equal(t, "/", rs[0].Path, "the prefix itself")

		// What one operation is refused for, none does, and the error names it.
		_, err = c.Commit(t.Context(), zkrecipes.OpDelete("/config/db/host", 1), zkrecipes.OpSet("/config/db/none", nil, -1))
		require.ErrorIs(t, err, zk.ErrNoNode)
		require.EqualError(t, err, "zkrecipes: commit on "+w.Srv.Addr()+": operation 1: zk: node does not exist")
		require.Equal(t, "b", w.Text("/app/config/db/host"))

		require.EqualError(t, first(c.Commit(t.Context())), "zkrecipes: commit on "+w.Srv.Addr()+": no operations")
		require.ErrorIs(t, first(c.Commit(t.Context(), zkrecipes.OpCreate("/a/b", nil, 0, nil))), zk.ErrNoNode, "parents are not made unless one asks")
		require.ErrorIs(t, first(c.Commit(t.Context(), zkrecipes.OpCreate("//", nil, 0, nil))), zkrecipes.ErrInvalidPath)

		l := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
		_, err = l.Commit(t.Context(), zkrecipes.OpCreate("/c/d", nil, 0, nil).WithParents())
		require.EqualError(t, err, "zkrecipes: commit under /line: operation 0: only Client.Commit creates parents")
	})
}

func TestParentsThatExistCostOneRequest(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		host := zkrecipes.OpCreate("/a/b/c", nil, 0, nil).WithParents()
		requests := w.Requests(func() { require.NoError(t, first(c.Commit(t.Context(), host))) })
		require.Equal(t, map[string]int{"exists": 2, "create2": 3}, requests)
		requests = w.Requests(func() { require.ErrorIs(t, first(c.Commit(t.Context(), host)), zk.ErrNodeExists) })
		require.Equal(t, map[string]int{"exists": 1, "create2": 1}, requests)
	})
}

func TestAZnodeRightBelowTheRootHasNoParentsToCreate(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		for _, op := range []zkrecipes.Op{zkrecipes.OpCreate("/a", nil, 0, nil), zkrecipes.OpCreate("/", nil, zk.FlagSequence, nil)} {
			requests := w.Requests(func() { require.NoError(t, first(c.Commit(t.Context(), op.WithParents()))) })
			require.Equal(t, map[string]int{"create2": 1}, requests)
		}
	})
}

func TestAParentThatAnOperationBeforeCreatesIsNotCreatedAhead(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		_, err := c.Commit(t.Context(),
			zkrecipes.OpCreate("/a/b", []byte("1"), 0, nil).WithParents(),
			zkrecipes.OpCreate("/a/b/c", nil, 0, nil).WithParents(),
			zkrecipes.OpCreate("/a/b/c/", nil, zk.FlagSequence, nil).WithParents())
		require.NoError(t, err)
		require.Equal(t, "1", w.Text("/a/b"))
		require.Len(t, w.Srv.Children("/a/b/c"), 1)
	})
}

func TestACommitWaitsWhileTheServersRefuseItsParentsForNow(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		w.Plan.Add(zktest.Fault{Do: zktest.Answer, Code: jute.ErrThrottled, Op: "create2", Path: "/a", Times: 30})
		require.NoError(t, first(c.Commit(t.Context(), zkrecipes.OpCreate("/a/b", nil, 0, nil).WithParents())))
	})
}

// Whatever happens at whichever request: a nil error says that all was carried out, once,
// ErrUncertain that it was once or not at all, and any other error that it was not.
func TestACommitWithoutALockSurvivesAMishapAtAnyRequest(t *testing.T) {
	recipetest.EachRequest(t, recipetest.Mishaps, func(t *testing.T, fault zktest.Fault) (met bool) {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			c := w.Stranger(nil)
			w.Plan.Add(fault)
			_, err := c.Commit(t.Context(), zkrecipes.OpCreate("/a/b/x-", nil, zk.FlagSequence, nil).WithParents())
			time.Sleep(time.Minute)
			names, _, listed := c.Children(t.Context(), "/a/b")
			switch {
			case err == nil:
				require.NoError(t, listed)
				require.Len(t, names, 1)
			case errors.Is(err, zkrecipes.ErrUncertain):
				require.LessOrEqual(t, len(names), 1)
			default:
				require.Empty(t, names, "%v", err)
			}
			met = w.Met()
		})
		return met
	})
}

func TestACommitWaitsForTheNextSessionButIsSentOnce(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		w.Away(c)
		time.AfterFunc(time.Minute, w.Back)
		rs, err := c.Commit(t.Context(), zkrecipes.OpCreate("/x", []byte("1"), 0, nil))
		require.NoError(t, err)
		require.Equal(t, "/x", rs[0].Path)
		require.NoError(t, c.Close())
		require.ErrorIs(t, first(c.Commit(t.Context(), zkrecipes.OpDelete("/x", -1))), zkrecipes.ErrClosed)
	})
}

func TestParentsThatTheTransactionCreatesAreAnErrorBeforeAnythingIsDone(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		_, err := w.Client(nil).Commit(t.Context(), zkrecipes.OpCreate("/g", nil, 0, nil), zkrecipes.OpCreate("/g/b/c", nil, 0, nil).WithParents())
		require.ErrorContains(t, err, "operation 1: parents are created before the transaction, and one before it creates /g")
		require.False(t, w.Has("/g"))
	})
}

func TestACreateAloneReturnsNoStatLikeOneOfSeveral(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		rs, err := w.Client(nil).Commit(t.Context(), zkrecipes.OpCreate("/a", nil, 0, nil))
		require.NoError(t, err)
		require.Equal(t, []zkrecipes.OpResult{{Path: "/a"}}, rs)
	})
}
