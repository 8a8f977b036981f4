package guarantees

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// account is a database of one row, whose fence is NULL at first. It knows what the
// statement means, and nothing else.
type account struct {
	id, balance int64
	fence       sql.NullInt64
}

func (a *account) Connect(context.Context) (driver.Conn, error) { return a, nil }
func (a *account) Driver() driver.Driver                        { return nil }
func (a *account) Prepare(string) (driver.Stmt, error)          { return nil, errors.ErrUnsupported }
func (a *account) Begin() (driver.Tx, error)                    { return nil, errors.ErrUnsupported }
func (a *account) Close() error                                 { return nil }

func (a *account) ExecContext(_ context.Context, _ string, args []driver.NamedValue) (driver.Result, error) {
	id, token, balance := args[0].Value.(int64), args[1].Value.(int64), args[2].Value.(int64)
	if id != a.id || (a.fence.Valid && a.fence.Int64 > token) {
		return driver.RowsAffected(0), nil
	}
	a.balance, a.fence = balance, sql.NullInt64{Int64: token, Valid: true}
	return driver.RowsAffected(1), nil
}

func TestAnEarlierHoldersWriteIsRefused(t *testing.T) {
	ctx := t.Context()
	srv := zktest.NewServer(t)
	client, err := zkrecipes.Dial(ctx, []string{srv.Addr()}, nil)
	require.NoError(t, err)
	defer client.Close()
	row := &account{id: 1}
	db := sql.OpenDB(row)
	defer db.Close()

	lock := zkrecipes.NewMutex(client, "/accounts/1")
	early, err := lock.Lock(ctx)
	require.NoError(t, err)
	require.NoError(t, setBalance(ctx, db, early, 1, 90), "the first write finds NULL")
	require.NoError(t, setBalance(ctx, db, early, 1, 80), "a holder may write again")
	require.NoError(t, early.Release())

	late, err := lock.Lock(ctx)
	require.NoError(t, err)
	defer late.Release()
	require.NoError(t, setBalance(ctx, db, late, 1, 70))
	require.ErrorIs(t, setBalance(ctx, db, early, 1, 60), errFenced)
	require.ErrorIs(t, setBalance(ctx, db, late, 2, 60), errFenced, "there is no such row")
	require.EqualValues(t, 70, row.balance)
}
