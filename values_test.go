package zkrecipes_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// tells requires that a recipe, and what it grants, tell that path.
func tells[H interface{ Path() string }](t *testing.T, path string, recipe interface{ Path() string }, take func(context.Context) (H, error)) {
	t.Helper()
	held, err := take(t.Context())
	require.NoError(t, err)
	require.Equal(t, path, recipe.Path())
	require.Equal(t, path, held.Path())
}

func TestEveryRecipeAndEveryHoldingTellsItsPath(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(&zkrecipes.Options{Prefix: "/prefix"})
		m := zkrecipes.NewMutex(c, "/some/mutex", zkrecipes.KeepFor(1))
		tells(t, "/some/mutex", m, m.Lock)
		rw := zkrecipes.NewRWLock(c, "/some/rwlock")
		tells(t, "/some/rwlock", rw, rw.RLock)
		x := zkrecipes.NewSemaphore(c, "/some/semaphore", 1)
		tells(t, "/some/semaphore", x, x.Acquire)
		e := zkrecipes.NewElection(c, "/some/election")
		tells(t, "/some/election", e, func(ctx context.Context) (*zkrecipes.Term, error) { return e.Campaign(ctx, nil) })
		q := zkrecipes.NewQueue(c, "/some/queue", nil)
		recipetest.PutOn(t, q, "item")
		tells(t, "/some/queue", q, q.Take)
		d := zkrecipes.NewDoubleBarrier(c, "/some/double", 1)
		tells(t, "/some/double", d, d.Enter)
		require.Equal(t, "/b", zkrecipes.NewBarrier(c, "/b", 2).Path())
		require.Equal(t, "/g", zkrecipes.NewGate(c, "/g").Path())
		require.Equal(t, "no path", zkrecipes.NewQueue(c, "no path", nil).Path(), "it sends nothing, and reports nothing")
		require.Equal(t, "/q-dead", zkrecipes.NewQueue(c, "/q", nil).DeadLetters().Path())

		a, b := zkrecipes.NewMutex(c, "/z"), zkrecipes.NewMutex(c, "/y")
		held, err := zkrecipes.LockAll(t.Context(), a, b)
		require.NoError(t, err)
		require.Equal(t, "/z", held.All()[0].Path())
		require.Equal(t, "/y", held.All()[1].Path())
	})
	for _, none := range []interface{ Path() string }{
		(*zkrecipes.Mutex)(nil), new(zkrecipes.Mutex), (*zkrecipes.RWLock)(nil), new(zkrecipes.RWLock), (*zkrecipes.Gate)(nil), new(zkrecipes.Gate), (*zkrecipes.Barrier)(nil), new(zkrecipes.Barrier),
		(*zkrecipes.DoubleBarrier)(nil), new(zkrecipes.DoubleBarrier), (*zkrecipes.Queue)(nil), new(zkrecipes.Queue), (*zkrecipes.Semaphore)(nil), new(zkrecipes.Semaphore),
		(*zkrecipes.Election)(nil), new(zkrecipes.Election),
	} {
		require.Empty(t, none.Path())
	}
}

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
		require.Equal(t, "1", w.Text("/app/a"))
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
				require.NoError(t, first(l.Commit(t.Context(), op)))
			}
		}
		require.Len(t, w.Srv.Children("/app"), 3, "the line and two")
		require.Len(t, w.Srv.Children("/"), 5, "the line, the prefix, zookeeper and two")
	})
}

// Users test their handlers with values that they have made. A value that this library has
// not returned holds nothing, and must say so.
func TestZeroValuesHoldNothingAndSaySo(t *testing.T) {
	ctx := t.Context()
	says := func(err error) {
		t.Helper()
		require.ErrorIs(t, err, zkrecipes.ErrZeroValue)
		for _, other := range []error{zkrecipes.ErrLost, zkrecipes.ErrReleased, zkrecipes.ErrClosed} {
			require.NotErrorIs(t, err, other)
		}
	}
	for _, zero := range []interface {
		Err() error
		Context(context.Context) context.Context
	}{
		(*zkrecipes.Lease)(nil), new(zkrecipes.Lease), (*zkrecipes.Term)(nil), new(zkrecipes.Term), (*zkrecipes.SlotLease)(nil), new(zkrecipes.SlotLease),
		(*zkrecipes.Shard)(nil), new(zkrecipes.Shard), (*zkrecipes.Item)(nil), &zkrecipes.Item{Data: []byte("x")},
		(*zkrecipes.Visit)(nil), new(zkrecipes.Visit), (*zkrecipes.Leases)(nil), new(zkrecipes.Leases),
	} {
		says(zero.Err())
		says(context.Cause(zero.Context(ctx)))
		if l, ok := zero.(interface{ Release() error }); ok {
			says(l.Release())
		}
		if l, ok := zero.(interface {
			Get(context.Context, string) ([]byte, *zk.Stat, error)
			Children(context.Context, string) ([]string, *zk.Stat, error)
			Commit(context.Context, ...zkrecipes.Op) ([]zkrecipes.OpResult, error)
		}); ok {
			says(second(l.Get(ctx, "/x")))
			says(second(l.Children(ctx, "/x")))
			says(first(l.Commit(ctx)))
		}
		if l, ok := zero.(interface{ Path() string }); ok {
			require.Empty(t, l.Path())
		}
		if l, ok := zero.(interface{ Token() zkrecipes.Token }); ok {
			require.Zero(t, l.Token())
		}
		if l, ok := zero.(interface{ ValidUntil() time.Time }); ok {
			require.Zero(t, l.ValidUntil())
		}
	}
	for _, term := range []*zkrecipes.Term{nil, {}} {
		says(term.Resign())
		says(term.Proclaim(ctx, nil))
	}
	for _, it := range []*zkrecipes.Item{nil, {}} {
		says(it.Ack(ctx))
		says(it.Nack(ctx))
		says(first(it.AckPut(ctx, nil, nil)))
	}
	says(new(zkrecipes.Lease).Downgrade(ctx))
	says(new(zkrecipes.Visit).Leave(ctx))
	for _, checks := range [][]*zk.CheckVersionRequest{
		{new(zkrecipes.Lease).Check()}, {new(zkrecipes.Shard).Check()}, new(zkrecipes.Term).Checks(), new(zkrecipes.SlotLease).Checks(),
	} {
		require.Equal(t, []*zk.CheckVersionRequest{{Version: -1}}, checks, "a guard without a path, which the servers refuse")
	}
	require.Equal(t, ctx, new(zkrecipes.Lease).Reentrant(ctx))
	require.Equal(t, -1, new(zkrecipes.SlotLease).Slot())
	require.Empty(t, new(zkrecipes.SlotLease).Slots())
	require.Empty(t, new(zkrecipes.Leases).All())
	require.Empty(t, (*zkrecipes.Leases)(nil).All())
}

func first[A any](_ A, err error) error          { return err }
func second[A, B any](_ A, _ B, err error) error { return err }
