// Queue shows a queue at work. Some processes put items, others work on them, and
// one of the consumers is killed in the middle of an item. `make demo ARGS=queue` runs
// it.
//
//	go run ./examples/queue [-producers 2] [-consumers 3] [-items 12] [-zk host:port,...]
//
// When the session of the killed consumer has expired, its items return to their
// old positions, and other consumers get them. Other items are delivered meanwhile,
// although the killed consumer stands in the consumers' line: the program tells the
// longest time that passed until a next one was taken. It draws which consumer works
// on what. It ends with an error if an item was not done, if an item was
// done that no producer had put, or if an item is left in the queue. It does not judge
// the order: several clients claim items only nearly in order where there are plenty.
//
// An item can be delivered more than once: nothing distinguishes a consumer that
// died before it did the work from one that died after it did the work and before
// it could say so. Work that must be done exactly once has to be fenced with the
// item's token, or consist of ZooKeeper operations that are part of the ack
// (Item.Ack).
//
// Without -zk the first process is also the ZooKeeper: it serves package zktest
// to the others on loopback.
//
// Copy from producer.go and consumer.go. The rest starts processes and draws.
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
	demo.Main("queue", parent, map[string]demo.Role{"producer": demo.Play(produce), "consumer": demo.Play(consume)})
}

// parent runs the consumers and the producers until all items are done, and
// judges what they reported.
func parent(ctx context.Context, args []string) (err error) {
	flags := demo.NewFlags("queue")
	producers := flags.Processes("producers", 2, 1, "number of producer processes")
	consumers := flags.Processes("consumers", 3, 2, "number of consumer processes, one of which is killed")
	items := flags.Count("items", 12, 3, "items that each producer puts")
	env, stop, err := flags.Start(args)
	if err != nil {
		return err
	}
	defer stop()
	defer func() { // the servers do not delete a queue, even if it is empty
		err = errors.Join(err, demo.Remove(env))
	}()
	fmt.Printf("%d producers put %d items each; %d consumers; requested session timeout: %v\n\n", *producers, *items, *consumers, sessionTimeout)

	crew := demo.Workers(*consumers, "consumer", func(i int) any { // first, so that consumer i is the crew's worker i
		return params{Env: env, ID: i}
	})
	crew = append(crew, demo.Workers(*producers, "producer", func(i int) any {
		return params{Env: env, ID: i, Items: *items}
	})...)
	board := newBoard(os.Stdout, *consumers, (*producers)*(*items))
	take := func(r report) (demo.Action, int) {
		switch {
		case board.take(r):
			return demo.Kill, r.Worker
		case board.complete():
			return demo.End, 0
		}
		return demo.Nothing, 0
	}
	return demo.Run(ctx, crew, take, func(ctx context.Context, complete bool) (string, error) {
		client, err := env.Dial(ctx, "parent", sessionTimeout)
		if err != nil {
			return "", err
		}
		defer client.Close()
		left, err := zkrecipes.NewQueue(client, queuePath, nil).Len(ctx)
		if err != nil {
			return "", err
		}
		return board.settle(left, complete)
	})
}
