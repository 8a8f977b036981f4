// Package servertest has the tests of package fence that need what scripts/setup-databases.sh
// installs: PostgreSQL, MariaDB and nginx.
package servertest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/fence"
	"github.com/zkrecipes/zkrecipes/fence/internal/dbtest"
	"github.com/zkrecipes/zkrecipes/fence/internal/dbtest/suite"
)

var databases []*dbtest.Database

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	for _, name := range []string{"postgresql", "mariadb"} {
		d, err := dbtest.Start(context.Background(), name)
		if err != nil {
			fmt.Fprintf(os.Stderr, "start %s: %v\n", name, err)
			return 1
		}
		defer d.Close()
		databases = append(databases, d)
	}
	return m.Run()
}

// each runs the test on each database, by way of a proxy.
func each(t *testing.T, test func(t *testing.T, w *suite.World, proxy *dbtest.Proxy, remote *fence.SQL)) {
	for _, d := range databases {
		t.Run(d.Name, func(t *testing.T) {
			w := suite.NewWorld(t, d, nil)
			proxy := dbtest.NewProxy(t, d.Addr)
			test(t, w, proxy, w.Over(suite.Open(t, d, proxy.Addr()), nil))
		})
	}
}

func only(t *testing.T, name string) *dbtest.Database {
	for _, d := range databases {
		if d.Name == name {
			return d
		}
	}
	require.Fail(t, "no "+name)
	return nil
}

func TestSuite(t *testing.T) {
	for _, d := range databases {
		t.Run(d.Name, func(t *testing.T) { suite.Run(t, d) })
	}
}

func TestALostReplyToCommitIsUncertainAndTheNextHolderSeesTheWrite(t *testing.T) {
	each(t, func(t *testing.T, w *suite.World, proxy *dbtest.Proxy, remote *fence.SQL) {
		ctx := t.Context()
		lost := proxy.LoseReply()
		err := remote.Do(ctx, fence.Tokens{"/l": 1}, w.Add(ctx))
		require.ErrorIs(t, err, fence.ErrUncertain)
		<-lost.Replied
		require.NoError(t, remote.Do(ctx, fence.Tokens{"/l": 1}, w.Add(ctx)), "under the same lease")
		require.EqualValues(t, 2, w.Balance(t))
		require.NoError(t, w.Fence.Do(ctx, fence.Tokens{"/l": 2}, w.Add(ctx)))
		require.EqualValues(t, 3, w.Balance(t))
	})
}

// The client has gone, and its COMMIT is still on its way. The next Do begins when the database
// has carried it out.
func TestDoWaitsForACommitThatIsOnItsWay(t *testing.T) {
	for _, token := range []int64{1, 2} { // the same holder and the next one
		each(t, func(t *testing.T, w *suite.World, proxy *dbtest.Proxy, remote *fence.SQL) {
			ctx := t.Context()
			held := proxy.HoldCommit()
			first := make(chan error, 1)
			go func() { first <- remote.Do(ctx, fence.Tokens{"/l": 1}, w.Add(ctx)) }()
			held.Abandon()
			require.ErrorIs(t, <-first, fence.ErrUncertain)
			second := make(chan error, 1)
			go func() { second <- w.Fence.Do(ctx, fence.Tokens{"/l": token}, w.Add(ctx)) }()
			w.AwaitWaiting(t)
			require.Zero(t, w.Balance(t))
			held.Release()
			require.NoError(t, <-second)
			require.EqualValues(t, 2, w.Balance(t), "it has read what the first wrote")
		})
	}
}

// And if the COMMIT never comes, the database rolls back, and the next Do goes on.
func TestDoGoesOnWhenTheConnectionOfAnEarlierOneEnds(t *testing.T) {
	each(t, func(t *testing.T, w *suite.World, proxy *dbtest.Proxy, remote *fence.SQL) {
		ctx := t.Context()
		err := remote.Do(ctx, fence.Tokens{"/l": 1}, func(tx *sql.Tx) error {
			err := w.Add(ctx)(tx)
			proxy.Drop()
			return err
		})
		require.ErrorIs(t, err, fence.ErrUncertain, "the client cannot know whether the COMMIT was sent")
		require.NoError(t, w.Fence.Do(ctx, fence.Tokens{"/l": 2}, w.Add(ctx)))
		require.EqualValues(t, 1, w.Balance(t))
	})
}

func TestAContextThatEndsDuringCommitIsUncertain(t *testing.T) {
	// The driver of MySQL waits for the reply whatever the context says.
	w := suite.NewWorld(t, only(t, "postgresql"), nil)
	proxy := dbtest.NewProxy(t, w.Addr)
	remote := w.Over(suite.Open(t, w.Database, proxy.Addr()), nil)
	ctx, cancel := context.WithCancel(t.Context())
	held := proxy.HoldCommit()
	first := make(chan error, 1)
	go func() { first <- remote.Do(ctx, fence.Tokens{"/l": 1}, w.Add(ctx)) }()
	<-held.Sent
	cancel()
	require.ErrorIs(t, <-first, fence.ErrUncertain)
	held.Release()
	require.NoError(t, w.Fence.Do(t.Context(), fence.Tokens{"/l": 2}, w.Add(t.Context())))
	require.Contains(t, []int64{1, 2}, w.Balance(t))
}

func TestPostgreSQLFailsAHolderThatHasWaitedAtRepeatableReadAndItTriesAgain(t *testing.T) {
	for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
		t.Run(level.String(), func(t *testing.T) {
			ctx := t.Context()
			w := suite.NewWorld(t, only(t, "postgresql"), &sql.TxOptions{Isolation: level})
			require.NoError(t, w.Fence.Do(ctx, fence.Tokens{"/l": 1}, w.Add(ctx)))
			later := make(chan error, 1)
			require.NoError(t, w.Fence.Do(ctx, fence.Tokens{"/l": 2}, func(tx *sql.Tx) error {
				go func() { later <- w.Fence.Do(ctx, fence.Tokens{"/l": 3}, w.Add(ctx)) }()
				w.AwaitWaiting(t)
				return w.Add(ctx)(tx)
			}))
			err := <-later
			require.Equal(t, "40001", dbtest.State(err), "%v", err)
			require.NotErrorIs(t, err, fence.ErrUncertain)
			require.NotErrorIs(t, err, fence.ErrFenced)
			require.NoError(t, w.Fence.Do(ctx, fence.Tokens{"/l": 3}, w.Add(ctx)))
			require.EqualValues(t, 3, w.Balance(t))
		})
	}
}

// Two holders of two locks read what the other one writes, so one of them fails, at COMMIT.
func TestASerializationFailureOfCommitIsNotUncertain(t *testing.T) {
	ctx := t.Context()
	w := suite.NewWorld(t, only(t, "postgresql"), &sql.TxOptions{Isolation: sql.LevelSerializable})
	_, err := w.DB.ExecContext(ctx, "INSERT INTO "+w.Balances+" VALUES (2, 0)")
	require.NoError(t, err)
	crosswise := func(reads, writes int) func(*sql.Tx) error {
		return func(tx *sql.Tx) error {
			var balance int64
			err := tx.QueryRowContext(ctx, fmt.Sprintf("SELECT balance FROM %s WHERE id = %d", w.Balances, reads)).Scan(&balance)
			if err == nil {
				_, err = tx.ExecContext(ctx, fmt.Sprintf("UPDATE %s SET balance = %d WHERE id = %d", w.Balances, balance+1, writes))
			}
			return err
		}
	}
	err = w.Fence.Do(ctx, fence.Tokens{"/a": 1}, func(tx *sql.Tx) error {
		if err := crosswise(1, 2)(tx); err != nil {
			return err
		}
		return w.Fence.Do(ctx, fence.Tokens{"/b": 1}, crosswise(2, 1))
	})
	require.Equal(t, "40001", dbtest.State(err), "%v", err)
	require.ErrorContains(t, err, "fence: not committed: ")
	require.NotErrorIs(t, err, fence.ErrUncertain)
}

func TestADeferredConstraintThatFailsAtCommitIsNotUncertain(t *testing.T) {
	ctx := t.Context()
	w := suite.NewWorld(t, only(t, "postgresql"), nil)
	_, err := w.DB.ExecContext(ctx, "ALTER TABLE "+w.Balances+" ADD CONSTRAINT one_"+w.Balances+" UNIQUE (balance) DEFERRABLE INITIALLY DEFERRED")
	require.NoError(t, err)
	err = w.Fence.Do(ctx, fence.Tokens{"/l": 1}, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO "+w.Balances+" VALUES (2, 0)")
		return err
	})
	require.Equal(t, "23505", dbtest.State(err), "%v", err)
	require.NotErrorIs(t, err, fence.ErrUncertain)
}

func TestTheSettingsOfMySQLsDriverDoNotMatter(t *testing.T) {
	for _, settings := range []map[string]string{
		{"clientFoundRows": "true"}, {"interpolateParams": "true"}, {"clientFoundRows": "true", "interpolateParams": "true"}, {"sql_mode": "''"},
	} {
		ctx := t.Context()
		w := suite.NewWorld(t, only(t, "mariadb"), nil)
		guard := w.Over(suite.OpenWith(t, w.Database, "", settings), nil)
		for _, token := range []int64{5, 5, math.MaxInt64 - 1, math.MaxInt64} {
			require.NoError(t, guard.Do(ctx, fence.Tokens{"/l": token}, w.Add(ctx)), "%v", settings)
			require.NoError(t, guard.Do(ctx, fence.Tokens{"/l": token}, w.Add(ctx)), "%v", settings)
			require.ErrorIs(t, guard.Do(ctx, fence.Tokens{"/l": token - 1}, w.Add(ctx)), fence.ErrFenced, "%v", settings)
		}
		require.EqualValues(t, 8, w.Balance(t))
	}
}

// A holder that is suspended in write keeps the row locked, until the database ends its transaction.
func TestTheDatabaseEndsTheTransactionOfASuspendedHolder(t *testing.T) {
	for name, setting := range map[string][2]string{
		"postgresql": {"idle_in_transaction_session_timeout", "500"},
		"mariadb":    {"idle_write_transaction_timeout", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			w := suite.NewWorld(t, only(t, name), nil)
			bounded := w.Over(suite.OpenWith(t, w.Database, "", map[string]string{setting[0]: setting[1]}), nil)
			err := bounded.Do(ctx, fence.Tokens{"/l": 1}, func(tx *sql.Tx) error {
				err := w.Set(ctx, 9)(tx)
				return errors.Join(err, w.Fence.Do(ctx, fence.Tokens{"/l": 2}, w.Add(ctx))) // waits for it
			})
			require.Error(t, err)
			require.NotErrorIs(t, err, fence.ErrFenced)
			require.EqualValues(t, 1, w.Balance(t))
			require.ErrorIs(t, w.Fence.Do(ctx, fence.Tokens{"/l": 1}, w.Set(ctx, 9)), fence.ErrFenced)
		})
	}
}
