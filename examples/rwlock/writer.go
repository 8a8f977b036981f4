package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
)

// write publishes the versions of the config, one after the other.
func write(ctx context.Context, p params) error {
	client, err := p.Dial(ctx, "writer", 0)
	if err != nil {
		return err
	}
	defer client.Close()

	lock := zkrecipes.NewRWLock(client, lockPath)
	for version := 1; version <= p.Versions; {
		demo.Pause(ctx, 100*time.Millisecond, 300*time.Millisecond)
		err := publish(ctx, lock, version)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			version++
		case errors.Is(err, zkrecipes.ErrLost):
			demo.Tell(report{What: lost})
		case errors.Is(err, zkrecipes.ErrUncertain), errors.Is(err, zkrecipes.ErrEvicted):
			// Try again, as after a loss: publishing a version twice does no harm.
		default:
			return err
		}
	}
	demo.Tell(report{What: done})
	return nil
}

// publish publishes a version, and lets the readers in while it verifies it.
func publish(ctx context.Context, lock *zkrecipes.RWLock, version int) error {
	demo.Tell(report{What: waits})
	return lock.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
		demo.Tell(report{What: alone, Version: version})
		left := report{What: leaves}
		defer func() { demo.Tell(left) }()
		if err := demo.Pause(ctx, 150*time.Millisecond, 250*time.Millisecond); err != nil {
			return err
		}
		// One transaction: a writer that dies leaves the old version or the new one.
		_, err := lease.Commit(ctx,
			zkrecipes.OpSet(routesPath, routes(version), -1),
			zkrecipes.OpSet(backendsPath, backends(version), -1))
		if err != nil {
			return err
		}

		// From here on readers are let in, but no other writer before the lease is
		// released: what is verified is what was published.
		demo.Tell(report{What: shares, Version: version})
		if err := lease.Downgrade(ctx); err != nil {
			return err
		}
		found, err := get(ctx, lease, 100*time.Millisecond)
		if err != nil {
			return err
		}
		left.Found = &found
		if found != (config{version, version}) {
			return fmt.Errorf("published version %d, and found %+v", version, found)
		}
		return nil
	})
}

// report is what a process tells the parent. It reports a lock after it was
// granted and before it releases it, so processes that hold the lock at the same
// time by their reports really did so.
type report struct {
	Worker  int // 0 is the writer
	What    what
	Version int     `json:",omitempty"` // that the writer publishes
	Found   *config `json:",omitempty"` // what was read
}

type what string

const (
	waits  what = "waits"  // for the lock
	alone  what = "alone"  // the writer holds the lock, and is about to publish
	shares what = "shares" // holds the lock with others; the writer has published for certain
	leaves what = "leaves" // is about to release the lock
	lost   what = "lost"   // the lock, before releasing it
	done   what = "done"   // with everything
)
