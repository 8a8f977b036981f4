package main

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestALostLockRecordsNothing(t *testing.T) {
	srv := zktest.NewServer(t)
	client, err := zkrecipes.Dial(t.Context(), []string{srv.Addr()}, nil)
	require.NoError(t, err)
	defer client.Close()

	lock := zkrecipes.NewMutex(client, "/locks/orders")
	require.NoError(t, lock.Do(t.Context(), func(ctx context.Context, lease *zkrecipes.Lease) error {
		return ship(ctx, lease, nil) // creates the znode
	}))
	err = lock.Do(t.Context(), func(ctx context.Context, lease *zkrecipes.Lease) error {
		return ship(ctx, lease, func(context.Context, int) error {
			srv.Expire(srv.Sessions()[0].ID) // as after a long pause
			return nil                       // and the work does not notice
		})
	})
	require.Error(t, err) // ErrLost, or ErrUncertain if the connection broke first
	data, _, err := client.Get(t.Context(), "/shipped")
	require.NoError(t, err)
	require.Equal(t, "0", string(data))
}

func TestWorkFinishesBeforeTheShutdown(t *testing.T) {
	srv := zktest.NewServer(t)
	client, err := zkrecipes.Dial(t.Context(), []string{srv.Addr()}, nil)
	require.NoError(t, err)
	defer client.Close()

	packing, ended := make(chan struct{}), make(chan error, 1)
	packed := 0
	go func() {
		ended <- work(t.Context(), client, func(context.Context, int) error {
			if packed++; packed == 1 {
				close(packing)
			}
			return nil
		})
	}()
	<-packing
	require.NoError(t, client.Shutdown(t.Context()))
	require.NoError(t, <-ended)
	require.Contains(t, srv.Tree(), "shipped")
	require.Empty(t, srv.Sessions())
}
