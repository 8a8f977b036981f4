package zkrecipes_test

import (
	"context"
	"fmt"
	"log"
	"sync"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// barrierClient connects to a ZooKeeper inside this process. In your service, pass the
// addresses of your servers to Dial.
func barrierClient() (client *zkrecipes.Client, stop func()) {
	srv, err := zktest.Start()
	if err != nil {
		log.Fatal(err)
	}
	client, err = zkrecipes.Dial(context.Background(), []string{srv.Addr()}, nil)
	if err != nil {
		log.Fatal(err)
	}
	return client, func() {
		client.Close()
		srv.Close()
	}
}

// work is what each worker does. It has code of docs/barriers.md, see docs_test.go.
func work(ctx context.Context, client *zkrecipes.Client, workers int) error {
	barrier := zkrecipes.NewBarrier(client, "/jobs/17", workers)
	part, err := barrier.Wait(ctx) // until all workers are there
	if err != nil {
		return err
	}
	if err := compute(ctx, part); err != nil {
		return err
	}
	if lead, err := barrier.Wait(ctx); err != nil || lead != 0 { // until all parts are done
		return err
	}
	return merge(ctx)
}

var (
	partsMu sync.Mutex
	parts   = map[int]bool{}
)

func compute(_ context.Context, part int) error {
	partsMu.Lock()
	defer partsMu.Unlock()
	parts[part] = true
	return nil
}

func merge(context.Context) error {
	partsMu.Lock()
	defer partsMu.Unlock()
	fmt.Println("merged:", len(parts), "parts")
	return nil
}

// Each goroutine is a member, as a process would be.
func ExampleBarrier() {
	ctx := context.Background()
	client, stop := barrierClient()
	defer stop()
	const workers = 3
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			if err := work(ctx, client, workers); err != nil {
				log.Print(err)
			}
		})
	}
	wg.Wait()
	// Output: merged: 3 parts
}

func ExampleGate() {
	ctx := context.Background()
	client, stop := barrierClient()
	defer stop()
	maintenance := zkrecipes.NewGate(client, "/maintenance")
	if err := maintenance.Shut(ctx); err != nil {
		log.Fatal(err)
	}
	passed := make(chan error)
	go func() { passed <- maintenance.Wait(ctx) }() // every worker does so before it goes on
	if err := maintenance.Open(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("open:", <-passed == nil)
	// Output: open: true
}

func ExampleDoubleBarrier() {
	ctx := context.Background()
	client, stop := barrierClient()
	defer stop()
	const players = 2
	var wg sync.WaitGroup
	for range players {
		wg.Go(func() {
			game := zkrecipes.NewDoubleBarrier(client, "/game", players)
			visit, err := game.Enter(ctx) // until all players are there
			if err != nil {
				log.Print(err)
				return
			}
			play(visit.Context(ctx))                 // ends if the visit is lost
			if err := visit.Leave(ctx); err != nil { // returns when all have left
				log.Print(err)
			}
		})
	}
	wg.Wait()
	fmt.Println("all have left")
	// Output: all have left
}

func play(context.Context) {}
