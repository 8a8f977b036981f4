package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/fence"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// A service of one process, and two holders of a lock. The first one does not know that it has lost
// the lock.
func Example() {
	srv, err := zktest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	ctx := context.Background()
	client, err := zkrecipes.Dial(ctx, []string{srv.Addr()}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	guard := fence.NewMemory(nil)
	guard.Raise("/locks/orders", 0) // a new service: no holder has written before
	service := httptest.NewServer(fence.Handler(guard, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		fmt.Println("written")
	}), nil))
	defer service.Close()

	write := func(lease *zkrecipes.Lease) error {
		r, err := http.NewRequestWithContext(fence.NewContext(ctx, lease), http.MethodPut, service.URL, nil)
		if err != nil {
			return err
		}
		resp, err := (&http.Client{Transport: &fence.Transport{}}).Do(r)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		return fence.ResponseError(resp)
	}
	lock := zkrecipes.NewMutex(client, "/locks/orders")
	for range 2 {
		lease, err := lock.Lock(ctx)
		if err != nil {
			log.Fatal(err)
		}
		defer func() { fmt.Println("fenced:", errors.Is(write(lease), fence.ErrFenced)) }()
		if err := write(lease); err != nil {
			log.Fatal(err)
		}
		if err := lease.Release(); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// written
	// written
	// written
	// fenced: false
	// fenced: true
}

// The reply to COMMIT may be lost. The next call finds out what the earlier one has done.
func ExampleSQL_Do() {
	var db *sql.DB // of PostgreSQL, opened with a driver for database/sql
	var lock *zkrecipes.Mutex
	guard := fence.NewSQL(db, fence.PostgreSQL, nil)

	pay := func(ctx context.Context, invoice int64) error {
		return lock.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
			for {
				err := guard.Do(ctx, lease, func(tx *sql.Tx) error {
					// Does nothing if the invoice is paid: by another holder, or by this loop.
					_, err := tx.ExecContext(ctx, "UPDATE invoice SET paid = true WHERE id = $1 AND NOT paid", invoice)
					return err
				})
				if !errors.Is(err, fence.ErrUncertain) || ctx.Err() != nil {
					return err
				}
			}
		})
	}
	_ = pay
}
