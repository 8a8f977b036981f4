package locks

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func dial(t *testing.T, srv *zktest.Server) *zkrecipes.Client {
	client, err := zkrecipes.Dial(t.Context(), []string{srv.Addr()}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

func TestAKeptLockCostsAFewRequests(t *testing.T) {
	srv := zktest.NewServer(t)
	client := dial(t, srv)
	holds, last := 0, zkrecipes.Token(0)
	require.NoError(t, keep(t.Context(), client, func(_ context.Context, token zkrecipes.Token) error {
		holds++
		require.Greater(t, token, last)
		last = token
		return nil
	}))
	require.Equal(t, 1000, holds)
	require.Less(t, srv.Counts().Transactions, 40) // a place is taken anew after 256 holds
}

func TestOneProcessWritesTheReport(t *testing.T) {
	srv := zktest.NewServer(t)
	one, other := dial(t, srv), dial(t, srv)
	written := 0
	require.NoError(t, nightly(t.Context(), one, func(ctx context.Context) error {
		written++
		return nightly(ctx, other, func(context.Context) error {
			written++
			return nil
		})
	}))
	require.Equal(t, 1, written)
}

func TestALossDuringTheReportIsReported(t *testing.T) {
	srv := zktest.NewServer(t)
	err := nightly(t.Context(), dial(t, srv), func(ctx context.Context) error {
		srv.Expire(srv.Sessions()[0].ID)
		<-ctx.Done()
		return nil
	})
	require.ErrorIs(t, err, zkrecipes.ErrLost)
}
