package suite

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/fence"
	"github.com/zkrecipes/zkrecipes/fence/internal/dbtest"
)

func TestSQLite(t *testing.T) {
	d, err := dbtest.Start(t.Context(), "sqlite")
	require.NoError(t, err)
	t.Cleanup(d.Close)
	Run(t, d)
}

func TestAWaitForTheFenceEndsWithSQLitesTimeout(t *testing.T) {
	d, err := dbtest.Start(t.Context(), "sqlite")
	require.NoError(t, err)
	t.Cleanup(d.Close)
	ctx, w := t.Context(), NewWorld(t, d, nil)
	impatient := w.Over(OpenWith(t, d, "", map[string]string{"busy_timeout": "100"}), nil)
	require.NoError(t, w.Fence.Do(ctx, holder(1), func(tx *sql.Tx) error {
		err := impatient.Do(ctx, holder(2), w.Set(ctx, 9))
		require.ErrorContains(t, err, "SQLITE_BUSY")
		require.NotErrorIs(t, err, fence.ErrUncertain)
		require.NotErrorIs(t, err, fence.ErrFenced)
		return w.Add(ctx)(tx)
	}))
	require.NoError(t, impatient.Do(ctx, holder(2), w.Add(ctx)))
	require.EqualValues(t, 2, w.Balance(t))
}
