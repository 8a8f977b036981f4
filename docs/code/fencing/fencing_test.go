package fencing

import (
	"context"
	"database/sql/driver"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/docs/code/internal/codetest"
	"github.com/zkrecipes/zkrecipes/fence"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestARefusedWriteAfterALossIsAnOrdinaryLoss(t *testing.T) {
	srv := zktest.NewServer(t)
	client := codetest.Dial(t, srv)
	holds := 0
	err := loop(t.Context(), zkrecipes.NewMutex(client, "/locks/orders"), func(ctx context.Context, _ *zkrecipes.Lease) error {
		if holds++; holds == 1 {
			srv.Expire(srv.Sessions()[0].ID)
			<-ctx.Done()
		}
		return fence.ErrFenced
	})
	require.Equal(t, 3, holds, "the first was lost, and two in a row were refused")
	require.ErrorIs(t, err, fence.ErrFenced)
	require.NotErrorIs(t, err, zkrecipes.ErrLost)
	require.ErrorContains(t, err, "ahead")
}

func TestATokenIsAnArgumentOfDatabaseSQLAsItIs(t *testing.T) {
	v, err := driver.DefaultParameterConverter.ConvertValue(zkrecipes.Token(1 << 62))
	require.NoError(t, err)
	require.Equal(t, int64(1<<62), v)
}
