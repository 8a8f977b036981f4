package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// SQL is a guard that keeps the highest token of each fence in a table. So a restart forgets
// nothing, and all processes that use the table have one guard. It deletes no row: each name, and so
// each Item of a queue, keeps its own. It is safe for concurrent use.
type SQL struct {
	db  *sql.DB
	do  statements
	tx  *sql.TxOptions
	err error // of an invalid dialect or option, reported on first use
}

// SQLOptions configures a SQL. nil is the same as the zero value.
type SQLOptions struct {
	// Table is the table of the fences, "zkrecipes_fence" by default. Locks of another
	// ZooKeeper ensemble need another table: their tokens cannot be compared. It needs no
	// quotes, and may have a schema before it.
	Table string
	// Tx are the options of the transactions that Do begins, the database's defaults if nil.
	Tx *sql.TxOptions
}

// NewSQL returns the guard on the database. It sends nothing. An unknown dialect and an invalid
// option are reported on first use.
func NewSQL(db *sql.DB, dialect Dialect, opts *SQLOptions) *SQL {
	if opts == nil {
		opts = &SQLOptions{}
	}
	s := &SQL{db: db, tx: opts.Tx}
	do, ok := dialects[dialect]
	switch {
	case db == nil:
		s.err = errors.New("fence: nil *sql.DB")
	case !ok:
		s.err = fmt.Errorf("fence: unknown dialect %q", dialect)
	case opts.Table == "":
		s.do = do
	case !tableName.MatchString(opts.Table):
		s.err = fmt.Errorf("fence: invalid table name %q", opts.Table)
	default:
		s.do = do.named(opts.Table)
	}
	return s
}

// Migrate creates the table unless it exists. Several processes may call it at once.
func (s *SQL) Migrate(ctx context.Context) error {
	if err := s.check(); err != nil {
		return err
	}
	_, err := s.db.ExecContext(ctx, s.do.schema)
	if err != nil { // PostgreSQL lets one of two fail that create the table at once
		_, err = s.db.ExecContext(ctx, s.do.schema)
	}
	if err != nil {
		return fmt.Errorf("fence: create the table: %w", err)
	}
	return nil
}

// Do carries out write in one transaction, unless a later holder has written. First it locks the
// row of the fence and compares the tokens. A later holder, or the same one, waits there until
// the transaction has ended. So write reads what all earlier holders have committed, and nothing
// of theirs follows. Equal tokens are the same holder's, which may write again.
//
// Do blocks until the database has answered, or ctx ends. Then the transaction is rolled back.
// Use the context of the lease, which ends when its loss is known. write must not commit or roll
// back, and not call Do for the same fence, which would wait for itself. It must return the error of
// a statement that fails. After a deadlock, MySQL has rolled back the transaction, and carries out
// what follows outside of it, without the fence.
//
//   - ErrFenced is returned if a later holder has written. Nothing was written.
//   - The error of write, as it is. Nothing was written.
//   - ErrUncertain is returned if COMMIT failed and the database may have carried it out: the
//     reply was lost, or ctx ended. Call Do again, under the same lease or the next one, and
//     let write look first. It begins when the database has settled the earlier transaction.
//   - Any other error is the database's. Nothing was written.
//
// Do retries nothing. At REPEATABLE READ and above, PostgreSQL fails with SQLSTATE 40001 if it
// had to wait for another holder. After a deadlock, it fails with 40P01, and MySQL with 40001
// (1213). In all these cases, call Do again, under the same lease. A wait for the row ends with the
// database's lock_timeout (PostgreSQL, 55P03), innodb_lock_wait_timeout (MySQL, 1205) or busy_timeout
// (SQLite).
//
// A process that is suspended in write keeps the row locked, and the next holder waiting. Bound
// that in the database, by idle_in_transaction_session_timeout (PostgreSQL) or
// idle_write_transaction_timeout (MariaDB), and do long work before Do.
//
// Cost, beside BEGIN and COMMIT: one statement for each fence of the holder.
func (s *SQL) Do(ctx context.Context, h Holder, write func(*sql.Tx) error) error {
	cs, err := s.claims(h)
	if err != nil {
		return err
	}
	tx, err := s.db.BeginTx(ctx, s.tx)
	if err != nil {
		return fmt.Errorf("fence: begin: %w", err)
	}
	defer tx.Rollback() // does nothing after Commit
	if err := s.raiseAll(ctx, tx, cs); err != nil {
		return err
	}
	if err := write(tx); err != nil {
		return err
	}
	return commit(ctx, tx)
}

// Check is what Do begins with, for a transaction of the caller's own. Call it before all other
// statements: what was read earlier may be older than what another holder has committed. Call it
// once: to present several holders, put what their Fences return into one Tokens, because calls in
// different orders can deadlock. If it returns an error, roll back. If COMMIT fails, the outcome is
// unknown, as for Do.
func (s *SQL) Check(ctx context.Context, tx *sql.Tx, h Holder) error {
	cs, err := s.claims(h)
	if err != nil {
		return err
	}
	return s.raiseAll(ctx, tx, cs)
}

// Admit refuses a holder if a later one was admitted, or has written, by any process that uses
// the table. It records the tokens before it returns.
//
// Later holders do not wait for what is admitted. So it is early refusal, and no proof: an
// earlier holder's work may still be under way when a later one is admitted. Write with Do, and
// the holder of [FromContext].
//
// Cost: one query for each fence, and a transaction if a token is new.
func (s *SQL) Admit(ctx context.Context, h Holder) (work context.Context, done func(), err error) {
	cs, err := s.claims(h)
	if err != nil {
		return nil, nil, err
	}
	for _, c := range cs {
		var last int64
		err := s.db.QueryRowContext(ctx, s.do.read, c.name).Scan(&last)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, nil, c.fail(err)
		}
		if last == c.token {
			continue
		}
		err = s.Do(ctx, h, func(*sql.Tx) error { return nil }) // one decides for all
		if errors.Is(err, ErrUncertain) {
			err = fmt.Errorf("fence: record the tokens: %v", err) // not ErrUncertain: no write of the caller's was begun
		}
		if err != nil {
			return nil, nil, err
		}
		break
	}
	return ctx, func() {}, nil
}

func (s *SQL) check() error {
	if s == nil || s.db == nil && s.err == nil {
		return errors.New("fence: SQL was not made by NewSQL")
	}
	return s.err
}

func (s *SQL) claims(h Holder) ([]claim, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	return claims(h)
}

func (s *SQL) raiseAll(ctx context.Context, tx *sql.Tx, cs []claim) error {
	for _, c := range cs {
		if err := s.raise(ctx, tx, c); err != nil {
			return err
		}
	}
	return nil
}

// raise locks the row of a fence and sets its token, or returns ErrFenced if that is higher.
func (s *SQL) raise(ctx context.Context, tx *sql.Tx, c claim) error {
	res, err := tx.ExecContext(ctx, s.do.raise, c.name, c.token)
	if err != nil {
		return c.fail(err)
	}
	if s.do.insertID {
		last, err := res.LastInsertId()
		if err == nil && last < c.token {
			err = errors.New("the driver does not return LAST_INSERT_ID")
		}
		if err != nil {
			return c.fail(err)
		}
		return c.check(last)
	}
	n, err := res.RowsAffected()
	if err == nil && n == 0 {
		err = ErrFenced
	}
	if err != nil {
		return c.fail(err)
	}
	return nil
}

// commit commits, and says so if the outcome is unknown.
func commit(ctx context.Context, tx *sql.Tx) error {
	if ctx.Err() != nil {
		return fmt.Errorf("fence: not committed: %w", context.Cause(ctx))
	}
	err := tx.Commit()
	switch {
	case err == nil:
		return nil
	case rolledBack(err), errors.Is(err, sql.ErrTxDone) && ctx.Err() != nil: // ctx ended first
		return fmt.Errorf("fence: not committed: %w", err)
	}
	return fmt.Errorf("fence: commit: %w: %w", ErrUncertain, err)
}

// rolledBack reports whether the error is the database's own and says that the transaction was
// rolled back: SQLSTATE classes 23 (a deferred constraint) and 40, except 40003, by which the
// database does not know. Drivers of PostgreSQL have errors with that method.
func rolledBack(err error) bool {
	var state interface{ SQLState() string }
	if !errors.As(err, &state) {
		return false
	}
	code := state.SQLState()
	return code != "40003" && slices.ContainsFunc([]string{"23", "40"}, func(class string) bool { return strings.HasPrefix(code, class) })
}
