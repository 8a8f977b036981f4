// Package fromcurator has the code of docs/migrating/curator.md.
package fromcurator

import (
	"context"
	"errors"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// Connect opens the client.
func Connect(ctx context.Context) (*zkrecipes.Client, error) {
	servers := []string{"zk1:2181", "zk2:2181", "zk3:2181"}
	client, err := zkrecipes.Dial(ctx, servers, &zkrecipes.Options{
		SessionTimeout: 60 * time.Second, // Curator's default; the library's is 10 s
		Prefix:         "/shop",          // the namespace
	})
	return client, err
}

func mutex(ctx context.Context, client *zkrecipes.Client, ship func(context.Context, zkrecipes.Token) error) error {
	orders := zkrecipes.NewMutex(client, "/locks/orders")
	soon, cancel := context.WithTimeout(ctx, 5*time.Second)
	lease, err := orders.Lock(soon)
	cancel()
	if errors.Is(err, context.DeadlineExceeded) {
		return errBusy
	} else if err != nil {
		return err
	}
	defer lease.Release()
	return ship(lease.Context(ctx), lease.Token())
}

var errBusy = errors.New("busy")

func readWriteLock(ctx context.Context, client *zkrecipes.Client, publish, verify func(context.Context) error) error {
	config := zkrecipes.NewRWLock(client, "/config/lock")
	return config.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
		if err := publish(ctx); err != nil {
			return err
		}
		if err := config.Downgrade(ctx, lease); err != nil {
			return err
		}
		return verify(ctx) // as a reader
	})
}

func semaphore(ctx context.Context, client *zkrecipes.Client, export func(context.Context, []int) error) error {
	exports := zkrecipes.NewSemaphore(client, "/exports", 4)
	lease, err := exports.AcquireN(ctx, 2)
	if err != nil {
		return err
	}
	defer lease.Release()
	return export(lease.Context(ctx), lease.Slots())
}

func multiLock(ctx context.Context, client *zkrecipes.Client, transfer func(context.Context) error) error {
	from, to := zkrecipes.NewMutex(client, "/accounts/17"), zkrecipes.NewMutex(client, "/accounts/4")
	return zkrecipes.DoAll(ctx, []*zkrecipes.Mutex{from, to}, func(ctx context.Context, held *zkrecipes.Leases) error {
		return transfer(ctx)
	})
}

func leader(ctx context.Context, client *zkrecipes.Client, bill func(context.Context) error) error {
	billing := zkrecipes.NewElection(client, "/services/billing")
	return billing.Lead(ctx, []byte("10.0.0.7:9000"), func(ctx context.Context, term *zkrecipes.Term) error {
		return bill(ctx) // until ctx ends; a return resigns
	})
}

// guarded leads only while it also holds the lock that the other library's leader takes.
func guarded(ctx context.Context, client *zkrecipes.Client, bill func(context.Context) error) error {
	billing := zkrecipes.NewElection(client, "/services/billing")
	guard := zkrecipes.NewMutex(client, "/services/billing-guard")
	return billing.Lead(ctx, []byte("10.0.0.7:9000"), func(ctx context.Context, term *zkrecipes.Term) error {
		return guard.Do(ctx, func(ctx context.Context, _ *zkrecipes.Lease) error {
			return bill(ctx)
		})
	})
}

func barriers(ctx context.Context, client *zkrecipes.Client, play func(context.Context) error) error {
	if err := zkrecipes.NewGate(client, "/maintenance").Wait(ctx); err != nil {
		return err
	}
	visit, err := zkrecipes.NewDoubleBarrier(client, "/game", 5).Enter(ctx)
	if err != nil {
		return err
	}
	if err := play(visit.Context(ctx)); err != nil {
		return err
	}
	return visit.Leave(ctx)
}

func queue(ctx context.Context, client *zkrecipes.Client, bill func(context.Context, []byte) error) error {
	jobs := zkrecipes.NewQueue(client, "/jobs", &zkrecipes.QueueOptions{Workers: 4})
	if _, err := jobs.Put(ctx, []byte("invoice 17")); err != nil {
		return err
	}
	return jobs.Serve(ctx, func(ctx context.Context, job *zkrecipes.Item) error {
		return bill(ctx, job.Data)
	})
}
