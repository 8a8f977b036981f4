// Package jobs has the code of docs/jobs.md.
package jobs

import (
	"context"
	"database/sql"
	"errors"
	"log"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/fence"
)

// nightly works for each day that is due, until ctx ends or the Client is closed.
func nightly(ctx context.Context, client *zkrecipes.Client, db *sql.DB, work func(context.Context, *sql.Tx, string) error) error {
	lock := zkrecipes.NewMutex(client, "/locks/report")
	guard := fence.NewSQL(db, fence.PostgreSQL, nil)
	next := time.NewTicker(time.Minute)
	defer next.Stop()
	for {
		err := CatchUp(ctx, lock, db, guard, work)
		switch {
		case err == nil:
		case ctx.Err() != nil, errors.Is(err, zkrecipes.ErrClosed):
			return err
		case errors.Is(err, fence.ErrFenced) && !errors.Is(err, zkrecipes.ErrLost):
			log.Print("ALERT: fences may be ahead: ", err)
		default: // ErrLost among others: the day is not done, or it is recorded
			log.Print("trying again: ", err)
		}
		select {
		case <-next.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// CatchUp works for each day that has ended and is not recorded, the earliest first.
func CatchUp(ctx context.Context, lock *zkrecipes.Mutex, db *sql.DB, guard *fence.SQL, work func(context.Context, *sql.Tx, string) error) error {
	for {
		day, err := due(ctx, db, lock.Path())
		if err != nil || day == "" {
			return err
		}
		if err := runOnce(ctx, lock, guard, day, work); err != nil {
			return err
		}
	}
}

// due returns the first day that is over and not recorded, "" if there is none. The first
// row is inserted by hand, for the day before the first one.
func due(ctx context.Context, db *sql.DB, job string) (day string, err error) {
	err = db.QueryRowContext(ctx, `
		SELECT to_char(max(period) + 1, 'YYYY-MM-DD') FROM job_done
		WHERE job = $1 HAVING max(period) + 1 < (now() AT TIME ZONE 'UTC')::date`, job).Scan(&day)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return day, err
}

// runOnce works for a period, unless that is recorded, and records it.
func runOnce(ctx context.Context, lock *zkrecipes.Mutex, guard *fence.SQL, period string, work func(context.Context, *sql.Tx, string) error) error {
	return lock.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
		return guard.Do(ctx, lease, func(tx *sql.Tx) error {
			ok, err := changes(tx.ExecContext(ctx, `
				INSERT INTO job_done (job, period, token) VALUES ($1, $2, $3)
				ON CONFLICT (job, period) DO NOTHING`, lock.Path(), period, lease.Token()))
			if err != nil || !ok {
				return err // nil: another process has done it
			}
			return work(ctx, tx, period)
		})
	})
}

// changes reports whether a statement has changed a row.
func changes(res sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}
