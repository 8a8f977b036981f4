// Fence shows a service that refuses a worker which has lost its lock and does not know it. Three
// processes take turns under one lock, and its holder writes to a service over HTTP. The first
// holder is made to stand still for longer than its session lives, and then goes on.
//
//	go run ./examples/fence [-workers 3] [-writes 3] [-zk host:port,...]
//
// The service is behind fence.Handler, and the workers use fence.Transport. The program draws who
// holds the lock and when. It ends with an error if the service has an entry of an earlier holder
// after one of a later holder, or if the holder that stood still was not refused.
//
// Without -zk the first process is also the ZooKeeper: it serves package zktest to the others on
// loopback. A worker is made to stand still by SIGSTOP, which needs Unix.
//
// Copy from service.go and worker.go. The rest starts processes and draws.
package main

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/examples/internal/demo"
)

func main() {
	demo.Main("fence", parent, map[string]demo.Role{"worker": demo.Play(work)})
}

// parent serves the ledger, runs the workers, and judges what they wrote.
func parent(ctx context.Context, args []string) error {
	flags := demo.NewFlags("fence")
	workers := flags.Processes("workers", 3, 2, "number of worker processes")
	writes := flags.Count("writes", 3, 1, "writes of each holder before something happens")
	env, stop, err := flags.Start(args)
	if err != nil {
		return err
	}
	defer stop()
	client, err := env.Dial(ctx, "service", sessionTimeout)
	if err != nil {
		return err
	}
	defer client.Close()
	book := &ledger{name: env.Prefix + lockPath}
	service := httptest.NewServer(newService(zkrecipes.NewMutex(client, lockPath), book.name, book)) // on loopback
	defer service.Close()
	fmt.Printf("%d workers, one lock, one service; requested session timeout: %v\n\n", *workers, sessionTimeout)

	board := newBoard(os.Stdout, *workers, *writes)
	crew := demo.Workers(*workers, "worker", func(i int) any { return params{Env: env, ID: i, Service: service.URL} })
	return demo.Run(ctx, crew, board.take, func(_ context.Context, complete bool) (string, error) {
		book.mu.Lock()
		defer book.mu.Unlock()
		return board.settle(book.entries, complete)
	})
}
