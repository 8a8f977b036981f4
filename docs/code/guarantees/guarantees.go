// Package guarantees has the code of docs/guarantees.md.
package guarantees

import (
	"context"
	"database/sql"
	"errors"

	"github.com/zkrecipes/zkrecipes"
)

var errFenced = errors.New("a later holder has written")

// setBalance writes to a row of PostgreSQL under a lock, unless a later holder has.
func setBalance(ctx context.Context, db *sql.DB, lease *zkrecipes.Lease, id, balance int64) error {
	res, err := db.ExecContext(ctx, `
		UPDATE account SET balance = $3, fence = $2
		WHERE id = $1 AND (fence IS NULL OR fence <= $2)`, id, lease.Token(), balance)
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err == nil && n == 0 {
		err = errFenced // stop: this process no longer holds the lock
	}
	return err
}
