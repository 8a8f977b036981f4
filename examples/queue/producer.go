package main

import (
	"context"
	"fmt"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
)

const (
	queuePath = "/jobs"

	// sessionTimeout is short for the sake of the demo, because the killed
	// consumer's item stays claimed for that long. Use 10 s or more in a service.
	sessionTimeout = 2 * time.Second

	// fatal is the job whose first consumer is killed.
	fatal = "A2"
)

// params are the parameters of a producer and of a consumer.
type params struct {
	demo.Env
	ID    int
	Items int // that a producer puts
}

// produce puts the producer's items, one after the other.
func produce(ctx context.Context, p params) error {
	client, err := p.Dial(ctx, "producer "+demo.Letter(p.ID), sessionTimeout)
	if err != nil {
		return err
	}
	defer client.Close()

	jobs := zkrecipes.NewQueue(client, queuePath, nil)
	for i := range p.Items {
		job := fmt.Sprintf("%s%d", demo.Letter(p.ID), i+1)
		demo.Tell(report{What: puts, Job: job})
		if _, err := jobs.Put(ctx, []byte(job)); err != nil {
			return err
		}
		demo.Pause(ctx, 0, 80*time.Millisecond)
	}
	return nil
}

// report is what a process tells the parent. A producer reports a job before it
// puts it; a consumer reports one while it has it.
type report struct {
	Worker  int // the consumer
	What    what
	Job     string `json:",omitempty"`
	Attempt int    `json:",omitempty"`
}

type what string

const (
	puts  what = "puts"  // the producer is about to put the job
	waits what = "waits" // the consumer has no job yet
	takes what = "takes" // the consumer was given the job
	done  what = "done"  // the consumer has done the job
)
