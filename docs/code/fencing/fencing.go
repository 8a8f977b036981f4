// Package fencing has the code of docs/fencing.md.
package fencing

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"net/http"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/fence"
)

// NewGuard returns the guard of the service's database.
func NewGuard(ctx context.Context, db *sql.DB) (*fence.SQL, error) {
	guard := fence.NewSQL(db, fence.PostgreSQL, nil)
	return guard, guard.Migrate(ctx) // or create the table of fence.SchemaPostgreSQL
}

// Withdraw writes to the database under the lock.
func Withdraw(ctx context.Context, lock *zkrecipes.Mutex, guard *fence.SQL, id, amount int64) error {
	return lock.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
		return guard.Do(ctx, lease, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE account SET balance = balance - $2 WHERE id = $1", id, amount)
			return err
		})
	})
}

// loop works under the lock until ctx ends, or something else than a loss is in the way.
func loop(ctx context.Context, orders *zkrecipes.Mutex, work func(context.Context, *zkrecipes.Lease) error) error {
	refused := false // the lease before was
	for {
		err := orders.Do(ctx, work)
		switch {
		case ctx.Err() != nil:
			return nil // asked to stop, and Do has released the lock
		case errors.Is(err, zkrecipes.ErrLost), errors.Is(err, zkrecipes.ErrEvicted):
			log.Print("waiting for the lock again: ", err) // refused or not: an ordinary loss
		case errors.Is(err, fence.ErrFenced) && !refused:
			refused = true // lock again once: an ordinary loss may lack ErrLost
		case errors.Is(err, fence.ErrFenced):
			return fmt.Errorf("fences may be ahead of the lock's tokens: %w", err) // alert
		case err != nil:
			return err
		default:
			refused = false
		}
	}
}

// Service returns a service of several instances, which have the database in common.
func Service(guard *fence.SQL, write func(*http.Request, *sql.Tx) error) http.Handler {
	put := func(w http.ResponseWriter, r *http.Request) {
		holder, _ := fence.FromContext(r.Context())
		err := guard.Do(r.Context(), holder, func(tx *sql.Tx) error { return write(r, tx) })
		if err != nil {
			fence.Refuse(w, err)
		}
	}
	return fence.Handler(guard, http.HandlerFunc(put), &fence.HandlerOptions{
		Names: func(*http.Request) []string { return []string{"/app/locks/orders"} },
	})
}

// Send sends a request to it, under the lock.
func Send(r *http.Request, lease *zkrecipes.Lease) error {
	client := &http.Client{Transport: &fence.Transport{}}
	resp, err := client.Do(r.WithContext(fence.NewContext(r.Context(), lease)))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return fence.ResponseError(resp) // ErrFenced: the lock is lost
}
