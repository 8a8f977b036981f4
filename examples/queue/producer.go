package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
)

// produce is the life of a producer: it puts its items, one after the other.
func produce(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("queue producer", flag.ExitOnError)
	id := flags.Int("id", 0, "number of this producer")
	items := flags.Int("items", 0, "to put")
	list := flags.String("zk", "", "servers")
	prefix := flags.String("prefix", "", "of all paths")
	flags.Parse(args)

	client, err := dial(ctx, *list, *prefix, "producer "+name(*id))
	if err != nil {
		return err
	}
	defer client.Close()

	jobs := zkrecipes.NewQueue(client, queuePath, nil)
	for i := range *items {
		job := fmt.Sprintf("%s%d", name(*id), i+1)
		report{What: puts, Job: job}.tell()
		if _, err := jobs.Put(ctx, []byte(job)); err != nil {
			return err
		}
		pause(ctx, rand.N(80*time.Millisecond))
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// report is what a worker tells the parent: that it puts a job before it does, and
// of a job that it was given while it has it.
type report struct {
	Worker  int `json:",omitempty"` // a consumer
	What    what
	Job     string          `json:",omitempty"`
	Attempt int             `json:",omitempty"`
	Token   zkrecipes.Token `json:",omitempty"`
}

type what string

const (
	puts  what = "puts"
	waits what = "waits"
	takes what = "takes"
	done  what = "done"
)

func (r report) tell() { demo.Tell(r) }
