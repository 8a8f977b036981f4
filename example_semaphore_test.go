package zkrecipes_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// semaphoreClient connects to a ZooKeeper inside this process. In your service, pass the
// addresses of your servers to Dial.
func semaphoreClient() (client *zkrecipes.Client, stop func()) {
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

// At most two exports run at a time, over all processes.
func ExampleSemaphore() {
	ctx := context.Background()
	client, stop := semaphoreClient()
	defer stop()

	exports := zkrecipes.NewSemaphore(client, "/exports", 2)
	first, err := exports.Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	err = exports.Do(ctx, func(ctx context.Context, lease *zkrecipes.SlotLease) error {
		_, err := exports.TryAcquire(ctx)
		fmt.Println("slots", first.Slot(), "and", lease.Slot(), "are held; a third must wait:", errors.Is(err, zkrecipes.ErrLocked))
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := first.Release(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// slots 0 and 1 are held; a third must wait: true
}

// A large job takes several slots together. Nobody overtakes it while it waits for them.
func ExampleSemaphore_AcquireN() {
	ctx := context.Background()
	client, stop := semaphoreClient()
	defer stop()

	workers := zkrecipes.NewSemaphore(client, "/workers", 4)
	lease, err := workers.AcquireN(ctx, 3)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("slots", lease.Slots())
	if err := lease.Release(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// slots [0 1 2]
}

// Resize changes the number of slots while the semaphore is in use.
func ExampleSemaphore_Resize() {
	ctx := context.Background()
	client, stop := semaphoreClient()
	defer stop()

	exports := zkrecipes.NewSemaphore(client, "/exports", 1)
	lease, err := exports.Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release()
	if err := exports.Resize(ctx, 2); err != nil {
		log.Fatal(err)
	}
	other, err := exports.Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer other.Release()
	holders, err := exports.Holders(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("holders:", len(holders))
	// Output:
	// holders: 2
}
