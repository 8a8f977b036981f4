package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// A config says which backend a route leads to, and where that backend is. Two
// znodes of different versions lead nowhere.
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

// get reads the config with the lock held, in two requests with a while between
// them: a change that could come in between would.
func get(ctx context.Context, lease *zkrecipes.Lease, while time.Duration) (c config, err error) {
	if c.Routes, err = getVersion(ctx, lease, routesPath); err != nil {
		return config{}, err
	}
	if err = pause(ctx, while); err != nil {
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

// pause stands for work. It ends early if the process is told to stop or, with
// the context of a lease, the lock is lost.
func pause(ctx context.Context, while time.Duration) error {
	select {
	case <-time.After(while):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func dial(ctx context.Context, servers, prefix, identity string) (*zkrecipes.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return zkrecipes.Dial(ctx, strings.Split(servers, ","), &zkrecipes.Options{
		Prefix:   prefix,
		Identity: identity,
	})
}
