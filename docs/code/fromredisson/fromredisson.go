// Package fromredisson has the code of docs/migrating/redisson.md.
package fromredisson

import (
	"context"
	"errors"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

func lock(ctx context.Context, client *zkrecipes.Client, ship func(context.Context, zkrecipes.Token) error) (err error) {
	orders := zkrecipes.NewMutex(client, "/locks/orders")
	soon, cancel := context.WithTimeout(ctx, 100*time.Second)
	lease, err := orders.Lock(soon)
	cancel()
	if errors.Is(err, context.DeadlineExceeded) {
		return errBusy
	} else if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lease.Release()) }()

	work, cancel := context.WithTimeout(lease.Context(ctx), 10*time.Second)
	defer cancel()
	return ship(work, lease.Token())
}

var errBusy = errors.New("busy")

func readWriteLock(ctx context.Context, client *zkrecipes.Client, read, write func(context.Context) error) error {
	config := zkrecipes.NewRWLock(client, "/config/lock")
	err := config.RDo(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
		return read(ctx)
	})
	if err != nil {
		return err
	}
	return config.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
		return write(ctx)
	})
}

func semaphore(ctx context.Context, client *zkrecipes.Client, export func(context.Context, int) error) (err error) {
	exports := zkrecipes.NewSemaphore(client, "/exports", 4)
	lease, err := exports.Acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lease.Release()) }()
	return export(lease.Context(ctx), lease.Slot())
}

func latch(ctx context.Context, client *zkrecipes.Client, workers int, compute func(context.Context, int) error) error {
	done := zkrecipes.NewBarrier(client, "/jobs/17", workers)
	part, err := done.Wait(ctx) // until all workers are there
	if err != nil {
		return err
	}
	if err := compute(ctx, part); err != nil {
		return err
	}
	_, err = done.Wait(ctx) // until all parts are done
	return err
}

func queue(ctx context.Context, client *zkrecipes.Client, bill func(context.Context, []byte) error) error {
	jobs := zkrecipes.NewQueue(client, "/jobs", &zkrecipes.QueueOptions{MaxLen: 1000})
	if _, err := jobs.Put(ctx, []byte("invoice 17")); err != nil {
		return err
	}
	return jobs.Serve(ctx, func(ctx context.Context, job *zkrecipes.Item) error {
		return bill(ctx, job.Data)
	})
}
