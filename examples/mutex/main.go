// Mutex shows a lock at work: some processes add to one counter, a znode,
// under one lock, and one of them is killed while it holds. It is what
// `make demo` of the README runs.
//
//	go run ./examples/mutex [-workers 4] [-rounds 5] [-zk host:port,...]
//
// Each addition is a lease.Commit, so it is made only if the lock is still
// held, and leaves its fencing token beside the sum. The program draws who held
// the lock and when, and ends with an error if an addition was lost.
//
// Without -zk the first process is the ZooKeeper too: it serves package zktest
// on loopback to the others. `make demo-zk` gives them a real one.
//
// worker.go is the part to copy from; the rest starts processes and draws.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
)

const (
	lockPath    = "/lock"
	counterPath = "/counter"

	// sessionTimeout is short for the sake of the demo: for so long the lock of
	// the killed worker is kept. A service rather has 10 s or more.
	sessionTimeout = 2 * time.Second

	victim = 2 // the worker that is killed
)

func main() {
	demo.Main("mutex", parent, map[string]demo.Role{"worker": work})
}

// parent is the process that starts the workers, and draws what they tell.
func parent(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("mutex", flag.ExitOnError)
	workers := flags.Int("workers", 4, "number of worker processes, 2 to 26")
	rounds := flags.Int("rounds", 5, "additions each worker makes")
	list := flags.String("zk", "", "servers to use, `host:port,...` (default: one in this process)")
	flags.Parse(args)
	if *workers < 2 || *workers > 26 || *rounds < 1 || flags.NArg() > 0 {
		flags.Usage()
		return errors.New("2 to 26 workers, one round or more, and no other arguments")
	}

	servers, stop, err := demo.ZooKeeper(*list)
	if err != nil {
		return err
	}
	defer stop()
	fmt.Printf("%d workers, %d additions each, under one lock; session timeout asked for: %v\n\n", *workers, *rounds, sessionTimeout)

	prefix := demo.Prefix("mutex")
	client, err := dial(ctx, servers, prefix, "parent")
	if err != nil {
		return err
	}
	defer client.Close()
	lock := zkrecipes.NewMutex(client, lockPath)
	if err := create(ctx, lock); err != nil {
		return err
	}

	board := newBoard(os.Stdout, *workers)
	runErr := runWorkers(ctx, board, *workers, *rounds, "-zk", servers, "-prefix", prefix)

	end, err := remove(context.WithoutCancel(ctx), lock) // also after Ctrl-C
	if err != nil {
		return errors.Join(runErr, err)
	}
	verdict, err := board.settle(end)
	if err == nil {
		fmt.Println()
		fmt.Println(verdict)
	}
	return errors.Join(runErr, err)
}

// create makes the counter.
func create(ctx context.Context, lock *zkrecipes.Mutex) error {
	return lock.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
		zero := counter{token: lease.Token()}
		_, err := lease.Commit(ctx, &zk.CreateRequest{Path: counterPath, Data: zero.bytes()})
		return err
	})
}

// remove deletes the counter and returns what it was.
func remove(ctx context.Context, lock *zkrecipes.Mutex) (end counter, err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	err = lock.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
		data, stat, err := lease.Get(ctx, counterPath)
		if err != nil {
			return err
		}
		if end, err = parseCounter(data); err != nil {
			return err
		}
		_, err = lease.Commit(ctx, &zk.DeleteRequest{Path: counterPath, Version: stat.Version})
		return err
	})
	return end, err
}

// runWorkers runs the workers until all have ended, and kills one of them while
// it holds the lock.
func runWorkers(ctx context.Context, board *board, workers, rounds int, args ...string) error {
	killRound := (rounds + 1) / 2
	crew := make([]demo.Worker, workers)
	for i := range crew {
		id := i + 1
		crew[i].Name = "worker " + name(id)
		crew[i].Args = append([]string{"worker", "-id", strconv.Itoa(id), "-rounds", strconv.Itoa(rounds)}, args...)
		if id == victim {
			crew[i].Args = append(crew[i].Args, "-linger", strconv.Itoa(killRound))
		}
	}
	err := demo.Run(ctx, crew, func(r report, kill func(int)) {
		board.take(r)
		if r.Worker == victim && r.Round == killRound && r.What == holds {
			time.Sleep(100 * time.Millisecond) // for the picture
			kill(victim - 1)
			board.kill(victim)
		}
	})
	if err != nil {
		return err
	}
	for id := 1; id <= workers; id++ {
		if n := board.made(id); n < rounds && !board.killed(id) {
			err = errors.Join(err, fmt.Errorf("worker %s made %d of %d additions", name(id), n, rounds))
		}
	}
	return err
}
