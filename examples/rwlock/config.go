package main

import (
	"context"
	"fmt"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
)

// The config says to which backend a route leads, and where that backend is. The
// two znodes only fit each other if they are of the same version.
const (
	lockPath     = "/lock"
	routesPath   = "/routes"
	backendsPath = "/backends"
)

func routes(version int) []byte   { return fmt.Appendf(nil, "%d: /shop -> shop-%[1]d", version) }
func backends(version int) []byte { return fmt.Appendf(nil, "%d: shop-%[1]d = 10.0.0.%[1]d", version) }

// config is the versions of the two znodes, as they were read.
type config struct{ Routes, Backends int }

func (c config) torn() bool { return c.Routes != c.Backends }

// get reads the config under the lock. It pauses between the two reads, so that
// a change that can come between them does.
func get(ctx context.Context, lease *zkrecipes.Lease, pause time.Duration) (c config, err error) {
	if c.Routes, err = getVersion(ctx, lease, routesPath); err != nil {
		return config{}, err
	}
	if err = demo.Pause(ctx, pause, pause); err != nil {
		return config{}, err
	}
	if c.Backends, err = getVersion(ctx, lease, backendsPath); err != nil {
		return config{}, err
	}
	return c, nil
}

func getVersion(ctx context.Context, lease *zkrecipes.Lease, path string) (version int, err error) {
	data, _, err := lease.Get(ctx, path)
	if err != nil {
		return 0, err
	}
	if _, err = fmt.Sscanf(string(data), "%d:", &version); err != nil {
		return 0, fmt.Errorf("%s is %q: %w", path, data, err)
	}
	return version, nil
}

// params are the parameters of the writer and of a reader.
type params struct {
	demo.Env
	ID       int // of a reader, from 1; the writer is 0
	Versions int // that the writer publishes
}
