package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// read is the life of a reader: it reads the config again and again, until it
// has read the last version.
func read(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("rwlock reader", flag.ExitOnError)
	id := flags.Int("id", 0, "number of this reader")
	versions := flags.Int("versions", 0, "the last version")
	list := flags.String("zk", "", "servers")
	prefix := flags.String("prefix", "", "of all paths")
	flags.Parse(args)

	client, err := dial(ctx, *list, *prefix, fmt.Sprint("reader ", *id))
	if err != nil {
		return err
	}
	defer client.Close()

	lock := zkrecipes.NewRWLock(client, lockPath)
	for last := -1; last < *versions; {
		report{Worker: *id, What: waits}.tell()
		err := lock.RDo(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
			report{Worker: *id, What: shares}.tell()
			left := report{Worker: *id, What: leaves}
			defer func() { left.tell() }()
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
			report{Worker: *id, What: lost}.tell()
		case err != nil:
			return err
		}
		pause(ctx, 20*time.Millisecond+rand.N(100*time.Millisecond))
	}
	report{Worker: *id, What: done}.tell()
	return nil
}
