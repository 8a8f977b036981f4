package fromkazoo

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
	calls := 0
	work := func(context.Context) error { calls++; return nil }

	require.NoError(t, lock(ctx, client, work))
	require.NoError(t, readLock(ctx, client, work))
	require.NoError(t, semaphore(ctx, client, work))
	require.NoError(t, election(ctx, client, work))
	require.Equal(t, 4, calls)
	require.NoError(t, barrier(ctx, client))
	codetest.Together(t, 5, func() error { return doubleBarrier(ctx, client, func(context.Context) {}) })

	jobs := zkrecipes.NewQueue(client, "/jobs", nil)
	require.NoError(t, queue(ctx, client, func(context.Context, []byte) error { return errors.New("no") }))
	n, err := jobs.Len(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, queue(ctx, client, func(_ context.Context, data []byte) error {
		require.Equal(t, "invoice 17", string(data))
		return nil
	}))
	n, err = jobs.Len(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, n)
}
