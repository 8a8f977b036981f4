// Barrier shows map and reduce in several processes and rounds: all wait for all,
// compute on a part each, wait again, and one of them merges the parts. It is
// what `make demo-barrier` of the README runs.
//
//	go run ./examples/barrier [-workers 4] [-rounds 4] [-zk host:port,...]
//
// In each round the workers count the primes in the next range of numbers. A
// barrier gives each of them a number, and that is the part it takes; the one
// with number 0 merges when all parts are there. Parts are files in a directory
// of the machine's. The program draws who computes and who waits. It ends with an
// error if anybody went on before all were there, if a part was taken twice, or
// if a sum is wrong.
//
// Without -zk the first process is the ZooKeeper too: it serves package zktest
// on loopback to the others.
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

	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
)

func main() {
	demo.Main("barrier", parent, map[string]demo.Role{"worker": work})
}

// parent is the process that starts the others, and draws what they tell.
func parent(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("barrier", flag.ExitOnError)
	workers := flags.Int("workers", 4, "number of worker processes, 2 to 26")
	rounds := flags.Int("rounds", 4, "ranges of numbers to go through")
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
	dir, err := os.MkdirTemp("", "zkrecipes-demo-barrier-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Printf("%d workers count primes, %d numbers in each of %d rounds, and wait for one another twice in each\n\n", *workers, size, *rounds)

	prefix := demo.Prefix("barrier")
	var crew []demo.Worker
	for i := range *workers {
		crew = append(crew, demo.Worker{
			Name: "worker " + name(i),
			Args: []string{
				"worker", "-id", strconv.Itoa(i), "-workers", strconv.Itoa(*workers), "-rounds", strconv.Itoa(*rounds),
				"-dir", dir, "-zk", servers, "-prefix", prefix,
			},
		})
	}
	board := newBoard(os.Stdout, *workers)
	runErr := demo.Run(ctx, crew, func(r report, _ func(int)) { board.take(r) })
	verdict, err := board.settle(*rounds, runErr == nil)
	if err == nil {
		fmt.Println()
		fmt.Println(verdict)
	}
	return errors.Join(runErr, err)
}
