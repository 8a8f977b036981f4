// Queue shows a queue at work between processes: some put items, others work on
// them, and one of these is killed in the middle of an item. It is what `make
// demo-queue` of the README runs.
//
//	go run ./examples/queue [-producers 2] [-consumers 3] [-items 12] [-zk host:port,...]
//
// The killed consumer's item comes back when its session has timed out, in its old
// position, and another consumer gets it. The program draws who works on what. It
// ends with an error if an item was not worked on, if one was that nobody had put,
// if one was delivered before another that the same producer had put earlier, or if
// anything is left in the queue.
//
// An item can be delivered more than once: a consumer that dies after it has done
// its work, and before it has said so, cannot be told from one that has not. What
// must be done once has to be fenced with the item's token, or to be operations in
// ZooKeeper that are part of the ack (Item.Ack).
//
// Without -zk the first process is the ZooKeeper too: it serves package zktest
// on loopback to the others.
//
// producer.go and consumer.go are the parts to copy from; the rest starts processes
// and draws.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
)

const (
	queuePath      = "/jobs"
	sessionTimeout = 2 * time.Second
)

func main() {
	demo.Main("queue", parent, map[string]demo.Role{"producer": produce, "consumer": consume})
}

// parent is the process that starts the others, and draws what they tell.
func parent(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("queue", flag.ExitOnError)
	producers := flags.Int("producers", 2, "number of producer processes, 1 to 26")
	consumers := flags.Int("consumers", 3, "number of consumer processes, 2 to 26; the second is killed")
	items := flags.Int("items", 12, "items of each producer, 3 or more")
	list := flags.String("zk", "", "servers to use, `host:port,...` (default: one in this process)")
	flags.Parse(args)
	if *producers < 1 || *producers > 26 || *consumers < 2 || *consumers > 26 || *items < 3 || flags.NArg() > 0 {
		flags.Usage()
		return errors.New("1 to 26 producers, 2 to 26 consumers, 3 items or more, and no other arguments")
	}

	servers, stop, err := demo.ZooKeeper(*list)
	if err != nil {
		return err
	}
	defer stop()
	fmt.Printf("%d producers put %d items each; %d consumers; session timeout asked for: %v\n\n", *producers, *items, *consumers, sessionTimeout)

	prefix := demo.Prefix("queue")
	defer func() { // a queue stays, also when it is empty
		err = errors.Join(err, demo.Remove(servers, prefix))
	}()
	var crew []demo.Worker
	add := func(role string, id int) {
		crew = append(crew, demo.Worker{
			Name: role + " " + name(id),
			Args: []string{role, "-id", strconv.Itoa(id), "-items", strconv.Itoa(*items), "-zk", servers, "-prefix", prefix},
		})
	}
	for i := range *consumers {
		add("consumer", i)
	}
	for i := range *producers {
		add("producer", i)
	}
	board := newBoard(os.Stdout, *producers, *consumers, *items)
	running, end := context.WithCancelCause(ctx)
	defer end(nil)
	runErr := demo.Run(running, crew, func(r report, kill func(int)) {
		if board.take(r) {
			kill(r.Worker)
		}
		if board.complete() {
			end(demo.ErrDone)
		}
	})

	client, err := dial(context.WithoutCancel(ctx), servers, prefix, "parent")
	if err != nil {
		return errors.Join(runErr, err)
	}
	defer client.Close()
	left, err := zkrecipes.NewQueue(client, queuePath, nil).Len(context.WithoutCancel(ctx))
	if err != nil {
		return errors.Join(runErr, err)
	}
	verdict, err := board.settle(left, runErr == nil)
	if err == nil {
		fmt.Println()
		fmt.Println(verdict)
	}
	return errors.Join(runErr, err)
}

func dial(ctx context.Context, servers, prefix, identity string) (*zkrecipes.Client, error) {
	return zkrecipes.Dial(ctx, strings.Split(servers, ","), &zkrecipes.Options{
		Prefix: prefix, Identity: identity, SessionTimeout: sessionTimeout,
	})
}

func name(worker int) string { return string(rune('A' + worker)) }
