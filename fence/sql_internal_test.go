package fence

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// state is an error as drivers of PostgreSQL have it.
type state string

func (s state) Error() string    { return "SQLSTATE " + string(s) }
func (s state) SQLState() string { return string(s) }

func TestOnlyTheDatabasesOwnErrorProvesThatACommitFailed(t *testing.T) {
	for code, want := range map[state]bool{
		"40001": true, "40P01": true, "23505": true, "23503": true,
		"40003": false, // statement completion unknown
		"57P01": false, // the server is being shut down
		"08006": false, "25P03": false, "": false,
	} {
		require.Equal(t, want, rolledBack(fmt.Errorf("commit: %w", code)), "%s", code)
	}
	require.False(t, rolledBack(errors.New("unexpected EOF")))
}
