// Shards shares work out. Five processes have ten shards. One is killed, another stands still for longer
// than its session, and a third is upgraded: it stops, and a new one starts in its place. Each time the
// others take its shards, and when it is back it gets its share again.
//
//	go run ./examples/shards [-workers 5] [-shards 10] [-zk host:port,...]
//
// The program draws which process writes to which shard. It ends with an error if a process wrote to a
// shard after the next owner had, if a shard is left without an owner, or if the shares are not even.
//
// Without -zk the first process is also the ZooKeeper: it serves package zktest to the
// others on loopback. A worker is made to stand still by SIGSTOP, which needs Unix.
//
// Copy from worker.go. The rest starts processes and draws.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
)

func main() {
	demo.Main("shards", parent, map[string]demo.Role{"worker": demo.Play(work)})
}

func parent(ctx context.Context, args []string) error {
	flags := demo.NewFlags("shards")
	workers := flags.Processes("workers", 5, 4, "number of worker processes")
	shards := flags.Count("shards", 10, 5, "number of shards")
	env, stop, err := flags.Start(args)
	if err != nil {
		return err
	}
	defer stop()
	fmt.Printf("%d workers, %d shards; requested session timeout: %v\n\n", *workers, *shards, sessionTimeout)
	if err := createTable(ctx, env, *shards); err != nil {
		return err
	}
	board := newBoard(os.Stdout, *workers, *shards)
	crew := demo.Workers(*workers, "worker", func(i int) any { return params{Env: env, ID: i, Shards: *shards} })
	take := func(r report) (demo.Action, int) {
		board.see(r)
		return board.next()
	}
	return demo.Run(ctx, crew, take, func(_ context.Context, complete bool) (string, error) {
		verdict, err := board.settle(complete)
		return verdict, errors.Join(err, demo.Remove(env))
	})
}

// createTable creates the znodes to which the owners of the shards write.
func createTable(ctx context.Context, env demo.Env, shards int) error {
	client, err := env.Dial(ctx, "parent", sessionTimeout)
	if err != nil {
		return err
	}
	defer client.Close()
	for shard := range shards {
		_, err := client.Commit(ctx, zkrecipes.OpCreate(tablePath(shard), nil, 0, nil).WithParents())
		if err != nil {
			return err
		}
	}
	return nil
}
