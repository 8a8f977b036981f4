// Package fencing has the code of docs/fencing.md.
package fencing

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"

	"github.com/zkrecipes/zkrecipes"
)

// ErrFenced says that the lock is lost, whatever the lease says.
var ErrFenced = errors.New("a later holder has written")

// setBalance writes to a row of PostgreSQL under a lock, unless a later holder has.
func setBalance(ctx context.Context, db *sql.DB, lease *zkrecipes.Lease, id, balance int64) error {
	res, err := db.ExecContext(ctx, `
		INSERT INTO account (id, balance, fence) VALUES ($1, $3, $2)
		ON CONFLICT (id) DO UPDATE SET balance = EXCLUDED.balance, fence = EXCLUDED.fence
		WHERE account.fence IS NULL OR account.fence <= EXCLUDED.fence`, id, lease.Token(), balance)
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err == nil && n == 0 {
		err = ErrFenced // stop: this process no longer holds the lock
	}
	return err
}

// UnderFence carries out writes to any rows in one transaction, unless a later holder of
// the lock has written.
func UnderFence(ctx context.Context, db *sql.DB, lease *zkrecipes.Lease, write func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil) // READ COMMITTED, PostgreSQL's default
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after Commit
	res, err := tx.ExecContext(ctx, `
		INSERT INTO lock_fence (lock, fence) VALUES ($1, $2)
		ON CONFLICT (lock) DO UPDATE SET fence = EXCLUDED.fence
		WHERE lock_fence.fence <= EXCLUDED.fence`, lease.Path(), lease.Token())
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err != nil {
		return err
	}
	if n == 0 {
		return ErrFenced
	}
	if err := write(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// loop works under the lock until ctx ends, or something else than a loss is in the way.
func loop(ctx context.Context, orders *zkrecipes.Mutex, work func(context.Context, *zkrecipes.Lease) error) error {
	for {
		err := orders.Do(ctx, work)
		switch {
		case ctx.Err() != nil:
			return nil // asked to stop, and Do has released the lock
		case errors.Is(err, zkrecipes.ErrLost), errors.Is(err, zkrecipes.ErrEvicted):
			log.Print("waiting for the lock again: ", err) // refused or not: an ordinary loss
		case errors.Is(err, ErrFenced):
			return fmt.Errorf("fences may be ahead of the lock's tokens: %w", err) // alert
		case err != nil:
			return err
		}
	}
}
