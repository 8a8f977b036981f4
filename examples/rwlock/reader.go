package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
)

// read reads the config again and again, until it has read the last version.
func read(ctx context.Context, p params) error {
	client, err := p.Dial(ctx, "reader "+name(p.ID), 0)
	if err != nil {
		return err
	}
	defer client.Close()

	lock := zkrecipes.NewRWLock(client, lockPath)
	for last := -1; last < p.Versions; {
		demo.Tell(report{Worker: p.ID, What: waits})
		err := lock.RDo(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
			demo.Tell(report{Worker: p.ID, What: shares})
			left := report{Worker: p.ID, What: leaves}
			defer func() { demo.Tell(left) }()
			found, err := get(ctx, lease, 50*time.Millisecond+rand.N(100*time.Millisecond))
			if err != nil {
				return err
			}
			left.Found = &found
			last = min(found.Routes, found.Backends)
			return nil
		})
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, zkrecipes.ErrLost):
			demo.Tell(report{Worker: p.ID, What: lost})
		case errors.Is(err, zkrecipes.ErrEvicted):
			// It waited. Try again.
		case err != nil:
			return err
		}
		demo.Pause(ctx, 20*time.Millisecond, 120*time.Millisecond)
	}
	demo.Tell(report{Worker: p.ID, What: done})
	return nil
}
