package zkrecipes

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// Users test their handlers with values that they have made. A value that this library has
// not returned holds nothing, and must say so.
func TestZeroValuesHoldNothingAndSaySo(t *testing.T) {
	ctx := t.Context()
	for name, err := range map[string]error{
		"Lease.Err":             new(Lease).Err(),
		"Lease.Release":         new(Lease).Release(),
		"Lease.Get":             second(new(Lease).Get(ctx, "/x")),
		"Lease.Children":        second(new(Lease).Children(ctx, "/x")),
		"Lease.Commit":          first(new(Lease).Commit(ctx)),
		"Term.Err":              new(Term).Err(),
		"Term.Resign":           new(Term).Resign(),
		"Term.Proclaim":         new(Term).Proclaim(ctx, nil),
		"Term.Commit":           first(new(Term).Commit(ctx)),
		"SlotLease.Err":         new(SlotLease).Err(),
		"SlotLease.Release":     new(SlotLease).Release(),
		"SlotLease.Commit":      first(new(SlotLease).Commit(ctx)),
		"Item.Err":              (&Item{Data: []byte("x")}).Err(),
		"Item.Ack":              (&Item{Data: []byte("x")}).Ack(ctx),
		"Item.Nack":             new(Item).Nack(ctx),
		"Item.AckPut":           first(new(Item).AckPut(ctx, nil, nil)),
		"Visit.Err":             new(Visit).Err(),
		"Visit.Leave":           new(Visit).Leave(ctx),
		"Leases.Err":            new(Leases).Err(),
		"Leases.Release":        new(Leases).Release(),
		"nil Lease.Err":         (*Lease)(nil).Err(),
		"nil Term.Err":          (*Term)(nil).Err(),
		"nil Term.Resign":       (*Term)(nil).Resign(),
		"nil SlotLease.Err":     (*SlotLease)(nil).Err(),
		"nil SlotLease.Release": (*SlotLease)(nil).Release(),
		"Term.Get":              second(new(Term).Get(ctx, "/x")),
		"SlotLease.Children":    second(new(SlotLease).Children(ctx, "/x")),
		"nil Lease.Release":     (*Lease)(nil).Release(),
		"nil Item.Err":          (*Item)(nil).Err(),
		"nil Item.Ack":          (*Item)(nil).Ack(ctx),
		"nil Visit.Err":         (*Visit)(nil).Err(),
		"nil Leases.Err":        (*Leases)(nil).Err(),
		"nil Leases.Release":    (*Leases)(nil).Release(),
		"Lease.Context":         cause(new(Lease).Context(ctx)),
		"Term.Context":          cause(new(Term).Context(ctx)),
		"SlotLease.Context":     cause(new(SlotLease).Context(ctx)),
		"Item.Context":          cause(new(Item).Context(ctx)),
		"Visit.Context":         cause(new(Visit).Context(ctx)),
		"Leases.Context":        cause(new(Leases).Context(ctx)),
		"Lease.Downgrade":       new(Lease).Downgrade(ctx),
		"RWLock.Downgrade":      NewRWLock(&Client{}, "/x").Downgrade(ctx, new(Lease)),
	} {
		require.Error(t, err, name)
		if name != "Visit.Leave" && name != "RWLock.Downgrade" {
			require.ErrorIs(t, err, ErrZeroValue, name)
		}
		for _, other := range []error{ErrLost, ErrReleased, ErrClosed} {
			require.NotErrorIs(t, err, other, name)
		}
	}
	require.Zero(t, new(Lease).Path()+new(Item).Path()+new(Visit).Path())
	require.Zero(t, new(Lease).Token())
	require.Zero(t, new(Term).Token())
	require.Zero(t, new(Item).Token())
	require.Zero(t, new(Lease).ValidUntil())
	require.Zero(t, new(Item).ValidUntil())
	require.Empty(t, new(Lease).Check().Path, "which no server finds")
	require.Equal(t, ctx, new(Lease).Reentrant(ctx))
	require.Equal(t, -1, new(SlotLease).Slot())
	require.Empty(t, new(SlotLease).Slots())
	require.Empty(t, new(Leases).All())
	require.Empty(t, (*Leases)(nil).All())
}

func TestCloseOfAClientThatWasNeverDialedReturnsNil(t *testing.T) {
	require.NoError(t, (*Client)(nil).Close())
	require.NoError(t, new(Client).Close())
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
