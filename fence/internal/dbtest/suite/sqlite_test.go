package suite

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/fence/internal/dbtest"
)

func TestSQLite(t *testing.T) {
	d, err := dbtest.Start(t.Context(), "sqlite")
	require.NoError(t, err)
	t.Cleanup(d.Close)
	Run(t, d)
}
