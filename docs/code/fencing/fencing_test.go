package fencing

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// store is a database that knows what the statements mean, and nothing else. Its
// transactions run one at a time. A row may be there without a fence.
type store struct {
	balances map[int64]int64
	fences   map[any]int64 // by an account's id, or by a lock's path

	before map[any]int64 // the fences, if the transaction is rolled back
}

func newStore() *store { return &store{balances: map[int64]int64{}, fences: map[any]int64{}} }

func (s *store) Connect(context.Context) (driver.Conn, error) { return s, nil }
func (s *store) Driver() driver.Driver                        { return nil }
func (s *store) Prepare(string) (driver.Stmt, error)          { return nil, errors.ErrUnsupported }
func (s *store) Close() error                                 { return nil }

func (s *store) Begin() (driver.Tx, error) {
	s.before = maps.Clone(s.fences)
	return s, nil
}

func (s *store) Commit() error { return nil }
func (s *store) Rollback() error {
	s.fences = s.before
	return nil
}

func (s *store) ExecContext(_ context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	key, token := args[0].Value, args[1].Value.(int64)
	if fence, ok := s.fences[key]; ok && fence > token {
		return driver.RowsAffected(0), nil
	}
	s.fences[key] = token
	if strings.Contains(query, "INTO account") {
		s.balances[key.(int64)] = args[2].Value.(int64)
	}
	return driver.RowsAffected(1), nil
}

// twoHolders returns the leases of two holders, of which the first has released.
func twoHolders(t *testing.T) (early, late *zkrecipes.Lease) {
	srv := zktest.NewServer(t)
	client, err := zkrecipes.Dial(t.Context(), []string{srv.Addr()}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	lock := zkrecipes.NewMutex(client, "/accounts/1")
	early, err = lock.Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, early.Release())
	late, err = lock.Lock(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { late.Release() })
	return early, late
}

func open(t *testing.T, s *store) *sql.DB {
	db := sql.OpenDB(s)
	t.Cleanup(func() { db.Close() })
	return db
}

func TestAnEarlierHoldersWriteIsRefused(t *testing.T) {
	ctx := t.Context()
	s := newStore()
	s.balances[1] = 100 // without a fence
	db := open(t, s)
	early, late := twoHolders(t)
	require.NoError(t, setBalance(ctx, db, early, 1, 90), "the first write finds NULL")
	require.NoError(t, setBalance(ctx, db, early, 1, 80), "a holder may write again")
	require.NoError(t, setBalance(ctx, db, late, 1, 70))
	require.ErrorIs(t, setBalance(ctx, db, early, 1, 60), ErrFenced)
	require.NoError(t, setBalance(ctx, db, early, 2, 50), "there was no such row")
	require.Equal(t, map[int64]int64{1: 70, 2: 50}, s.balances)
}

func TestOneFenceGuardsAllRowsOfALock(t *testing.T) {
	ctx := t.Context()
	s := newStore()
	db := open(t, s)
	early, late := twoHolders(t)
	writes := 0
	write := func(*sql.Tx) error { writes++; return nil }
	require.NoError(t, UnderFence(ctx, db, early, write))
	failed := errors.New("no such row")
	require.ErrorIs(t, UnderFence(ctx, db, late, func(*sql.Tx) error { return failed }), failed)
	require.NoError(t, UnderFence(ctx, db, early, write), "the later fence was rolled back")
	require.NoError(t, UnderFence(ctx, db, late, write))
	require.ErrorIs(t, UnderFence(ctx, db, early, write), ErrFenced)
	require.Equal(t, 3, writes)
	require.Equal(t, map[any]int64{"/accounts/1": int64(late.Token())}, s.fences)
}

func TestARefusedWriteAfterALossIsAnOrdinaryLoss(t *testing.T) {
	srv := zktest.NewServer(t)
	client, err := zkrecipes.Dial(t.Context(), []string{srv.Addr()}, nil)
	require.NoError(t, err)
	defer client.Close()
	holds := 0
	err = loop(t.Context(), zkrecipes.NewMutex(client, "/locks/orders"), func(ctx context.Context, _ *zkrecipes.Lease) error {
		if holds++; holds == 1 {
			srv.Expire(srv.Sessions()[0].ID)
			<-ctx.Done()
		}
		return ErrFenced
	})
	require.Equal(t, 2, holds, "the second was refused although it holds")
	require.ErrorIs(t, err, ErrFenced)
	require.NotErrorIs(t, err, zkrecipes.ErrLost)
	require.ErrorContains(t, err, "ahead")
}

func TestATokenIsAnArgumentOfDatabaseSQLAsItIs(t *testing.T) {
	v, err := driver.DefaultParameterConverter.ConvertValue(zkrecipes.Token(1 << 62))
	require.NoError(t, err)
	require.Equal(t, int64(1<<62), v)
}
