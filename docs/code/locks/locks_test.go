package locks

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/docs/code/internal/codetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestAKeptLockCostsAFewRequests(t *testing.T) {
	srv := zktest.NewServer(t)
	client := codetest.Dial(t, srv)
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

func TestOneProcessSweepsAtATime(t *testing.T) {
	srv := zktest.NewServer(t)
	one, other := codetest.Dial(t, srv), codetest.Dial(t, srv)
	var swept []string
	sweep := func(name string) func(context.Context) error {
		return func(context.Context) error {
			swept = append(swept, name)
			return nil
		}
	}
	require.NoError(t, sweepOnce(t.Context(), one, func(ctx context.Context) error {
		swept = append(swept, "one")
		return sweepOnce(ctx, other, sweep("other"))
	}))
	require.Equal(t, []string{"one"}, swept)
	require.NoError(t, sweepOnce(t.Context(), other, sweep("other")))
	require.Equal(t, []string{"one", "other"}, swept, "a lock does not tell that it was done")
}

func TestALossDuringTheReportIsReported(t *testing.T) {
	srv := zktest.NewServer(t)
	err := sweepOnce(t.Context(), codetest.Dial(t, srv), func(ctx context.Context) error {
		srv.Expire(srv.Sessions()[0].ID)
		<-ctx.Done()
		return nil
	})
	require.ErrorIs(t, err, zkrecipes.ErrLost)
}

func TestAnArmThatWasReleasedMovesAtOnce(t *testing.T) {
	srv := zktest.NewServer(t)
	a, b := codetest.Dial(t, srv), codetest.Dial(t, srv)
	steps := 0
	for _, client := range []*zkrecipes.Client{a, b, a} {
		require.NoError(t, move(t.Context(), client, func(ctx context.Context) error {
			steps++
			return ctx.Err()
		}))
	}
	require.Equal(t, 3, steps)
}
