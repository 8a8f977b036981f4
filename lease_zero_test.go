package zkrecipes_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
)

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

func TestCloseOfAClientThatWasNeverDialedReturnsNil(t *testing.T) {
	require.NoError(t, (*zkrecipes.Client)(nil).Close())
	require.NoError(t, new(zkrecipes.Client).Close())
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
