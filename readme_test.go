package zkrecipes_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestWorkStopsWhenItsLockIsLost(t *testing.T) {
	srv := zktest.NewServer(t)
	client, err := zkrecipes.Dial(t.Context(), []string{srv.Addr()}, nil)
	require.NoError(t, err)
	defer client.Close()

	orders := zkrecipes.NewMutex(client, "/locks/orders")
	err = orders.Do(t.Context(), func(ctx context.Context, _ *zkrecipes.Lease) error {
		srv.Expire(srv.Sessions()[0].ID)
		<-ctx.Done() // stands for the work
		return nil
	})
	require.ErrorIs(t, err, zkrecipes.ErrLost)
}

func TestATermIsHeldWhileItsFunctionRuns(t *testing.T) {
	srv := zktest.NewServer(t)
	client, err := zkrecipes.Dial(t.Context(), []string{srv.Addr()}, nil)
	require.NoError(t, err)
	defer client.Close()

	require.NoError(t, leadBilling(t.Context(), client, func(_ context.Context, token zkrecipes.Token) error {
		require.Positive(t, token)
		return nil
	}))
}
