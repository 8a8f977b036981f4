package main

import (
	"context"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
)

// consume works on items until ctx ends.
func consume(ctx context.Context, p params) error {
	client, err := p.Dial(ctx, "consumer "+demo.Letter(p.ID), sessionTimeout)
	if err != nil {
		return err
	}
	defer client.Close()

	jobs := zkrecipes.NewQueue(client, queuePath, &zkrecipes.QueueOptions{Workers: 2})
	demo.Tell(report{Worker: p.ID, What: waits})
	return jobs.Serve(ctx, func(ctx context.Context, job *zkrecipes.Item) error {
		r := report{Worker: p.ID, What: takes, Job: string(job.Data), Attempt: job.Attempt}
		demo.Tell(r)
		if r.Job == fatal && r.Attempt == 1 {
			demo.Pause(ctx, time.Minute, time.Minute) // it is killed in the middle, however busy the machine is
		}
		demo.Pause(ctx, 60*time.Millisecond, 180*time.Millisecond) // the work
		if err := job.Err(); err != nil {
			return err // the item is no longer this consumer's
		}
		r.What = done
		demo.Tell(r)
		return nil // Serve acks the item
	})
}
