package zkrecipes_test

import (
	"context"
	"testing"

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
	for name, err := range map[string]error{
		"Lease.Err":             new(zkrecipes.Lease).Err(),
		"Lease.Release":         new(zkrecipes.Lease).Release(),
		"Lease.Get":             second(new(zkrecipes.Lease).Get(ctx, "/x")),
		"Lease.Children":        second(new(zkrecipes.Lease).Children(ctx, "/x")),
		"Lease.Commit":          first(new(zkrecipes.Lease).Commit(ctx)),
		"Term.Err":              new(zkrecipes.Term).Err(),
		"Term.Resign":           new(zkrecipes.Term).Resign(),
		"Term.Proclaim":         new(zkrecipes.Term).Proclaim(ctx, nil),
		"Term.Commit":           first(new(zkrecipes.Term).Commit(ctx)),
		"SlotLease.Err":         new(zkrecipes.SlotLease).Err(),
		"SlotLease.Release":     new(zkrecipes.SlotLease).Release(),
		"SlotLease.Commit":      first(new(zkrecipes.SlotLease).Commit(ctx)),
		"Shard.Err":             new(zkrecipes.Shard).Err(),
		"Shard.Get":             second(new(zkrecipes.Shard).Get(ctx, "/x")),
		"Shard.Commit":          first(new(zkrecipes.Shard).Commit(ctx)),
		"nil Shard.Children":    second((*zkrecipes.Shard)(nil).Children(ctx, "/x")),
		"Item.Err":              (&zkrecipes.Item{Data: []byte("x")}).Err(),
		"Item.Ack":              (&zkrecipes.Item{Data: []byte("x")}).Ack(ctx),
		"Item.Nack":             new(zkrecipes.Item).Nack(ctx),
		"Item.AckPut":           first(new(zkrecipes.Item).AckPut(ctx, nil, nil)),
		"Visit.Err":             new(zkrecipes.Visit).Err(),
		"Visit.Leave":           new(zkrecipes.Visit).Leave(ctx),
		"Leases.Err":            new(zkrecipes.Leases).Err(),
		"Leases.Release":        new(zkrecipes.Leases).Release(),
		"nil Lease.Err":         (*zkrecipes.Lease)(nil).Err(),
		"nil Term.Err":          (*zkrecipes.Term)(nil).Err(),
		"nil Term.Resign":       (*zkrecipes.Term)(nil).Resign(),
		"nil SlotLease.Err":     (*zkrecipes.SlotLease)(nil).Err(),
		"nil SlotLease.Release": (*zkrecipes.SlotLease)(nil).Release(),
		"Term.Get":              second(new(zkrecipes.Term).Get(ctx, "/x")),
		"SlotLease.Children":    second(new(zkrecipes.SlotLease).Children(ctx, "/x")),
		"nil Lease.Release":     (*zkrecipes.Lease)(nil).Release(),
		"nil Item.Err":          (*zkrecipes.Item)(nil).Err(),
		"nil Item.Ack":          (*zkrecipes.Item)(nil).Ack(ctx),
		"nil Visit.Err":         (*zkrecipes.Visit)(nil).Err(),
		"nil Leases.Err":        (*zkrecipes.Leases)(nil).Err(),
		"nil Leases.Release":    (*zkrecipes.Leases)(nil).Release(),
		"Lease.Context":         cause(new(zkrecipes.Lease).Context(ctx)),
		"Term.Context":          cause(new(zkrecipes.Term).Context(ctx)),
		"SlotLease.Context":     cause(new(zkrecipes.SlotLease).Context(ctx)),
		"Shard.Context":         cause(new(zkrecipes.Shard).Context(ctx)),
		"Item.Context":          cause(new(zkrecipes.Item).Context(ctx)),
		"Visit.Context":         cause(new(zkrecipes.Visit).Context(ctx)),
		"Leases.Context":        cause(new(zkrecipes.Leases).Context(ctx)),
		"Lease.Downgrade":       new(zkrecipes.Lease).Downgrade(ctx),
		"RWLock.Downgrade":      zkrecipes.NewRWLock(&zkrecipes.Client{}, "/x").Downgrade(ctx, new(zkrecipes.Lease)),
	} {
		require.Error(t, err, name)
		if name != "Visit.Leave" && name != "RWLock.Downgrade" {
			require.ErrorIs(t, err, zkrecipes.ErrZeroValue, name)
		}
		for _, other := range []error{zkrecipes.ErrLost, zkrecipes.ErrReleased, zkrecipes.ErrClosed} {
			require.NotErrorIs(t, err, other, name)
		}
	}
	require.Zero(t, new(zkrecipes.Lease).Path()+new(zkrecipes.Item).Path()+new(zkrecipes.Visit).Path())
	require.Zero(t, new(zkrecipes.Lease).Token())
	require.Zero(t, new(zkrecipes.Term).Token())
	require.Zero(t, new(zkrecipes.Item).Token())
	require.Zero(t, new(zkrecipes.Lease).ValidUntil())
	require.Zero(t, new(zkrecipes.Item).ValidUntil())
	require.Empty(t, new(zkrecipes.Lease).Check().Path, "which no server finds")
	require.Equal(t, ctx, new(zkrecipes.Lease).Reentrant(ctx))
	require.Equal(t, -1, new(zkrecipes.SlotLease).Slot())
	require.Empty(t, new(zkrecipes.SlotLease).Slots())
	require.Empty(t, new(zkrecipes.Leases).All())
	require.Empty(t, (*zkrecipes.Leases)(nil).All())
}

func first[A any](_ A, err error) error          { return err }
func second[A, B any](_ A, _ B, err error) error { return err }

// cause returns why ctx has ended, nil if it has not.
func cause(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}
