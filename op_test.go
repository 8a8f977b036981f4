package zkrecipes

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// Operations of Commit and Ack. Which of them are refused is in client_input_test.go.

func TestTheResultsOfACommitAreThoseOfItsOperationsInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := lockOn(t, NewMutex(w.stranger(&Options{Prefix: "/app"}), "/line"))
		rs, err := l.Commit(t.Context(),
			OpCreate("/a", []byte("0"), 0, nil),
			OpSet("/a", []byte("1"), 0),
			OpCheck("/a", 1),
			OpCreate("/a/", nil, zk.FlagEphemeral|zk.FlagSequence, nil),
			OpDelete("/a/0000000000", -1))
		require.NoError(t, err)
		require.Len(t, rs, 5)
		require.EqualValues(t, 1, rs[1].Stat.Version)
		rs[1].Stat = nil
		require.Equal(t, []OpResult{{Path: "/a"}, {}, {}, {Path: "/a/0000000000"}, {}}, rs)
		data, _, err := l.Get(t.Context(), "/a")
		require.NoError(t, err)
		require.Equal(t, "1", string(data))
		require.Empty(t, w.srv.Children("/app/a"))
	})
}

func TestAnOpCanBeUsedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a := lockOn(t, NewMutex(w.stranger(&Options{Prefix: "/app"}), "/line"))
		b := lockOn(t, NewMutex(w.stranger(nil), "/line"))
		op := OpCreate("/x-", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll))
		for range 2 {
			for _, l := range []*Lease{a, b} {
				_, err := l.Commit(t.Context(), op)
				require.NoError(t, err)
			}
		}
		require.Len(t, w.srv.Children("/app"), 3, "the line and two")
		require.Len(t, w.srv.Children("/"), 5, "the line, the prefix, zookeeper and two")
	})
}

func TestTheZeroOpIsAnErrorAndNothingIsSent(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := lockOn(t, NewMutex(w.stranger(nil), "/line"))
		require.Empty(t, w.requests(func() {
			_, err := l.Commit(t.Context(), OpCreate("/x", nil, 0, nil), Op{})
			require.ErrorContains(t, err, "operation 1: the zero Op")
		}))
		require.NoError(t, l.Err())
	})
}
