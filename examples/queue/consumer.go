package main

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// consume is the life of a consumer: it works on items until it is told to stop.
func consume(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("queue consumer", flag.ExitOnError)
	id := flags.Int("id", 0, "number of this consumer")
	flags.Int("items", 0, "that a producer puts")
	list := flags.String("zk", "", "servers")
	prefix := flags.String("prefix", "", "of all paths")
	flags.Parse(args)

	client, err := dial(ctx, *list, *prefix, "consumer "+name(*id))
	if err != nil {
		return err
	}
	defer client.Close()

	jobs := zkrecipes.NewQueue(client, queuePath, nil)
	report{Worker: *id, What: waits}.tell()
	err = jobs.Serve(ctx, func(ctx context.Context, job *zkrecipes.Item) error {
		told := report{Worker: *id, What: takes, Job: string(job.Data), Attempt: job.Attempt, Token: job.Token()}
		told.tell()
		pause(ctx, 60*time.Millisecond+rand.N(120*time.Millisecond)) // the work
		if err := job.Err(); err != nil {
			return err // somebody else has it by now
		}
		told.What = done
		told.tell()
		return nil // Serve acks it
	})
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil
	}
	return err
}
