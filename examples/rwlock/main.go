// Rwlock shows a read/write lock at work: one process publishes a config, which
// is in two znodes, and others read it. It is what `make demo-rw` of the README
// runs.
//
//	go run ./examples/rwlock [-readers 4] [-versions 5] [-zk host:port,...]
//
// ZooKeeper reads one znode at a time, so whoever reads two can get one of
// before a change and one of after. Under a read lock nobody can: the writer is
// alone while it publishes. Then it downgrades, and verifies what it published
// while the readers read it already and before anybody can write again. The
// program draws who held the lock and when. It ends with an error if a reader
// got a torn or an old config, if the writer was not alone, or if the readers did
// not overlap.
//
// A read lock costs two commits by a majority of the servers for each read, as
// many as a write lock: more servers do not make it faster, and a slow reader
// holds up the writer and all who come after. Who only wants the newest config
// does better with a watch: it costs no commit, nobody waits, and one hears of a
// change when it is made. For that the config is one znode (1 MB at most), or each
// version has paths of its own and one znode names the current one. A read lock
// is for who must not have it change while they work with it.
//
// Without -zk the first process is the ZooKeeper too: it serves package zktest
// on loopback to the others.
//
// writer.go and reader.go are the parts to copy from; the rest starts processes
// and draws.
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

func main() {
	demo.Main("rwlock", parent, map[string]demo.Role{"writer": write, "reader": read})
}

// parent is the process that starts the others, and draws what they tell.
func parent(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("rwlock", flag.ExitOnError)
	readers := flags.Int("readers", 4, "number of reader processes, 2 to 26")
	versions := flags.Int("versions", 5, "versions of the config to publish")
	list := flags.String("zk", "", "servers to use, `host:port,...` (default: one in this process)")
	flags.Parse(args)
	if *readers < 2 || *readers > 26 || *versions < 1 || flags.NArg() > 0 {
		flags.Usage()
		return errors.New("2 to 26 readers, one version or more, and no other arguments")
	}

	servers, stop, err := demo.ZooKeeper(*list)
	if err != nil {
		return err
	}
	defer stop()
	fmt.Printf("one writer, %d versions of a config in two znodes; %d readers, until each has read the last\n\n", *versions, *readers)

	prefix := demo.Prefix("rwlock")
	client, err := dial(ctx, servers, prefix, "parent")
	if err != nil {
		return err
	}
	defer client.Close()
	lock := zkrecipes.NewRWLock(client, lockPath)
	if err := create(ctx, lock); err != nil {
		return err
	}

	board := newBoard(os.Stdout, *readers)
	common := []string{"-versions", strconv.Itoa(*versions), "-zk", servers, "-prefix", prefix}
	crew := []demo.Worker{{Name: "writer", Args: append([]string{"writer"}, common...)}}
	for i := range *readers {
		crew = append(crew, demo.Worker{
			Name: "reader " + name(i+1),
			Args: append([]string{"reader", "-id", strconv.Itoa(i + 1)}, common...),
		})
	}
	runErr := demo.Run(ctx, crew, func(r report, _ func(int)) { board.take(r) })

	end, err := remove(context.WithoutCancel(ctx), lock) // also after Ctrl-C
	if err != nil {
		return errors.Join(runErr, err)
	}
	verdict, err := board.settle(end, runErr == nil)
	if err == nil {
		fmt.Println()
		fmt.Println(verdict)
	}
	return errors.Join(runErr, err)
}

// create makes a first version of the config, for readers that are early.
func create(ctx context.Context, lock *zkrecipes.RWLock) error {
	return lock.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
		_, err := lease.Commit(ctx,
			&zk.CreateRequest{Path: routesPath, Data: routes(0)},
			&zk.CreateRequest{Path: backendsPath, Data: backends(0)})
		return err
	})
}

// remove deletes the config and returns what it was.
func remove(ctx context.Context, lock *zkrecipes.RWLock) (end config, err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	err = lock.Do(ctx, func(ctx context.Context, lease *zkrecipes.Lease) error {
		if end, err = get(ctx, lease, 0); err != nil {
			return err
		}
		_, err = lease.Commit(ctx,
			&zk.DeleteRequest{Path: routesPath, Version: -1},
			&zk.DeleteRequest{Path: backendsPath, Version: -1})
		return err
	})
	return end, err
}
