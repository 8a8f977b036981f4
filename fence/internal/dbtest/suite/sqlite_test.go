package suite

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/fence"
	"github.com/zkrecipes/zkrecipes/fence/internal/dbtest"
)

func TestSQLite(t *testing.T) { Run(t, start(t)) }

func start(t *testing.T) *dbtest.Database {
	d, err := dbtest.Start(t.Context(), "sqlite")
	require.NoError(t, err)
	t.Cleanup(d.Close)
	return d
}

// No handler has run, so a client must not be told that its write may have been done.
func TestACommitThatFailsInAdmitIsNoUncertainWrite(t *testing.T) {
	w := NewWorld(t, start(t), nil)
	w.exec(t, "CREATE TABLE none (id integer PRIMARY KEY)")
	w.exec(t, "DROP TABLE "+w.Table)
	w.exec(t, "CREATE TABLE "+w.Table+` (name text NOT NULL PRIMARY KEY, token integer NOT NULL,
		fails integer DEFAULT 1 REFERENCES none (id) DEFERRABLE INITIALLY DEFERRED)`)
	guard := w.Over(OpenWith(t, w.Database, "", map[string]string{"foreign_keys": "1"}), nil)
	require.ErrorIs(t, guard.Do(t.Context(), holder(256), w.Add(t.Context())), fence.ErrUncertain, "COMMIT fails")
	_, _, err := guard.Admit(t.Context(), holder(256))
	require.Error(t, err)
	require.NotErrorIs(t, err, fence.ErrUncertain)
}
