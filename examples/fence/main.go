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
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

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
	client, err := dial(ctx, env, "service")
	if err != nil {
		return err
	}
	defer client.Close()
	book := &ledger{name: env.Prefix + lockPath}
	url, done, err := serve(newService(zkrecipes.NewMutex(client, lockPath), book.name, book))
	if err != nil {
		return err
	}
	defer done()
	fmt.Printf("%d workers, one lock, one service; requested session timeout: %v\n\n", *workers, sessionTimeout)

	board := newBoard(os.Stdout, *workers, *writes)
	crew := make([]demo.Worker, *workers)
	for i := range crew {
		crew[i] = demo.Worker{Name: "worker " + demo.Letter(i), Role: "worker", Params: params{Env: env, ID: i, Service: url}}
	}
	return demo.Run(ctx, crew, board.act, func(_ context.Context, complete bool) (string, error) {
		book.mu.Lock()
		defer book.mu.Unlock()
		return board.settle(book.entries, complete)
	})
}

// serve serves on loopback until done is called.
func serve(h http.Handler) (url string, done func(), err error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	return "http://" + l.Addr().String(), func() {
		srv.Close()
		<-ended
	}, nil
}

// act notes a report and does what is due.
func (b *board) act(r report, crew *demo.Crew) {
	switch b.take(r) {
	case freeze:
		if err := crew.Freeze(b.first); err != nil {
			b.err = errors.Join(b.err, err)
			crew.Stop()
		}
	case thaw:
		_ = crew.Thaw(b.first) // it may have been stopped
	case end:
		crew.Stop()
	}
}
