package fromredisson

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

	require.NoError(t, lock(ctx, client, func(ctx context.Context, token zkrecipes.Token) error {
		require.Positive(t, token)
		_, ok := ctx.Deadline()
		require.True(t, ok)
		return work(ctx)
	}))
	require.NoError(t, readWriteLock(ctx, client, work, work))
	require.NoError(t, semaphore(ctx, client, func(ctx context.Context, slot int) error {
		require.Zero(t, slot)
		return work(ctx)
	}))
	require.Equal(t, 4, calls)
	members, parts := make(chan error), make(chan int, 3)
	for range 3 {
		go func() {
			members <- latch(ctx, client, 3, func(_ context.Context, part int) error {
				parts <- part
				return nil
			})
		}()
	}
	for range 3 {
		require.NoError(t, <-members)
	}
	require.ElementsMatch(t, []int{0, 1, 2}, []int{<-parts, <-parts, <-parts})
	ctx, cancel := context.WithCancel(ctx)
	require.NoError(t, queue(ctx, client, func(context.Context, []byte) error {
		cancel()
		return nil
	}))
}
