// Mutex shows a lock at work. Several processes add to one counter, a znode,
// under one lock, and one of them is killed while it holds the lock. `make demo`
// runs it.
//
//	go run ./examples/mutex [-workers 4] [-rounds 5] [-zk host:port,...]
//
// Each addition is a lease.Commit. The servers apply it only if the lock is still
// held, and it stores the fencing token beside the sum. The program draws which
// worker held the lock and when, and ends with an error if an addition was lost.
//
// Without -zk the first process is also the ZooKeeper: it serves package zktest
// to the others on loopback. `make demo ARGS='mutex -zk'` runs the program on a real
// server.
//
// Copy from worker.go. The rest starts processes and draws.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
)

// victim is the worker that is killed.
const victim = 1

func main() {
	demo.Main("mutex", parent, map[string]demo.Role{"worker": demo.Play(work)})
}

// parent creates the counter, runs the workers, and compares the counter with
// what they reported.
func parent(ctx context.Context, args []string) error {
	flags := demo.NewFlags("mutex")
	workers := flags.Processes("workers", 4, 2, "number of worker processes")
	rounds := flags.Count("rounds", 5, 1, "additions that each worker makes")
	env, stop, err := flags.Start(args)
	if err != nil {
		return err
	}
	defer stop()
	fmt.Printf("%d workers, %d additions each, under one lock; requested session timeout: %v\n\n", *workers, *rounds, sessionTimeout)

	client, err := env.Dial(ctx, "parent", sessionTimeout)
	if err != nil {
		return err
	}
	defer client.Close()
	lock := zkrecipes.NewMutex(client, lockPath)
	if err := create(ctx, lock); err != nil {
		return err
	}

	killRound := (*rounds + 1) / 2
	crew := demo.Workers(*workers, "worker", func(i int) any {
		p := params{Env: env, ID: i, Rounds: *rounds}
		if i == victim {
			p.Linger = killRound
		}
		return p
	})
	board := newBoard(os.Stdout, *workers, *rounds)
	take := func(r report) (do demo.Action, worker int) {
		board.take(r)
		if r.Worker == victim && r.Round == killRound && r.What == holds {
			time.Sleep(100 * time.Millisecond) // so that the board shows it as holder
			board.kill(victim)
			do = demo.Kill
		}
		return do, victim
	}
	return demo.Run(ctx, crew, take, func(ctx context.Context, complete bool) (string, error) {
		end, err := remove(ctx, lock)
		if err != nil {
			return "", err
		}
		return board.settle(end, complete)
	})
}

// create creates the counter.
func create(ctx context.Context, lock *zkrecipes.Mutex) error {
	return lock.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
		zero := counter{token: lease.Token()}
		_, err := lease.Commit(ctx, zkrecipes.OpCreate(counterPath, zero.bytes(), 0, nil))
		return err
	})
}

// remove deletes the counter and returns its last value.
func remove(ctx context.Context, lock *zkrecipes.Mutex) (end counter, err error) {
	err = lock.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
		data, stat, err := lease.Get(ctx, counterPath)
		if err != nil {
			return err
		}
		if end, err = parseCounter(data); err != nil {
			return err
		}
		_, err = lease.Commit(ctx, zkrecipes.OpDelete(counterPath, stat.Version))
		return err
	})
	return end, err
}
