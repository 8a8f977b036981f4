// Package fromkazoo has the code of docs/migrating/kazoo.md.
package fromkazoo

import (
	"context"

	"github.com/zkrecipes/zkrecipes"
)

func lock(ctx context.Context, client *zkrecipes.Client, ship func(context.Context) error) error {
	orders := zkrecipes.NewMutex(client, "/locks/orders")
	return orders.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
		return ship(ctx) // ctx ends if the lock is lost
	})
}

func readLock(ctx context.Context, client *zkrecipes.Client, read func(context.Context) error) error {
	config := zkrecipes.NewRWLock(client, "/config/lock")
	return config.RDo(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
		return read(ctx)
	})
}

func semaphore(ctx context.Context, client *zkrecipes.Client, export func(context.Context) error) error {
	exports := zkrecipes.NewSemaphore(client, "/exports", 4)
	return exports.Do(ctx, func(ctx context.Context, lease *zkrecipes.SlotLease) error {
		return export(ctx)
	})
}

func election(ctx context.Context, client *zkrecipes.Client, lead func(context.Context) error) error {
	billing := zkrecipes.NewElection(client, "/services/billing")
	return billing.Lead(ctx, []byte("10.0.0.7:9000"), func(ctx context.Context, term *zkrecipes.Term) error {
		return lead(ctx)
	})
}

func barrier(ctx context.Context, client *zkrecipes.Client) error {
	maintenance := zkrecipes.NewGate(client, "/maintenance")
	if err := maintenance.Shut(ctx); err != nil {
		return err
	}
	if err := maintenance.Open(ctx); err != nil {
		return err
	}
	return maintenance.Wait(ctx)
}

func doubleBarrier(ctx context.Context, client *zkrecipes.Client, play func(context.Context)) error {
	visit, err := zkrecipes.NewDoubleBarrier(client, "/game", 5).Enter(ctx)
	if err != nil {
		return err
	}
	play(visit.Context(ctx))
	return visit.Leave(ctx)
}

func queue(ctx context.Context, client *zkrecipes.Client, bill func(context.Context, []byte) error) error {
	jobs := zkrecipes.NewQueue(client, "/jobs", nil)
	if _, err := jobs.Put(ctx, []byte("invoice 17")); err != nil {
		return err
	}
	job, err := jobs.Take(ctx)
	if err != nil {
		return err
	}
	if err := bill(job.Context(ctx), job.Data); err != nil {
		return job.Nack(ctx) // back to its old position
	}
	return job.Ack(ctx)
}
