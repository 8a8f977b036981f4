// Ids shows a semaphore at work. Several processes take a slot each, which is their
// worker id, and make unique, growing ids of 63 bits. One of them is killed, and a spare
// process takes its slot. `go run ./examples/ids` runs it.
//
//	go run ./examples/ids [-workers 3] [-rounds 5] [-zk host:port,...]
//
// An id is a time, a slot and a count. A worker uses a time only after it has reserved it
// for its slot, by a lease.Commit. So the next holder of the slot begins where this one
// must have ended, whatever their clocks say and however late a holder learns that it has
// lost its slot. The program ends with an error if an id came twice, if a worker's ids
// did not grow, or if two workers had a slot at the same time.
//
// Without -zk the first process is also the ZooKeeper: it serves package zktest
// to the others on loopback.
//
// Copy from generator.go. The rest starts processes and draws.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
)

const (
	// victimSlot is the slot whose first holder is killed.
	victimSlot = 1

	sessionTimeout = 4 * time.Second
	batchSize      = 100
)

func main() {
	demo.Main("ids", parent, map[string]demo.Role{"worker": demo.Play(work)})
}

// parent runs the workers and a spare one, and compares the ids that they reported.
func parent(ctx context.Context, args []string) (err error) {
	flags := demo.NewFlags("ids")
	workers := flags.Processes("workers", 3, 2, "number of slots, and of worker processes beside the spare one")
	rounds := flags.Count("rounds", 5, 2, "batches of ids that each worker makes")
	env, stop, err := flags.Start(args)
	if err != nil {
		return err
	}
	defer stop()
	defer func() { // the reserved times are persistent
		err = errors.Join(err, demo.Remove(env))
	}()
	fmt.Printf("%d slots, %d workers, batches of %d ids; requested session timeout: %v\n\n", *workers, *workers+1, batchSize, sessionTimeout)

	crew := demo.Workers(*workers+1, "worker", func(i int) any {
		return params{Env: env, ID: i, Slots: *workers, Spare: i == *workers}
	})
	board := newBoard(os.Stdout, *workers+1, *rounds)
	take := func(r report) (demo.Action, int) {
		switch {
		case board.take(r):
			return demo.Kill, r.Worker
		case board.complete():
			return demo.End, 0
		}
		return demo.Nothing, 0
	}
	return demo.Run(ctx, crew, take, func(_ context.Context, complete bool) (string, error) {
		return board.settle(complete)
	})
}

// params are the parameters of a worker.
type params struct {
	demo.Env
	ID    int
	Slots int
	Spare bool // comes when the others have their slots
}

// work takes a slot and makes ids until it is stopped.
func work(ctx context.Context, p params) error {
	if p.Spare {
		if err := demo.Pause(ctx, time.Second, time.Second); err != nil {
			return err
		}
	}
	client, err := p.Dial(ctx, "worker "+demo.Letter(p.ID), sessionTimeout)
	if err != nil {
		return err
	}
	defer client.Close()
	workers := zkrecipes.NewSemaphore(client, "/workers", p.Slots)
	return workers.Do(ctx, func(ctx context.Context, lease *zkrecipes.SlotLease) error {
		g, err := newGenerator(ctx, lease)
		if err != nil {
			return err
		}
		defer demo.Tell(report{Worker: p.ID, Left: true}) // before the slot is free
		for {
			r := report{Worker: p.ID, Slot: lease.Slot()}
			for range batchSize {
				id, err := g.next(ctx)
				if err != nil {
					return err
				}
				r.IDs = append(r.IDs, id)
			}
			demo.Tell(r)
			if err := demo.Pause(ctx, 50*time.Millisecond, 150*time.Millisecond); err != nil {
				return err
			}
		}
	})
}

// report is what a worker tells the parent: a batch of ids, or that it leaves its slot.
type report struct {
	Worker, Slot int
	IDs          []int64
	Left         bool
}
