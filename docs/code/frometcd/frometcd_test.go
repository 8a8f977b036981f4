package frometcd

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/docs/code/internal/codetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestCodeOfTheDocumentWorks(t *testing.T) {
	srv := zktest.NewServer(t)
	ctx := t.Context()
	client := codetest.Dial(t, srv)
	orders := zkrecipes.NewMutex(client, "/locks/orders")

	require.NoError(t, mutex(ctx, client, func(_ context.Context, token zkrecipes.Token) error {
		require.Positive(t, token)
		_, err := tryLock(ctx, orders)
		require.ErrorIs(t, err, errBusy)
		return nil
	}))
	lease, err := tryLock(ctx, orders)
	require.NoError(t, err)
	require.NoError(t, lease.Release())

	stop := errors.New("stop")
	require.NoError(t, election(ctx, client, func(ctx context.Context) error {
		ctx, cancel := context.WithCancelCause(ctx)
		err := observe(ctx, client, func(leader zkrecipes.Leader) {
			require.Equal(t, "10.0.0.7:9000", string(leader.Value))
			cancel(stop)
		})
		require.ErrorIs(t, err, stop)
		return nil
	}))
}

// While the old lock is held by others, both waits and leaves the new one alone.
func TestBothHoldsTheOldLockAndTheNewOne(t *testing.T) {
	srv := zktest.NewServer(t)
	ctx := t.Context()
	client := codetest.Dial(t, srv)
	orders := zkrecipes.NewMutex(client, "/locks/orders")
	mu := make(chan struct{}, 1)
	old := func(ctx context.Context, f func(context.Context) error) error {
		mu <- struct{}{}
		defer func() { <-mu }()
		return f(ctx)
	}
	require.NoError(t, both(ctx, old, orders, func(context.Context) error {
		require.Len(t, mu, 1)
		_, err := orders.TryLock(ctx)
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		return nil
	}))
	refused := errors.New("refused")
	require.ErrorIs(t, both(ctx, func(context.Context, func(context.Context) error) error { return refused }, orders, nil), refused)
}
