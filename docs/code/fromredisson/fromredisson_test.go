package fromredisson

import (
	"context"
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
	parts := make(chan int, 3)
	codetest.Together(t, 3, func() error {
		return latch(ctx, client, 3, func(_ context.Context, part int) error {
			parts <- part
			return nil
		})
	})
	require.ElementsMatch(t, []int{0, 1, 2}, []int{<-parts, <-parts, <-parts})
	ctx, cancel := context.WithCancel(ctx)
	require.NoError(t, queue(ctx, client, func(context.Context, []byte) error {
		cancel()
		return nil
	}))
}
