// Package locks has the code of docs/locks.md.
package locks

import (
	"context"
	"errors"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// keep takes a lock again and again, which costs no request while nobody else wants it.
func keep(ctx context.Context, client *zkrecipes.Client, update func(context.Context, zkrecipes.Token) error) error {
	shard := zkrecipes.NewMutex(client, "/locks/shard-7", zkrecipes.KeepFor(5*time.Second))
	for range 1000 {
		err := shard.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
			return update(ctx, lease.Token())
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// move moves an arm that knows no fencing tokens.
func move(ctx context.Context, client *zkrecipes.Client, step func(context.Context) error) error {
	arm := zkrecipes.NewMutex(client, "/locks/arm-3", zkrecipes.LockDelay(15*time.Second))
	return arm.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
		return step(ctx) // must notice within 15 s that ctx has ended
	})
}

// sweepOnce sweeps, unless another process sweeps at this moment.
func sweepOnce(ctx context.Context, client *zkrecipes.Client, sweep func(context.Context) error) (err error) {
	lease, err := zkrecipes.NewMutex(client, "/locks/sweep").TryLock(ctx)
	if errors.Is(err, zkrecipes.ErrLocked) {
		return nil // another process is at it
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lease.Release()) }()
	return sweep(lease.Context(ctx))
}
