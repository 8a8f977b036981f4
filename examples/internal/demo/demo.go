// Package demo holds what the examples share, none of which is about ZooKeeper
// recipes: a program that starts copies of itself as workers, finds a ZooKeeper
// for them, and draws what they report.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Role is what a worker process does, with its Worker.Params in JSON, until it
// is done or ctx ends.
type Role func(ctx context.Context, params []byte) error

// Play makes a Role of a function that takes its parameters as a P.
func Play[P any](work func(ctx context.Context, params P) error) Role {
	return func(ctx context.Context, params []byte) error {
		var p P
		if err := json.Unmarshal(params, &p); err != nil {
			return fmt.Errorf("a worker is started by Run, not by hand: %w", err)
		}
		return work(ctx, p)
	}
}

// Main runs parent with the arguments of the command line. In a process that Run
// has started, it runs the role of that worker instead. An interrupt ends the
// context of either; a worker's also ends when Run stops it, or when the parent
// dies in whatever way. Main does not return after an error.
func Main(program string, parent func(ctx context.Context, args []string) error, roles map[string]Role) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	args := os.Args[1:]
	var err error
	if len(args) == 2 && roles[args[0]] != nil {
		ctx = untilInputEnds(ctx)
		err = roles[args[0]](ctx, []byte(args[1]))
		if errors.Is(err, context.Canceled) && ctx.Err() != nil {
			err = nil // the parent stopped this worker
		}
	} else {
		err = parent(ctx, args)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", program, err)
		os.Exit(1)
	}
}

// untilInputEnds returns a context that ends with standard input, see Run.
func untilInputEnds(ctx context.Context) context.Context {
	ctx, stop := context.WithCancel(ctx)
	go func() { // ends with the process
		io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	return ctx
}

// Pause stands for work that takes between least and most. It ends early, with
// the cause, if ctx ends: the worker was stopped or, with the context of a lease,
// the lock was lost.
func Pause(ctx context.Context, least, most time.Duration) error {
	select {
	case <-time.After(least + rand.N(most-least+1)):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
