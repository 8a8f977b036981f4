package servertest

import (
	"context"
	"database/sql"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/docs/code/fencing"
	"github.com/zkrecipes/zkrecipes/docs/code/jobs"
	"github.com/zkrecipes/zkrecipes/fence"
	"github.com/zkrecipes/zkrecipes/fence/internal/dbtest/suite"
	"github.com/zkrecipes/zkrecipes/internal/markdown"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The code and the SQL of docs/fencing.md and docs/jobs.md, on a real PostgreSQL.

func lockOn(t *testing.T, path string) *zkrecipes.Mutex {
	srv := zktest.NewServer(t)
	client, err := zkrecipes.Dial(t.Context(), []string{srv.Addr()}, &zkrecipes.Options{Prefix: "/app"})
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	return zkrecipes.NewMutex(client, path)
}

func open(t *testing.T, tables ...string) *sql.DB {
	db := suite.Open(t, only(t, "postgresql"), "")
	t.Cleanup(func() {
		for _, table := range append(tables, "zkrecipes_fence") {
			_, err := db.Exec("DROP TABLE " + table)
			require.NoError(t, err)
		}
	})
	return db
}

func TestTheGuideOfFences(t *testing.T) {
	ctx, db, lock := t.Context(), open(t, "account"), lockOn(t, "/locks/orders")
	_, err := db.ExecContext(ctx, "CREATE TABLE account (id bigint PRIMARY KEY, balance bigint NOT NULL)")
	require.NoError(t, err)
	_, err = db.ExecContext(ctx, "INSERT INTO account VALUES (7, 100)")
	require.NoError(t, err)
	guard, err := fencing.NewGuard(ctx, db)
	require.NoError(t, err)
	early, err := lock.Lock(ctx)
	require.NoError(t, err)
	require.NoError(t, early.Release())
	require.NoError(t, fencing.Withdraw(ctx, lock, guard, 7, 10))
	balance := func() (balance int64) {
		require.NoError(t, db.QueryRowContext(ctx, "SELECT balance FROM account WHERE id = 7").Scan(&balance))
		return balance
	}
	require.EqualValues(t, 90, balance())
	require.ErrorIs(t, guard.Do(ctx, early, func(*sql.Tx) error { return nil }), fence.ErrFenced)

	srv := httptest.NewServer(fencing.Service(guard, func(r *http.Request, tx *sql.Tx) error {
		_, err := tx.ExecContext(r.Context(), "UPDATE account SET balance = 0")
		return err
	}))
	defer srv.Close()
	put, err := http.NewRequestWithContext(ctx, http.MethodPut, srv.URL, nil)
	require.NoError(t, err)
	require.ErrorIs(t, fencing.Send(put, early), fence.ErrFenced)
	require.EqualValues(t, 90, balance())
	late, err := lock.Lock(ctx)
	require.NoError(t, err)
	require.NoError(t, fencing.Send(put, late))
	require.Zero(t, balance())
}

func TestTheGuideOfJobs(t *testing.T) {
	ctx, db, lock := t.Context(), open(t, "job_done"), lockOn(t, "/locks/report")
	text, err := os.ReadFile("../../../../docs/jobs.md")
	require.NoError(t, err)
	blocks := markdown.Parse(string(text)).Blocks
	schema := slices.IndexFunc(blocks, func(b markdown.Block) bool { return b.Language == "sql" })
	require.GreaterOrEqual(t, schema, 0)
	_, err = db.ExecContext(ctx, strings.Join(blocks[schema].Code, "\n"))
	require.NoError(t, err)
	_, err = db.ExecContext(ctx, "UPDATE job_done SET period = (now() AT TIME ZONE 'UTC')::date - 3")
	require.NoError(t, err)
	guard := fence.NewSQL(db, fence.PostgreSQL, nil)
	require.NoError(t, guard.Migrate(ctx))
	var days []string
	work := func(_ context.Context, _ *sql.Tx, day string) error {
		days = append(days, day)
		return nil
	}
	require.NoError(t, jobs.CatchUp(ctx, lock, db, guard, work))
	require.NoError(t, jobs.CatchUp(ctx, lock, db, guard, work), "nothing is due")
	require.GreaterOrEqual(t, len(days), 2, "all that have ended; three if the test has run over midnight")
	first, err := time.Parse(time.DateOnly, days[0])
	require.NoError(t, err)
	require.Equal(t, first.AddDate(0, 0, 1).Format(time.DateOnly), days[1])
	var done int
	require.NoError(t, db.QueryRowContext(ctx, "SELECT count(*) FROM job_done WHERE token > 0").Scan(&done))
	require.Equal(t, len(days), done)
}
