package fromcurator

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestCodeOfTheDocumentWorks(t *testing.T) {
	srv := zktest.NewServer(t)
	ctx := t.Context()
	client, err := zkrecipes.Dial(ctx, []string{srv.Addr()}, nil)
	require.NoError(t, err)
	defer client.Close()
	calls := 0
	work := func(context.Context) error { calls++; return nil }

	require.NoError(t, mutex(ctx, client, func(ctx context.Context, token zkrecipes.Token) error {
		require.Positive(t, token)
		return work(ctx)
	}))
	require.NoError(t, readWriteLock(ctx, client, work, work))
	require.NoError(t, semaphore(ctx, client, func(ctx context.Context, slots []int) error {
		require.Equal(t, []int{0, 1}, slots)
		return work(ctx)
	}))
	require.NoError(t, multiLock(ctx, client, work))
	require.NoError(t, leader(ctx, client, work))
	require.NoError(t, guarded(ctx, client, work))
	members := make(chan error)
	for range 5 {
		go func() {
			members <- barriers(ctx, client, func(context.Context) error { return nil })
		}()
	}
	for range 5 {
		require.NoError(t, <-members)
	}
	ctx, cancel := context.WithCancel(ctx)
	require.NoError(t, queue(ctx, client, func(context.Context, []byte) error {
		cancel()
		return nil
	}))
	require.Equal(t, 7, calls)
}

func TestMutexOfTheDocumentReportsThatItIsBusy(t *testing.T) {
	srv := zktest.NewServer(t)
	client, err := zkrecipes.Dial(t.Context(), []string{srv.Addr()}, nil)
	require.NoError(t, err)
	defer client.Close()
	lease, err := zkrecipes.NewMutex(client, "/locks/orders").Lock(t.Context())
	require.NoError(t, err)
	defer lease.Release()
	ctx, cancel := context.WithTimeout(t.Context(), 1)
	defer cancel()
	require.ErrorIs(t, mutex(ctx, client, nil), errBusy)
}
