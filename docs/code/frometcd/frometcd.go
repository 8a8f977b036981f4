// Package frometcd has the code of docs/migrating/etcd.md.
package frometcd

import (
	"context"
	"errors"

	"github.com/zkrecipes/zkrecipes"
)

func mutex(ctx context.Context, client *zkrecipes.Client, ship func(context.Context, zkrecipes.Token) error) error {
	orders := zkrecipes.NewMutex(client, "/locks/orders")
	return orders.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
		return ship(ctx, lease.Token())
	})
}

func tryLock(ctx context.Context, orders *zkrecipes.Mutex) (*zkrecipes.Lease, error) {
	lease, err := orders.TryLock(ctx)
	if errors.Is(err, zkrecipes.ErrLocked) {
		return nil, errBusy
	}
	return lease, err
}

var errBusy = errors.New("busy")

func election(ctx context.Context, client *zkrecipes.Client, lead func(context.Context) error) (err error) {
	billing := zkrecipes.NewElection(client, "/services/billing")
	term, err := billing.Campaign(ctx, []byte("10.0.0.7:9000"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, term.Resign()) }()
	return lead(term.Context(ctx))
}

func observe(ctx context.Context, client *zkrecipes.Client, follow func(zkrecipes.Leader)) error {
	for leader, err := range zkrecipes.NewElection(client, "/services/billing").Observe(ctx) {
		if err != nil {
			return err
		}
		follow(leader) // leader.None() if there is none
	}
	return nil
}

// lock is a lock of the other library: it calls f while it is held.
type lock func(ctx context.Context, f func(context.Context) error) error

// both holds the old lock and the new one, in this order.
func both(ctx context.Context, old lock, orders *zkrecipes.Mutex, f func(context.Context) error) error {
	return old(ctx, func(ctx context.Context) error {
		return orders.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
			return f(ctx) // ctx ends if one of the two is lost
		})
	})
}
