// Barrier shows map and reduce in several processes and rounds. All wait for all,
// each computes a part, all wait again, and one of them merges the parts.
// `make demo ARGS=barrier` runs it.
//
//	go run ./examples/barrier [-workers 4] [-rounds 4] [-zk host:port,...]
//
// In each round the workers count the primes in the next range of numbers. The
// barrier gives each of them a number, which says which part it computes. The
// worker with number 0 merges once all parts are there. Parts are files in a
// directory of this machine. The program draws which workers compute and which
// wait. It ends with an error if a worker went on before all were there, if a part
// was taken twice, or if a sum is wrong.
//
// Without -zk the first process is also the ZooKeeper: it serves package zktest
// to the others on loopback.
//
// Copy from worker.go. The rest starts processes and draws.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
)

func main() {
	demo.Main("barrier", parent, map[string]demo.Role{"worker": demo.Play(work)})
}

// parent runs the workers and judges what they reported.
func parent(ctx context.Context, args []string) error {
	flags := demo.NewFlags("barrier")
	workers := flags.Processes("workers", 4, 2, "number of worker processes")
	rounds := flags.Count("rounds", 4, 1, "ranges of numbers to go through")
	env, stop, err := flags.Start(args)
	if err != nil {
		return err
	}
	defer stop()
	dir, err := os.MkdirTemp("", "zkrecipes-demo-barrier-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Printf("%d workers count primes in %d rounds of %d numbers, and wait for one another twice in each\n\n", *workers, *rounds, size)

	crew := demo.Workers(*workers, "worker", func(i int) any {
		return params{Env: env, ID: i, Workers: *workers, Rounds: *rounds, Dir: dir}
	})
	board := newBoard(os.Stdout, *workers)
	take := func(r report) (demo.Action, int) {
		board.take(r)
		return demo.Nothing, 0
	}
	return demo.Run(ctx, crew, take, func(_ context.Context, complete bool) (string, error) {
		return board.settle(*rounds, complete)
	})
}
