package recipetest

import (
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
)

// IsShut requires that Shutdown has returned nil, and that the session has ended.
func (w *World) IsShut(c *zkrecipes.Client, shutdown *harness.Call[struct{}]) {
	w.T.Helper()
	_, err := shutdown.Wait()
	require.NoError(w.T, err)
	require.NoError(w.T, c.Close())
	_, err = zkrecipes.NewMutex(c, "/any").TryLock(w.T.Context())
	require.ErrorIs(w.T, err, zkrecipes.ErrClosed)
	_, err = zkrecipes.NewQueue(c, "/any", nil).Put(w.T.Context(), nil)
	require.ErrorIs(w.T, err, zkrecipes.ErrClosed)
}
