package zkrecipes_test

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// Operations of Commit and Ack. Which of them are refused is in client_input_test.go.

func TestTheResultsOfACommitAreThoseOfItsOperationsInOrder(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Stranger(&zkrecipes.Options{Prefix: "/app"}), "/line"))
		rs, err := l.Commit(t.Context(),
			zkrecipes.OpCreate("/a", []byte("0"), 0, nil),
			zkrecipes.OpSet("/a", []byte("1"), 0),
			zkrecipes.OpCheck("/a", 1),
			zkrecipes.OpCreate("/a/", nil, zk.FlagEphemeral|zk.FlagSequence, nil),
			zkrecipes.OpDelete("/a/0000000000", -1))
		require.NoError(t, err)
		require.Len(t, rs, 5)
		require.EqualValues(t, 1, rs[1].Stat.Version)
		rs[1].Stat = nil
		require.Equal(t, []zkrecipes.OpResult{{Path: "/a"}, {}, {}, {Path: "/a/0000000000"}, {}}, rs)
		data, _, err := l.Get(t.Context(), "/a")
		require.NoError(t, err)
		require.Equal(t, "1", string(data))
		require.Empty(t, w.Srv.Children("/app/a"))
	})
}

func TestAnOpCanBeUsedAgain(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		a := recipetest.LockOn(t, zkrecipes.NewMutex(w.Stranger(&zkrecipes.Options{Prefix: "/app"}), "/line"))
		b := recipetest.LockOn(t, zkrecipes.NewMutex(w.Stranger(nil), "/line"))
		op := zkrecipes.OpCreate("/x-", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll))
		for range 2 {
			for _, l := range []*zkrecipes.Lease{a, b} {
				_, err := l.Commit(t.Context(), op)
				require.NoError(t, err)
			}
		}
		require.Len(t, w.Srv.Children("/app"), 3, "the line and two")
		require.Len(t, w.Srv.Children("/"), 5, "the line, the prefix, zookeeper and two")
	})
}

func TestTheZeroOpIsAnErrorAndNothingIsSent(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Stranger(nil), "/line"))
		require.Empty(t, w.Requests(func() {
			_, err := l.Commit(t.Context(), zkrecipes.OpCreate("/x", nil, 0, nil), zkrecipes.Op{})
			require.ErrorContains(t, err, "operation 1: the zero Op")
		}))
		require.NoError(t, l.Err())
	})
}
