package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
)

// write is the life of the writer: it publishes as many versions as it is told.
func write(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("rwlock writer", flag.ExitOnError)
	versions := flags.Int("versions", 0, "versions to publish")
	list := flags.String("zk", "", "servers")
	prefix := flags.String("prefix", "", "of all paths")
	flags.Parse(args)

	client, err := dial(ctx, *list, *prefix, "writer")
	if err != nil {
		return err
	}
	defer client.Close()

	lock := zkrecipes.NewRWLock(client, lockPath)
	for version := 1; version <= *versions; {
		pause(ctx, 100*time.Millisecond+rand.N(200*time.Millisecond))
		err := publish(ctx, lock, version)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			version++
		case errors.Is(err, zkrecipes.ErrLost):
			report{What: lost}.tell()
		case errors.Is(err, zkrecipes.ErrUncertain):
			// Once more, in either case: to publish a version twice does no harm.
		default:
			return err
		}
	}
	report{What: done}.tell()
	return nil
}

// publish publishes a version, and lets the readers go while it verifies it.
func publish(ctx context.Context, lock *zkrecipes.RWLock, version int) error {
	report{What: waits}.tell()
	return lock.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
		report{What: alone, Version: version}.tell()
		left := report{What: leaves}
		defer func() { left.tell() }()
		if err := pause(ctx, 150*time.Millisecond+rand.N(100*time.Millisecond)); err != nil {
			return err
		}
		// One transaction: a writer that dies leaves the old version or the new one.
		_, err := lease.Commit(ctx,
			&zk.SetDataRequest{Path: routesPath, Data: routes(version), Version: -1},
			&zk.SetDataRequest{Path: backendsPath, Data: backends(version), Version: -1})
		if err != nil {
			return err
		}

		// The readers that wait go now, and no other writer before Release: what is
		// verified is what has been published.
		report{What: shares, Version: version}.tell()
		if err := lock.Downgrade(ctx, lease); err != nil {
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

// report is what a worker tells the parent. Of what it holds it tells after it
// was granted, and before it gives it up: who holds at the same time by what is
// told did so.
type report struct {
	Worker  int // 0 is the writer
	What    what
	Version int     `json:",omitempty"` // that the writer publishes
	Found   *config `json:",omitempty"` // what was read
}

type what string

const (
	waits  what = "waits"  // for the lock
	alone  what = "alone"  // holds it, and is about to publish
	shares what = "shares" // it with others; the writer: has published for certain
	leaves what = "leaves" // the lock to others
	lost   what = "lost"   // it before it left
	done   what = "done"   // with all it had to do
)

func (r report) tell() { demo.Tell(r) }
