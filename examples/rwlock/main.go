// Rwlock shows a read/write lock at work. One process publishes a config that
// consists of two znodes, and others read it. `make demo ARGS=rwlock` runs it.
//
//	go run ./examples/rwlock [-readers 4] [-versions 5] [-zk host:port,...]
//
// ZooKeeper reads one znode at a time, so a client that reads two can get one
// from before a change and the other from after it. Under a read lock that cannot
// happen: the writer is alone while it publishes. Then the writer downgrades. It
// verifies what it published while the readers already read it, and before any
// other writer can change it. The program draws which process held the lock and
// when. It ends with an error if a reader got a torn or an old config, if the
// writer was not alone, or if the readers did not overlap.
//
// A read lock costs as much as a write lock: two commits by a majority of the
// servers for each read. More servers do not make it faster, and a slow reader
// delays the writer and everyone behind it in the line. If you only need the
// latest config, watch it instead. A watch costs no commit, no client waits, and the
// servers notify the client of each change. For that, keep the config in one
// znode (1 MB at most), or give each version paths of its own and name the current
// version in one znode. Use a read lock if the config must not change while you
// work with it.
//
// Without -zk the first process is also the ZooKeeper: it serves package zktest
// to the others on loopback.
//
// Copy from writer.go and reader.go. The rest starts processes and draws.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
)

func main() {
	demo.Main("rwlock", parent, map[string]demo.Role{"writer": demo.Play(write), "reader": demo.Play(read)})
}

// parent creates the config, runs the writer and the readers, and judges what
// they reported.
func parent(ctx context.Context, args []string) error {
	flags := demo.NewFlags("rwlock")
	readers := flags.Processes("readers", 4, 2, "number of reader processes")
	versions := flags.Count("versions", 5, 1, "versions of the config to publish")
	env, stop, err := flags.Start(args)
	if err != nil {
		return err
	}
	defer stop()
	fmt.Printf("one writer publishes %d versions of a config in two znodes; %d readers read until each has the last\n\n", *versions, *readers)

	client, err := env.Dial(ctx, "parent", 0)
	if err != nil {
		return err
	}
	defer client.Close()
	lock := zkrecipes.NewRWLock(client, lockPath)
	if err := create(ctx, lock); err != nil {
		return err
	}

	crew := []demo.Worker{{Name: "writer", Role: "writer", Params: params{Env: env, Versions: *versions}}}
	crew = append(crew, demo.Workers(*readers, "reader", func(i int) any {
		return params{Env: env, ID: i + 1, Versions: *versions}
	})...)
	board := newBoard(os.Stdout, *readers)
	take := func(r report) (demo.Action, int) {
		board.take(r)
		return demo.Nothing, 0
	}
	return demo.Run(ctx, crew, take, func(ctx context.Context, complete bool) (string, error) {
		end, err := remove(ctx, lock)
		if err != nil {
			return "", err
		}
		return board.settle(end, complete)
	})
}

// create creates version 0 of the config, for readers that come before the
// writer.
func create(ctx context.Context, lock *zkrecipes.RWLock) error {
	return lock.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
		_, err := lease.Commit(ctx,
			zkrecipes.OpCreate(routesPath, routes(0), 0, nil),
			zkrecipes.OpCreate(backendsPath, backends(0), 0, nil))
		return err
	})
}

// remove deletes the config and returns its last version.
func remove(ctx context.Context, lock *zkrecipes.RWLock) (end config, err error) {
	err = lock.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
		if end, err = get(ctx, lease, 0); err != nil {
			return err
		}
		_, err = lease.Commit(ctx,
			zkrecipes.OpDelete(routesPath, -1),
			zkrecipes.OpDelete(backendsPath, -1))
		return err
	})
	return end, err
}
