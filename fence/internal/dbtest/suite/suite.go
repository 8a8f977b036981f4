// Package suite has the tests of fence.SQL that each database must pass.
package suite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/fence"
	"github.com/zkrecipes/zkrecipes/fence/internal/dbtest"
)

// Run runs the tests on the database.
func Run(t *testing.T, d *dbtest.Database) {
	for name, test := range map[string]func(*testing.T, *World){
		"AnEarlierHolderIsRefused":                           anEarlierHolderIsRefused,
		"AWriteThatFailsLeavesTheFence":                      aWriteThatFailsLeavesTheFence,
		"APanicLeavesTheFence":                               aPanicLeavesTheFence,
		"ALaterHolderReadsWhatTheEarlierOneCommits":          aLaterHolderReadsWhatTheEarlierOneCommits,
		"AnEarlierHolderThatWaitsIsRefusedAfterTheCommit":    anEarlierHolderThatWaitsIsRefusedAfterTheCommit,
		"AnEarlierHolderThatWaitsGoesOnAfterTheRollback":     anEarlierHolderThatWaitsGoesOnAfterTheRollback,
		"NamesAreComparedByteByByte":                         namesAreComparedByteByByte,
		"HoldersOfSeveralFencesDoNotWaitInACircle":           holdersOfSeveralFencesDoNotWaitInACircle,
		"OneOldTokenOfSeveralIsRefused":                      oneOldTokenOfSeveralIsRefused,
		"CheckFencesATransactionOfTheCallers":                checkFencesATransactionOfTheCallers,
		"MigrateMayBeCalledByAllAtOnce":                      migrateMayBeCalledByAllAtOnce,
		"AdmitIsRememberedByTheNextProcess":                  admitIsRememberedByTheNextProcess,
		"AdmitRefusesWhatDoRefuses":                          admitRefusesWhatDoRefuses,
		"AWaitForTheFenceEndsWithTheDatabasesTimeout":        aWaitForTheFenceEndsWithTheDatabasesTimeout,
		"AContextThatEndsInWriteRollsBack":                   aContextThatEndsInWriteRollsBack,
		"AHolderWithoutATokenIsRefused":                      aHolderWithoutATokenIsRefused,
		"WhatWriteEndsItselfIsUncertain":                     whatWriteEndsItselfIsUncertain,
		"NoUpdateOfOneHolderIsLostAtAnyLevel":                noUpdateOfOneHolderIsLostAtAnyLevel,
		"HoldersInOrderLoseNoUpdateAtAnyLevel":               holdersInOrderLoseNoUpdateAtAnyLevel,
		"TheTablesSchemaIsTheConstant":                       theTablesSchemaIsTheConstant,
		"AnUnknownDialectAndAnInvalidTableFailAtTheFirstUse": anUnknownDialectAndAnInvalidTableFailAtTheFirstUse,
	} {
		t.Run(name, func(t *testing.T) { test(t, NewWorld(t, d, nil)) })
	}
}

// World is a database with a table of fences and one of balances, both of the test's own.
type World struct {
	*dbtest.Database
	DB       *sql.DB
	Fence    *fence.SQL
	Table    string // of the fences
	Balances string // the other table: one row, with id 1 and balance 0
}

var tables atomic.Int64

// NewWorld returns one whose transactions have the options.
func NewWorld(t testing.TB, d *dbtest.Database, opts *sql.TxOptions) *World {
	n := tables.Add(1)
	w := &World{Database: d, DB: Open(t, d, ""), Table: fmt.Sprintf("fence_%d", n), Balances: fmt.Sprintf("balance_%d", n)}
	w.Fence = w.Over(w.DB, opts)
	require.NoError(t, w.Fence.Migrate(t.Context()))
	w.exec(t, "CREATE TABLE "+w.Balances+" (id integer NOT NULL PRIMARY KEY, balance bigint NOT NULL)")
	w.exec(t, "INSERT INTO "+w.Balances+" VALUES (1, 0)")
	return w
}

// Over returns a guard on the same table by way of another connection.
func (w *World) Over(db *sql.DB, opts *sql.TxOptions) *fence.SQL {
	return fence.NewSQL(db, w.Dialect, &fence.SQLOptions{Table: w.Table, Tx: opts})
}

// Open opens the database by way of addr. It waits for locks as long as the test does.
func Open(t testing.TB, d *dbtest.Database, addr string) *sql.DB {
	settings := map[string]string{}
	switch d.Dialect {
	case fence.MySQL:
		settings["innodb_lock_wait_timeout"] = "300"
	case fence.SQLite:
		settings["busy_timeout"] = "300000"
	}
	return OpenWith(t, d, addr, settings)
}

// OpenWith opens the database with these settings.
func OpenWith(t testing.TB, d *dbtest.Database, addr string, settings map[string]string) *sql.DB {
	db, err := sql.Open(d.DSN(addr, settings))
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

func (w *World) exec(t testing.TB, query string) {
	_, err := w.DB.ExecContext(t.Context(), query)
	require.NoError(t, err)
}

// Set returns a write that sets the balance.
func (w *World) Set(ctx context.Context, balance int64) func(*sql.Tx) error {
	return func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE %s SET balance = %d WHERE id = 1", w.Balances, balance))
		return err
	}
}

// Add returns a write that reads the balance, and sets it to one more.
func (w *World) Add(ctx context.Context) func(*sql.Tx) error {
	return func(tx *sql.Tx) error {
		var balance int64
		if err := tx.QueryRowContext(ctx, "SELECT balance FROM "+w.Balances+" WHERE id = 1").Scan(&balance); err != nil {
			return err
		}
		return w.Set(ctx, balance+1)(tx)
	}
}

// Balance returns the balance.
func (w *World) Balance(t *testing.T) (balance int64) {
	require.NoError(t, w.DB.QueryRowContext(t.Context(), "SELECT balance FROM "+w.Balances+" WHERE id = 1").Scan(&balance))
	return balance
}

// AwaitWaiting waits until a transaction waits for a lock. SQLite does not tell.
func (w *World) AwaitWaiting(t *testing.T) {
	db := Open(t, w.Database, "")
	// InnoDB shows what it has shown before to a query less than 100 ms after the last one.
	require.Eventually(t, func() bool {
		n, err := w.Waiting(t.Context(), db)
		require.NoError(t, err)
		return n != 0
	}, 2*time.Minute, 150*time.Millisecond, "nothing waits for a lock")
}

// Retry calls Do until it does not fail with a serialization failure or a deadlock.
func Retry(ctx context.Context, guard *fence.SQL, h fence.Holder, write func(*sql.Tx) error) error {
	for {
		err := guard.Do(ctx, h, write)
		if err == nil || !mayRetry(err) {
			return err
		}
	}
}

// mayRetry reports whether the database says that the transaction may be tried again.
func mayRetry(err error) bool {
	if errors.Is(err, fence.ErrUncertain) || errors.Is(err, fence.ErrFenced) {
		return false
	}
	return dbtest.State(err) == "40001"
}

// holder is a holder of the lock of the tests.
func holder(token int64) fence.Holder { return fence.Tokens{"/locks/orders": token} }

func anEarlierHolderIsRefused(t *testing.T, w *World) {
	ctx := t.Context()
	early, late := holder(256), holder(512)
	require.NoError(t, w.Fence.Do(ctx, early, w.Set(ctx, 90)))
	require.NoError(t, w.Fence.Do(ctx, early, w.Set(ctx, 80)), "a holder may write again")
	require.NoError(t, w.Fence.Do(ctx, late, w.Set(ctx, 70)))
	require.NoError(t, w.Fence.Do(ctx, late, w.Set(ctx, 65)))
	called := false
	err := w.Fence.Do(ctx, early, func(*sql.Tx) error { called = true; return nil })
	require.ErrorIs(t, err, fence.ErrFenced)
	require.NotErrorIs(t, err, fence.ErrUncertain)
	require.False(t, called)
	require.EqualValues(t, 65, w.Balance(t))
	require.NoError(t, w.Fence.Do(ctx, fence.Tokens{"/locks/other": 1}, w.Set(ctx, 60)), "another lock's fence")
}

func aWriteThatFailsLeavesTheFence(t *testing.T, w *World) {
	ctx := t.Context()
	failed := errors.New("disk full")
	err := w.Fence.Do(ctx, holder(512), func(tx *sql.Tx) error {
		return errors.Join(w.Set(ctx, 1)(tx), failed)
	})
	require.ErrorIs(t, err, failed)
	require.Zero(t, w.Balance(t))
	require.NoError(t, w.Fence.Do(ctx, holder(256), w.Set(ctx, 2)), "the later holder has written nothing")
}

func aPanicLeavesTheFence(t *testing.T, w *World) {
	ctx := t.Context()
	require.PanicsWithValue(t, "bug", func() {
		w.Fence.Do(ctx, holder(512), func(tx *sql.Tx) error {
			require.NoError(t, w.Set(ctx, 1)(tx))
			panic("bug")
		})
	})
	require.NoError(t, w.Fence.Do(ctx, holder(256), w.Add(ctx)))
	require.EqualValues(t, 1, w.Balance(t))
}

// inside calls Do in a goroutine, and returns when write has begun. leave ends write with an error.
func (w *World) inside(t *testing.T, h fence.Holder, write func(*sql.Tx) error) (leave func(error) error) {
	began, end, ended := make(chan struct{}), make(chan error, 1), make(chan error, 1)
	go func() {
		ended <- w.Fence.Do(t.Context(), h, func(tx *sql.Tx) error {
			err := write(tx)
			close(began)
			return errors.Join(err, <-end)
		})
	}()
	select {
	case <-began:
	case err := <-ended:
		require.NoError(t, err)
		require.Fail(t, "write was not called")
	}
	return func(err error) error {
		end <- err
		return <-ended
	}
}

func aLaterHolderReadsWhatTheEarlierOneCommits(t *testing.T, w *World) {
	ctx := t.Context()
	leave := w.inside(t, holder(256), w.Add(ctx))
	later := make(chan error, 1)
	go func() { later <- w.Fence.Do(ctx, holder(512), w.Add(ctx)) }()
	w.AwaitWaiting(t)
	require.NoError(t, leave(nil))
	require.NoError(t, <-later)
	require.EqualValues(t, 2, w.Balance(t))
}

func anEarlierHolderThatWaitsIsRefusedAfterTheCommit(t *testing.T, w *World) {
	ctx := t.Context()
	leave := w.inside(t, holder(512), w.Set(ctx, 1))
	earlier := make(chan error, 1)
	go func() { earlier <- w.Fence.Do(ctx, holder(256), w.Set(ctx, 2)) }()
	w.AwaitWaiting(t)
	require.NoError(t, leave(nil))
	require.ErrorIs(t, <-earlier, fence.ErrFenced)
	require.EqualValues(t, 1, w.Balance(t))
}

func anEarlierHolderThatWaitsGoesOnAfterTheRollback(t *testing.T, w *World) {
	ctx := t.Context()
	require.NoError(t, w.Fence.Do(ctx, holder(128), w.Set(ctx, 9)), "the row exists")
	leave := w.inside(t, holder(512), w.Set(ctx, 1))
	earlier := make(chan error, 1)
	go func() { earlier <- w.Fence.Do(ctx, holder(256), w.Set(ctx, 2)) }()
	w.AwaitWaiting(t)
	failed := errors.New("disk full")
	require.ErrorIs(t, leave(failed), failed)
	require.NoError(t, <-earlier)
	require.EqualValues(t, 2, w.Balance(t))
}

func namesAreComparedByteByByte(t *testing.T, w *World) {
	ctx := t.Context()
	long := "/" + strings.Repeat("x", 766)
	for i, name := range []string{"/a", "/A", "/a ", "/ä", "/a\u0308", "/ß", "/ss", long, long[:766] + "y"} {
		require.NoError(t, w.Fence.Do(ctx, fence.Tokens{name: int64(100 - i)}, w.Add(ctx)), "%q", name)
	}
	require.EqualValues(t, 9, w.Balance(t))
	require.ErrorIs(t, w.Fence.Do(ctx, fence.Tokens{"/a": 99}, w.Add(ctx)), fence.ErrFenced)
	require.ErrorIs(t, w.Fence.Do(ctx, fence.Tokens{long + "x": 99}, w.Add(ctx)), fence.ErrNoToken)
}

func holdersOfSeveralFencesDoNotWaitInACircle(t *testing.T, w *World) {
	ctx := t.Context()
	slots := fence.Tokens{}
	for i := range 5 {
		slots[fmt.Sprintf("/workers/slots/%d", i)] = 7
	}
	require.NoError(t, w.Fence.Do(ctx, slots, w.Add(ctx)))
	var all sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		all.Go(func() {
			for range 10 {
				errs[i] = errors.Join(errs[i], w.Fence.Do(ctx, slots, w.Add(ctx)))
			}
		})
	}
	all.Wait()
	require.NoError(t, errors.Join(errs...))
	require.EqualValues(t, 41, w.Balance(t))
}

func oneOldTokenOfSeveralIsRefused(t *testing.T, w *World) {
	ctx := t.Context()
	require.NoError(t, w.Fence.Do(ctx, fence.Tokens{"/s/slots/1": 9}, w.Add(ctx)))
	require.ErrorIs(t, w.Fence.Do(ctx, fence.Tokens{"/s/slots/0": 8, "/s/slots/1": 8}, w.Add(ctx)), fence.ErrFenced)
	require.NoError(t, w.Fence.Do(ctx, fence.Tokens{"/s/slots/0": 7}, w.Add(ctx)), "the refused one has left no token")
}

func checkFencesATransactionOfTheCallers(t *testing.T, w *World) {
	ctx := t.Context()
	tx, err := w.DB.BeginTx(ctx, nil)
	require.NoError(t, err)
	require.NoError(t, w.Fence.Check(ctx, tx, holder(512)))
	require.NoError(t, w.Set(ctx, 1)(tx))
	require.NoError(t, tx.Commit())
	tx, err = w.DB.BeginTx(ctx, nil)
	require.NoError(t, err)
	require.ErrorIs(t, w.Fence.Check(ctx, tx, holder(256)), fence.ErrFenced)
	require.NoError(t, tx.Rollback())
}

func migrateMayBeCalledByAllAtOnce(t *testing.T, w *World) {
	table := fmt.Sprintf("migrated_%d", tables.Add(1))
	var all sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		guard := fence.NewSQL(w.DB, w.Dialect, &fence.SQLOptions{Table: table})
		all.Go(func() { errs[i] = guard.Migrate(t.Context()) })
	}
	all.Wait()
	require.NoError(t, errors.Join(errs...))
	guard := fence.NewSQL(w.DB, w.Dialect, &fence.SQLOptions{Table: table})
	require.NoError(t, guard.Do(t.Context(), holder(1), w.Add(t.Context())))
	require.NoError(t, guard.Migrate(t.Context()), "of a table with rows")
}

func admitIsRememberedByTheNextProcess(t *testing.T, w *World) {
	ctx := t.Context()
	work, done, err := w.Fence.Admit(ctx, holder(512))
	require.NoError(t, err)
	require.NoError(t, work.Err())
	done()
	_, done, err = w.Fence.Admit(ctx, holder(512))
	require.NoError(t, err, "the same holder")
	done()
	next := w.Over(Open(t, w.Database, ""), nil)
	_, _, err = next.Admit(ctx, holder(256))
	require.ErrorIs(t, err, fence.ErrFenced)
	require.ErrorIs(t, next.Do(ctx, holder(256), w.Add(ctx)), fence.ErrFenced)
}

func admitRefusesWhatDoRefuses(t *testing.T, w *World) {
	ctx := t.Context()
	require.NoError(t, w.Fence.Do(ctx, holder(512), w.Add(ctx)))
	_, _, err := w.Fence.Admit(ctx, holder(256))
	require.ErrorIs(t, err, fence.ErrFenced)
	_, _, err = w.Fence.Admit(ctx, fence.Tokens{"/locks/new": 1, "/locks/orders": 256})
	require.ErrorIs(t, err, fence.ErrFenced)
	_, done, err := w.Fence.Admit(ctx, fence.Tokens{"/locks/new": 1, "/locks/orders": 1024})
	require.NoError(t, err)
	done()
	require.ErrorIs(t, w.Fence.Do(ctx, holder(512), w.Add(ctx)), fence.ErrFenced)
}

func aWaitForTheFenceEndsWithTheDatabasesTimeout(t *testing.T, w *World) {
	ctx := t.Context()
	bound := map[fence.Dialect]struct{ setting, value, says string }{
		fence.PostgreSQL: {"lock_timeout", "200", "55P03"},
		fence.MySQL:      {"innodb_lock_wait_timeout", "1", "1205"},
		fence.SQLite:     {"busy_timeout", "100", "SQLITE_BUSY"},
	}[w.Dialect]
	impatient := w.Over(OpenWith(t, w.Database, "", map[string]string{bound.setting: bound.value}), nil)
	require.NoError(t, w.Fence.Do(ctx, holder(1), func(tx *sql.Tx) error {
		err := impatient.Do(ctx, holder(2), w.Set(ctx, 9))
		require.ErrorContains(t, err, bound.says)
		require.NotErrorIs(t, err, fence.ErrUncertain)
		require.NotErrorIs(t, err, fence.ErrFenced)
		return w.Add(ctx)(tx)
	}))
	require.NoError(t, impatient.Do(ctx, holder(2), w.Add(ctx)))
	require.EqualValues(t, 2, w.Balance(t))
}

func aContextThatEndsInWriteRollsBack(t *testing.T, w *World) {
	ctx, cancel := context.WithCancelCause(t.Context())
	lost := errors.New("the lease was lost")
	err := w.Fence.Do(ctx, holder(256), func(tx *sql.Tx) error {
		err := w.Set(ctx, 1)(tx)
		cancel(lost)
		return err
	})
	require.ErrorIs(t, err, lost)
	require.NotErrorIs(t, err, fence.ErrUncertain)
	require.NoError(t, w.Fence.Do(t.Context(), holder(128), w.Add(t.Context())), "its token was rolled back")
	require.EqualValues(t, 1, w.Balance(t))
}

func aHolderWithoutATokenIsRefused(t *testing.T, w *World) {
	for _, h := range []fence.Holder{nil, fence.Tokens(nil), fence.Tokens{}, holder(0), holder(-1), fence.Tokens{"": 1}} {
		require.ErrorIs(t, w.Fence.Do(t.Context(), h, w.Add(t.Context())), fence.ErrNoToken)
	}
	require.Zero(t, w.Balance(t))
}

func whatWriteEndsItselfIsUncertain(t *testing.T, w *World) {
	ctx := t.Context()
	err := w.Fence.Do(ctx, holder(256), func(tx *sql.Tx) error {
		return errors.Join(w.Set(ctx, 1)(tx), tx.Commit())
	})
	require.ErrorIs(t, err, fence.ErrUncertain)
	require.ErrorIs(t, err, sql.ErrTxDone)
}

// levels are the levels of isolation that the database has.
func levels(d *dbtest.Database) []sql.IsolationLevel {
	if d.Dialect == fence.SQLite {
		return []sql.IsolationLevel{sql.LevelDefault}
	}
	return []sql.IsolationLevel{sql.LevelDefault, sql.LevelReadUncommitted, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable}
}

func noUpdateOfOneHolderIsLostAtAnyLevel(t *testing.T, w *World) {
	concurrently(t, w, func(int, int) fence.Holder { return holder(256) })
}

// Each goroutine is a holder, whose turn comes with the next token.
func holdersInOrderLoseNoUpdateAtAnyLevel(t *testing.T, w *World) {
	var token atomic.Int64
	concurrently(t, w, func(int, int) fence.Holder { return holder(token.Add(1)) })
}

// concurrently adds in four goroutines, at each level. What is refused is not added.
func concurrently(t *testing.T, w *World, next func(worker, turn int) fence.Holder) {
	for _, level := range levels(w.Database) {
		t.Run(level.String(), func(t *testing.T) {
			w := NewWorld(t, w.Database, &sql.TxOptions{Isolation: level})
			var added atomic.Int64
			var all sync.WaitGroup
			errs := make([]error, 4)
			for i := range errs {
				all.Go(func() {
					for turn := range 15 {
						err := Retry(t.Context(), w.Fence, next(i, turn), w.Add(t.Context()))
						if err == nil {
							added.Add(1)
						} else if !errors.Is(err, fence.ErrFenced) {
							errs[i] = errors.Join(errs[i], err)
						}
					}
				})
			}
			all.Wait()
			require.NoError(t, errors.Join(errs...))
			require.Positive(t, added.Load())
			require.Equal(t, added.Load(), w.Balance(t))
		})
	}
}

func theTablesSchemaIsTheConstant(t *testing.T, w *World) {
	schema := map[fence.Dialect]string{
		fence.PostgreSQL: fence.SchemaPostgreSQL, fence.MySQL: fence.SchemaMySQL, fence.SQLite: fence.SchemaSQLite,
	}[w.Dialect]
	w.exec(t, schema)
	t.Cleanup(func() { w.DB.Exec("DROP TABLE zkrecipes_fence") })
	guard := fence.NewSQL(w.DB, w.Dialect, nil)
	require.NoError(t, guard.Do(t.Context(), holder(256), w.Add(t.Context())))
	require.NoError(t, guard.Migrate(t.Context()))
}

func anUnknownDialectAndAnInvalidTableFailAtTheFirstUse(t *testing.T, w *World) {
	ctx := t.Context()
	for _, guard := range []*fence.SQL{
		fence.NewSQL(w.DB, "", nil),
		fence.NewSQL(w.DB, w.Dialect, &fence.SQLOptions{Table: "a; DROP TABLE b"}),
		fence.NewSQL(nil, w.Dialect, nil),
	} {
		err := guard.Migrate(ctx)
		require.Error(t, err)
		require.Equal(t, err, guard.Do(ctx, holder(1), w.Add(ctx)))
		require.Equal(t, err, guard.Check(ctx, nil, holder(1)))
		_, _, admitted := guard.Admit(ctx, holder(1))
		require.Equal(t, err, admitted)
	}
}
